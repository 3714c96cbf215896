//! The ways into an account, and what ends them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import type { Page } from "playwright-core";

import { Browser } from "./browser.ts";
import { accept, invited, PASSWORD, toAccount } from "./person.ts";
import { Service } from "./service.ts";

const CHOSEN = "four words that nobody says";
const FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:150.0) Gecko/20100101 Firefox/150.0";

let service: Service;
let browser: Browser;
let page: Page;

before(async () => {
  // The tests sign in more often than people do.
  service = await Service.start("sessions.tries_per_minute=0", "limits.account_bytes=4000000000");
  browser = await invited(service, service.command("account", "create", "ada", "--admin"));
  page = browser.page;
});

after(async () => {
  await browser?.close();
  await service?.close();
});

/** Signs in from elsewhere; the cookie of the session. */
async function signInElsewhere(account: string, password = PASSWORD): Promise<string> {
  const answer = await fetch(`${service.baseUrl}/session`, {
    method: "POST",
    headers: { "content-type": "application/json", "origin": service.origin, "user-agent": FIREFOX },
    body: JSON.stringify({ account, password }),
  });
  assert.equal(answer.status, 200);
  return answer.headers.get("set-cookie")?.split(";")[0] ?? "";
}

async function askedWith(cookie: string): Promise<number> {
  return (await fetch(`${service.baseUrl}/session`, { headers: { cookie } })).status;
}

test("a session elsewhere is listed and ended", async () => {
  const elsewhere = await signInElsewhere("ada");
  await toAccount(browser, "ada");
  await page.getByRole("row", { name: /this browser/ }).waitFor();
  await page.getByText("of 4 GB").waitFor();
  await browser.check("account_sessions");
  await page.getByRole("button", { name: "End the session of Firefox 150 on Windows" }).click();
  await browser.check("session_end");
  await page.getByRole("button", { name: "End it" }).click();
  await page.getByRole("row", { name: /Firefox 150/ }).waitFor({ state: "detached" });
  assert.equal(await askedWith(elsewhere), 401);
});

test("an invitation that another replaces while its form is filled in is refused there", async () => {
  const other = await Browser.open(service.origin);
  try {
    await other.page.goto(service.command("account", "invite", "ada"));
    await other.page.getByLabel("Password").fill(CHOSEN);
    await other.page.getByLabel("The same again").fill(CHOSEN);
    service.command("account", "invite", "ada");
    await other.page.getByRole("button", { name: "Set the password" }).click();
    await other.page.getByRole("alert").getByText(/was replaced by another/).waitFor();
    assert.equal(await other.page.getByLabel("Password").count(), 0, "it would be refused again");
    other.look();
  } finally {
    await other.close();
  }
});

test("all others are ended at once", async () => {
  const cookies = [await signInElsewhere("ada"), await signInElsewhere("ada")];
  await page.reload();
  await page.getByRole("button", { name: "End all others" }).click();
  await page.getByRole("button", { name: "End them" }).click();
  await page.getByRole("row", { name: /Firefox 150/ }).first().waitFor({ state: "detached" });
  for (const cookie of cookies) assert.equal(await askedWith(cookie), 401);
  await page.getByRole("row", { name: /this browser/ }).waitFor();
  browser.look();
});

test("another password ends other sessions, and is the one from then on", async () => {
  const elsewhere = await signInElsewhere("ada");
  const present = page.getByLabel("Present password");
  const change = page.getByRole("button", { name: "Change the password" });
  await present.fill("not the password at all");
  await page.getByLabel("New password", { exact: true }).fill("short");
  await change.click();
  await page.getByText("5 characters are too few").waitFor();
  await page.getByLabel("New password", { exact: true }).fill("shorter");
  await page.getByText("7 characters are too few").waitFor();
  await page.getByLabel("New password", { exact: true }).fill(CHOSEN);
  await page.locator("[aria-invalid=true]").waitFor({ state: "detached" });
  await page.getByLabel("New password again").fill(CHOSEN);
  await change.click();
  await page.locator("[aria-invalid=true]").waitFor();
  assert.equal(await page.locator("[aria-invalid=true]").getAttribute("name"), "password");
  assert.equal(await askedWith(elsewhere), 200, "nothing has changed yet");
  await browser.check("password_refused");
  const refused = page.locator("[aria-invalid=true]").and(present);
  await present.fill("not the password either");
  await refused.waitFor({ state: "detached" });
  await change.click();
  await refused.waitFor();
  await present.fill(PASSWORD);
  await refused.waitFor({ state: "detached" });
  await change.click();
  await page.getByText("The password is changed").waitFor();
  assert.equal(await askedWith(elsewhere), 401);
  assert.equal(await present.inputValue(), "");
  await signInElsewhere("ada", CHOSEN);
  browser.look();
});

