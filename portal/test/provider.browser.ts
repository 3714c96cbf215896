//! Signing in by an identity provider, whose pages are on another origin.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import type { Page } from "playwright-core";

import { Browser } from "./browser.ts";
import { IdentityProvider } from "./identity_provider.ts";
import { PASSWORD, accept, toAccount } from "./person.ts";
import { Service } from "./service.ts";

const LABEL = "With the university";

let provider: IdentityProvider;
let service: Service;
let browser: Browser;

before(async () => {
  service = await Service.start();
  await service.stop();
  provider = await IdentityProvider.start(`${service.baseUrl}/session/oidc/callback`, {
    signed: "RS256", proof: "client_secret_basic",
  });
  const secret = path.join(service.folder, "secret");
  writeFileSync(secret, provider.secret);
  await service.resume(
    `public_url=${service.origin}`, `oidc.issuer=${provider.issuer}`, `oidc.client_id=${provider.clientId}`,
    `oidc.client_secret_file=${secret}`, `oidc.label=${LABEL}`,
    "oidc.admit_claim=groups", 'oidc.admit_values=["md"]',
  );
  browser = await Browser.open(service.origin);
});

after(async () => {
  await browser?.close();
  await service?.close();
  await provider?.stop();
});

/** Says at the provider who they are, and agrees. */
async function introduce(page: Page, name: string): Promise<void> {
  await page.getByLabel("Name at the university").fill(name);
  await page.getByRole("button", { name: "Go on" }).click();
  await page.getByRole("button", { name: "Agree" }).click();
}

/** Goes to the first page, as somebody whom neither the portal nor the provider knows, and to the provider. */
async function leave({ page }: Browser): Promise<void> {
  await page.context().clearCookies();
  await page.goto(service.portal);
  await page.getByRole("link", { name: LABEL }).click();
}

/** Waits for a page of somebody who is signed in to Ada's account, not to another that is called after it. */
async function isAdas({ page }: Browser, heading: string): Promise<void> {
  await page.getByRole("heading", { name: heading }).waitFor();
  await page.getByRole("button", { name: /^ada(?!-)/ }).waitFor();
}

test("who cancels at the provider is told so, where they were", async () => {
  const { page } = browser;
  await page.goto(`${service.portal}systems?name=water`);
  await page.getByRole("link", { name: LABEL }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("alert").filter({ hasText: "it was cancelled, or refused there" }).waitFor();
  assert.match(page.url(), /\/portal\/systems\?name=water#/);
});

test("who signs in at the provider goes on where they were", async () => {
  const { page } = browser;
  assert.equal(await provider.withoutChallenge(), "invalid_request", "it lets nobody in without PKCE");
  await page.getByRole("link", { name: LABEL }).click();
  await introduce(page, "ada");
  await isAdas(browser, "Systems");
  assert.equal(page.url(), `${service.portal}systems?name=water`);
});

test("who is signed out in the middle keeps what was typed", async () => {
  const { page } = browser;
  await toAccount(browser, "ada");
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByLabel("Name").fill("typed before");
  await page.context().clearCookies();
  await page.getByRole("button", { name: "Make the key" }).click();
  const dialog = page.getByRole("dialog", { name: "You have been signed out" });
  const opened = page.waitForEvent("popup");
  await dialog.getByRole("link", { name: LABEL }).click();
  const popup = await opened;
  await introduce(popup, "ada");
  await popup.getByRole("heading", { name: "Jobs" }).waitFor();
  await popup.close();
  // Without a screen every page has the focus all the time.
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.getByRole("dialog", { name: "Your new key" }).waitFor();
  await page.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("row", { name: "typed before" }).waitFor();
});

test("the same person has the same account, whatever keys the provider has", async () => {
  const before = await provider.keys();
  provider.renew({ signed: "RS256", proof: "client_secret_basic" });
  const after = await provider.keys();
  assert.ok(after.every((kid) => !before.includes(kid)));
  await leave(browser);
  await introduce(browser.page, "ada");
  await isAdas(browser, "Jobs");
});

for (const signed of ["RS256", "ES256"] as const) {
  test(`a provider that signs with ${signed} and takes the secret in a form signs people in`, async () => {
    provider.renew({ signed, proof: "client_secret_post" });
    await leave(browser);
    await introduce(browser.page, "ada");
    await isAdas(browser, "Jobs");
  });
}

test("who is not admitted is told that there is no account", async () => {
  const { page } = browser;
  await leave(browser);
  await introduce(page, "bob");
  await page.getByRole("alert").filter({ hasText: "You have no account here" }).waitFor();
  assert.doesNotMatch(service.command("account", "list"), /bob/);
});

test("without the provider passwords are still good", async () => {
  const { page } = browser;
  await page.context().clearCookies();
  await accept(browser, service.command("account", "invite", "ada"));
  await provider.stop();
  await leave(browser);
  await page.getByRole("alert").filter({ hasText: "Signing in does not work at present" }).waitFor();
  await page.getByLabel("Name").fill("ada");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await isAdas(browser, "Jobs");
  await provider.resume();
  await leave(browser);
  await introduce(page, "ada");
  await isAdas(browser, "Jobs");
});
