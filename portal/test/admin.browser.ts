//! What administrators do: invite, watch, cancel, disable.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import path from "node:path";

import type { Page } from "playwright-core";

import { Browser } from "./browser.ts";
import { accept, invited } from "./person.ts";
import { Service } from "./service.ts";

let service: Service;
let browser: Browser;
let page: Page;
/** Who is invited. */
let other: Browser;

before(async () => {
  service = await Service.start("sessions.tries_per_minute=0", "worker.slots=1");
  browser = await invited(service, service.command("account", "create", "ada", "--admin"));
  page = browser.page;
  other = await Browser.open(service.origin);
});

after(async () => {
  await other?.close();
  await browser?.close();
  await service?.close();
});

/** Submits the build of a system, as the account that a page has signed in; the status of the answer. */
async function built(from: Page, body: object): Promise<number> {
  const [url, text] = [`${service.baseUrl}/submit/system`, JSON.stringify(body)];
  return from.evaluate(async ([url, text]) => {
    const headers = { "content-type": "application/json" };
    return (await fetch(url, { method: "POST", headers, body: text })).status;
  }, [url, text] as const);
}

test("an account is made, and its owner signs in by the link", async () => {
  await page.getByRole("link", { name: "Admin" }).click();
  await page.getByRole("row", { name: /ada · admin/ }).waitFor();
  await page.getByRole("row", { name: /^data folder/ }).waitFor();
  await page.getByText("Nothing waits or runs.").waitFor();
  await browser.check("admin");
  await page.getByRole("button", { name: "New account" }).click();
  const name = page.getByLabel("Name");
  await name.fill("a/b");
  await page.getByRole("button", { name: "Make and invite" }).click();
  await page.getByText("A name has no / ? # or %").waitFor();
  await browser.check("account_new");
  await name.fill("bob");
  await page.getByText("A name has no / ? # or %").waitFor({ state: "detached" });
  // The second click of two would be refused, as there is an account now, and take the link away.
  await page.getByRole("button", { name: "Make and invite" }).dblclick();
  await page.getByText("It is shown this once").waitFor();
  const link = await page.locator("dialog code").innerText();
  await browser.check("account_invited");
  await page.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("row", { name: /bob.*invited/ }).waitFor();
  await accept(other, link);
  assert.equal(await other.page.getByRole("link", { name: "Admin" }).count(), 0);
  await other.page.goto(`${service.portal}admin`);
  await other.page.getByRole("heading", { name: "Not allowed" }).waitFor();
  await other.check("not_allowed");
  await other.page.getByRole("link", { name: "Jobs" }).click();
});

test("what the account has queued is seen, and cancelled", async () => {
  const { page: theirs } = other;
  await theirs.getByRole("link", { name: "Files" }).click();
  await theirs.locator("input[type=file]").setInputFiles(path.resolve("../clients/alanine.pdb"));
  const file = theirs.getByRole("row", { name: "alanine" });
  const href = await file.getByRole("link", { name: "alanine" }).getAttribute("href");
  const protein = href?.split("/").at(-1) ?? "";
  // The first takes long enough for the others to be seen waiting.
  for (let n = 0; n < 8; n += 1) assert.equal(await built(theirs, { protein, minimum_padding: 5 }), 200);
  await page.getByRole("row", { name: /^bob system box_.* queued .*place 7/ }).waitFor();
  await page.getByText(/^Builds and jobs, on .*; \d wait/).waitFor();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByRole("row", { name: /^bob/ }).getByText(/^system, /).filter({ visible: true }).first().waitFor();
  await page.setViewportSize({ width: 1280, height: 900 });
  await browser.check("admin_queue");
  const newest = page.getByRole("row", { name: /^bob system box_.* queued/ }).first();
  const id = await newest.locator("code").innerText();
  await newest.getByRole("button", { name: /^Cancel/ }).click();
  await browser.check("queue_cancel");
  await page.getByRole("button", { name: "Cancel it" }).click();
  await page.getByRole("row", { name: id }).waitFor({ state: "detached" });
  browser.look();
});

test("limits are changed, and the last administrator stays", async () => {
  await page.getByRole("button", { name: "Change bob" }).click();
  const tasks = page.getByLabel("Tasks that may wait or run");
  await tasks.fill("1.5");
  await page.getByRole("button", { name: "Change it" }).click();
  await page.getByText("Whole numbers only").waitFor();
  await tasks.fill("7");
  await page.getByText("Whole numbers only").waitFor({ state: "detached" });
  const space = page.getByLabel("Space of files and results, GB");
  for (const none of ["Infinity", "0x10"]) {
    await space.fill(none);
    await page.getByRole("button", { name: "Change it" }).click();
    await page.getByText("A number; nothing for the service's limit").waitFor();
  }
  await space.fill("0.5");
  await browser.check("account_change");
  await page.getByRole("button", { name: "Change it" }).click();
  await page.getByRole("row", { name: /bob .*of 7 .*of 500 MB/ }).waitFor();
  await page.getByRole("button", { name: "Change ada" }).click();
  await page.getByLabel("Role").selectOption("user");
  await page.getByRole("button", { name: "Change it" }).click();
  browser.expect(/409/);
  await page.getByRole("dialog").getByRole("alert").waitFor();
  await page.getByRole("button", { name: "Close" }).click();
});

test("an account that is disabled is signed out, its tasks end, and it comes back when it is enabled", async () => {
  await page.getByRole("button", { name: "Disable bob" }).click();
  await browser.check("account_disable");
  await page.getByRole("button", { name: "Disable it" }).click();
  await page.getByRole("row", { name: /bob disabled/ }).waitFor();
  // The queue is asked for by itself.
  await page.getByRole("row", { name: /^bob system box_.* queued/ }).first().waitFor({ state: "detached" });
  await page.getByText("Nothing waits or runs.").waitFor();
  other.expect(/401/);
  await other.page.reload();
  await other.page.getByRole("button", { name: "Sign in" }).waitFor();
  await page.getByRole("button", { name: "Enable bob" }).click();
  await page.getByRole("row", { name: /bob can sign in/ }).waitFor();
  browser.look();
});