test("a form begins anew where it begins with something else", async () => {
  await page.goto(`${service.portal}system/new?protein=villin`);
  await page.getByLabel("box_name").fill("of villin");
  await page.getByRole("button", { name: "New ▾" }).click();
  await page.getByRole("link", { name: "System", exact: true }).click();
  await page.waitForURL(/system\/new$/);
  assert.equal(await page.getByLabel("protein", { exact: true }).inputValue(), "");
  assert.equal(await page.getByLabel("box_name").inputValue(), "");
  browser.look();
});

test("a page is left when another window has signed in somebody else, and what was typed with it", async () => {
  await page.getByLabel("box_name").fill("of ada");
  await page.reload();
  assert.equal(await page.getByLabel("box_name").inputValue(), "of ada", "it outlives the page");
  service.command("account", "create", "bob");
  const other = await page.context().newPage();
  await accept({ page: other } as Browser, service.command("account", "invite", "bob"));
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.getByRole("button", { name: "bob ▾" }).waitFor();
  await page.goto(`${service.portal}system/new`);
  assert.equal(await page.getByLabel("box_name").inputValue(), "");
  await other.close();
  browser.look();
});

test("a text that is too long is said to be, and nothing of it is cut", async () => {
  await toAccount(browser, "bob");
  const long = "a".repeat(205);
  const chosen = page.getByLabel("New password", { exact: true });
  await chosen.fill(long);
  await page.getByLabel("New password again").fill(long);
  await page.getByLabel("Present password").fill(PASSWORD);
  await page.getByText("205 characters are too many; at most 200 are taken.").first().waitFor();
  assert.equal(await chosen.inputValue(), long);
  await page.getByRole("button", { name: "Change the password" }).click();
  await browser.check("password_long");
  assert.ok(await chosen.evaluate((it) => it === document.activeElement), "it has the focus");
  assert.equal(await page.getByText("The password is changed").count(), 0);
  await signInElsewhere("bob");
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("button", { name: "Make the key" }).click();
  await page.getByRole("dialog").getByText("Fill this in.").waitFor();
  await page.getByRole("dialog").getByLabel("Name").fill("  ");
  await page.getByRole("button", { name: "Make the key" }).click();
  await page.getByRole("dialog").getByText("Blanks alone are no name.").waitFor();
  await page.getByRole("dialog").getByLabel("Name").fill(" a");
  await page.getByText("Blanks alone are no name.").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Close" }).click();
  browser.look();
});

test("two clicks make one key", async () => {
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByLabel("Name").fill("once");
  await page.getByRole("button", { name: "Make the key" }).dblclick();
  await page.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("row", { name: "once" }).waitFor();
  assert.equal(await page.getByRole("row", { name: "once" }).count(), 1);
  browser.look();
});

test("a password that was typed otherwise again is said to be where it was", async () => {
  await page.getByLabel("Present password").fill(PASSWORD);
  await page.getByLabel("New password", { exact: true }).fill(PASSWORD);
  await page.getByLabel("New password again").fill(CHOSEN);
  await page.getByRole("button", { name: "Change the password" }).click();
  await page.getByLabel("New password again").and(page.locator("[aria-invalid=true]")).waitFor();
  assert.equal(await page.locator("[aria-invalid=true]").count(), 1);
  await page.getByLabel("New password", { exact: true }).fill(CHOSEN);
  await page.locator("[aria-invalid=true]").waitFor({ state: "detached" });
  browser.look();
});

test("a session that has ended elsewhere asks to sign in when the window is looked at", async () => {
  await page.context().clearCookies();
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  const dialog = page.getByRole("dialog", { name: "You have been signed out" });
  await dialog.getByLabel("Password").fill(PASSWORD);
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await dialog.waitFor({ state: "detached" });
  browser.look();
});

test("signing out in one window leaves the page in the others", async () => {
  const other = await page.context().newPage();
  await other.goto(`${service.portal}files`);
  await other.getByRole("button", { name: "bob" }).click();
  await other.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal(await page.getByText("bob").count(), 0, "nothing of it is left");
  await other.close();
  browser.look();
});
