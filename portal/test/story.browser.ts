//! What a person does with the portal, from the invitation to the end, against a real service.
import assert from "node:assert/strict";
import path from "node:path";
import { after, before, test } from "node:test";

import type { Page } from "playwright-core";

import { Browser } from "./browser.ts";
import { Service } from "./service.ts";

/** What waits for the engine, on a machine that has other work. */
const LONG_MS = 120_000;
const PASSWORD = "correct horse battery staple";

let service: Service;
let browser: Browser;
let page: Page;

before(async () => {
  service = await Service.start();
  browser = await Browser.open(service.origin);
  page = browser.page;
});

after(async () => {
  await browser?.close();
  await service?.close();
});

async function signIn(account: string, password: string): Promise<void> {
  await page.getByLabel("Name").fill(account);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

async function askedWith(key: string): Promise<number> {
  return (await fetch(`${service.baseUrl}/info/jobs`, { headers: { "x-api-key": key } })).status;
}

test("an invitation sets a password and signs in, once", async () => {
  const link = service.command("account", "create", "ada", "--admin");
  await page.goto(link);
  await page.getByLabel("Password").fill("too short");
  await page.getByRole("button", { name: "Set the password" }).click();
  await page.getByText("9 characters are too few").waitFor();
  await browser.check("invitation");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByLabel("The same again").fill(PASSWORD);
  await page.getByRole("button", { name: "Set the password" }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  assert.equal(new URL(page.url()).hash, "", "the token is no longer in the address");

  await page.goto("about:blank");
  await page.goto(link);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByLabel("The same again").fill(PASSWORD);
  await page.getByRole("button", { name: "Set the password" }).click();
  await page.getByRole("alert").waitFor();
  browser.look();
});

test("the first page weighs what it may", async () => {
  await page.goto(service.portal);
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  await browser.check("jobs_none");
  const first = browser.weightOf("index");
  assert.ok(first > 50_000, `${first} bytes cannot be all`);
  assert.ok(first <= 95_000, `${first} bytes before anything is shown`);
  const all = browser.weightOf("");
  assert.ok(all <= 150_000, `${all} bytes before the list of jobs is shown`);
});

test("a structure is uploaded, built and simulated", async () => {
  await page.getByRole("link", { name: "Files" }).click();
  await page.getByText("There is no file yet.").waitFor();
  await browser.check("files_none");
  await page.locator("input[type=file]").setInputFiles(path.resolve("../clients/alanine.pdb"));
  const row = page.getByRole("row", { name: "alanine" });
  await row.waitFor();
  await browser.check("files");

  await row.getByRole("link", { name: "alanine" }).click();
  await page.getByRole("img", { name: /^Structure of \d+ atoms/ }).waitFor({ timeout: LONG_MS });
  await browser.check("file");
  const viewer = browser.weightOf("viewer");
  assert.ok(viewer > 500_000 && viewer <= 860_000, `${viewer} bytes of the viewer`);
  await page.getByRole("link", { name: "Files" }).click();

  await row.getByRole("link", { name: "Build" }).click();
  await page.getByRole("heading", { name: "New system" }).waitFor();
  const estimate = page.getByRole("region", { name: "Estimate" });
  await estimate.getByText(/^about [\d ,.\u2009\u202f]+$/).first().waitFor();
  await page.getByLabel("minimum_padding").fill("0.1");
  await page.locator("[aria-invalid=true]").waitFor();
  assert.equal(await page.locator("[aria-invalid=true]").count(), 1, "what is wrong is at its field");
  await estimate.getByText("Something has to be changed first.").waitFor();
  await browser.check("system_new");
  await page.getByLabel("minimum_padding").fill("0.5");
  await page.getByLabel("box_name").fill("a small <box>");
  await page.getByRole("button", { name: "Build" }).click();
  await page.getByRole("heading", { name: "a small <box>" }).waitFor();
  await page.getByRole("link", { name: "Simulate" }).waitFor({ timeout: LONG_MS });
  await browser.check("system");

  await page.getByRole("link", { name: "Simulate" }).click();
  await page.getByRole("button", { name: "Stages of my own" }).click();
  await page.getByRole("button", { name: "Remove stage 1" }).click();
  await page.getByRole("group", { name: "Stages" }).getByLabel("time").fill("0.00004");
  await page.getByLabel("minimization_steps").fill("20");
  await page.getByLabel("temperature").fill("1,5");
  await page.getByText("1,5 is not a number").waitFor();
  await browser.check("job_new");
  await page.getByLabel("temperature").fill("310");
  await estimate.getByText("20", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByRole("heading", { name: /^job_/ }).waitFor();
  await page.getByRole("status").getByText("succeeded").waitFor({ timeout: LONG_MS });
  await page.getByRole("cell", { name: "production" }).waitFor();
  await browser.check("job");
  await page.getByRole("link", { name: "Jobs" }).click();
  await page.getByRole("row", { name: /succeeded/ }).waitFor();
  await browser.check("jobs");
});

test("a portfolio has a margin, and nothing of it is kept", async () => {
  await page.getByRole("link", { name: "Margin" }).click();
  const portfolio = page.getByLabel("Portfolio", { exact: true });
  await portfolio.fill("ticker,type,quantity\nXEQ1,long,2\nXEQ1,short,1\n");
  await page.getByRole("button", { name: "Calculate" }).click();
  await page.getByRole("row", { name: /XEQ1 short/ }).waitFor({ timeout: LONG_MS });
  await browser.check("margin");
  await page.getByRole("link", { name: "Jobs" }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  await page.getByRole("link", { name: "Margin" }).click();
  assert.equal(await portfolio.inputValue(), "");
});

test("a key works until it is revoked", async () => {
  await page.getByRole("button", { name: "ada" }).click();
  await page.getByRole("link", { name: "Account and keys" }).click();
  await page.getByRole("heading", { name: "Account" }).waitFor();
  await page.getByText("There is none.").waitFor();
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByLabel("Name").fill("laptop");
  await browser.check("key_new");
  await page.getByRole("button", { name: "Make the key" }).click();
  const dialog = page.getByRole("dialog", { name: "Your new key" });
  const key = await dialog.locator("code").first().innerText();
  assert.equal(await askedWith(key), 200);
  await browser.check("key");
  for (let presses = 0; presses < 3; presses += 1) await page.keyboard.press("Escape");
  assert.ok(await dialog.isVisible(), "only who has the key closes it");
  await dialog.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("row", { name: "laptop" }).waitFor();
  assert.ok(!(await page.content()).includes(key), "it is shown once");
  await browser.check("account");

  await page.getByRole("button", { name: "Revoke laptop" }).click();
  await browser.check("key_revoke");
  await page.getByRole("button", { name: "Revoke", exact: true }).click();
  await page.getByText("There is none.").waitFor();
  assert.equal(await askedWith(key), 401);
});

test("who is signed out in the middle goes on after signing in again", async () => {
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByLabel("Name").fill("typed before");
  await page.context().clearCookies();
  await page.getByRole("button", { name: "Make the key" }).click();
  const dialog = page.getByRole("dialog", { name: "You have been signed out" });
  await dialog.getByLabel("Password").fill("a wrong password");
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await dialog.getByRole("alert").waitFor();
  await browser.check("signed_out");
  await dialog.getByLabel("Password").fill(PASSWORD);
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("dialog", { name: "Your new key" }).waitFor();
  await page.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("row", { name: "typed before" }).waitFor();
});

test("an address that leads nowhere says so", async () => {
  await page.goto(`${service.portal}no/such/page`);
  await page.getByRole("heading", { name: "Not found" }).waitFor();
  await browser.check("not_found");
  await page.getByRole("link", { name: "Back to the start" }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
});

test("a service that is gone is missed, and used again when it is back", async () => {
  await page.getByRole("button", { name: "ada" }).click();
  await page.getByRole("link", { name: "Account and keys" }).click();
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByLabel("Name").fill("later");
  browser.expect(/ERR_CONNECTION_REFUSED/);
  await service.stop();
  await page.getByRole("button", { name: "Make the key" }).click();
  const bar = page.getByText("The service does not answer.");
  await page.getByText("The service cannot be reached.").waitFor();
  await bar.waitFor();
  await browser.check("gone");
  await service.resume();
  await bar.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Make the key" }).click();
  await page.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("row", { name: "later" }).waitFor();
  browser.expect(undefined);
});

test("after signing out one signs in again", async () => {
  await page.getByRole("button", { name: "ada" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await browser.check("sign_in");
  await signIn("ada", "not the password");
  await page.getByRole("alert").waitFor();
  await browser.check("sign_in_refused");
  await signIn("ada", PASSWORD);
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  browser.look();
});
