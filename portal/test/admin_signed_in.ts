//! A service with an administrator who is signed in, for the tests of a file: there when the first begins.
import { after, before } from "node:test";

import type { Page } from "playwright-core";

import type { Browser } from "./browser.ts";
import { invited } from "./person.ts";
import { Service } from "./service.ts";

export let service: Service;
export let browser: Browser;
export let page: Page;

before(async () => {
  service = await Service.start();
  browser = await invited(service, service.command("account", "create", "ada", "--admin"));
  page = browser.page;
});

after(async () => {
  await browser?.close();
  await service?.close();
});
