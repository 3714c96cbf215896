//! What a person does at the beginning of every test: gets an invitation, and signs in with a browser.
import assert from "node:assert/strict";

import type { Locator, Page } from "playwright-core";

import { Browser } from "./browser.ts";
import type { Service } from "./service.ts";

export const PASSWORD = "correct horse battery staple";

/** A browser in which the account that a link invites has signed in. */
export async function invited(service: Service, link: string): Promise<Browser> {
  const browser = await Browser.open(service.origin);
  try {
    await accept(browser, link);
  } catch (error) {
    // An open browser would keep the tests from ending.
    await browser.close();
    throw error;
  }
  return browser;
}

/** Chooses a password by the link of an invitation, and is signed in. */
export async function accept({ page }: Browser, link: string): Promise<void> {
  await page.goto(link);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByLabel("The same again").fill(PASSWORD);
  await page.getByRole("button", { name: "Set the password" }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
}

/** Goes to the page of the account. */
export async function toAccount({ page }: Browser, account: string): Promise<void> {
  await page.getByRole("button", { name: account }).click();
  await page.getByRole("link", { name: "Account and keys" }).click();
  await page.getByRole("heading", { name: "Account" }).waitFor();
}

/** Steps across and down from the middle, the nearest first. */
function aroundMiddle(most: number): [across: number, down: number][] {
  const steps = Array.from({ length: 2 * most + 1 }, (_, i) => i - most);
  const all = steps.flatMap((across) => steps.map((down): [number, number] => [across, down]));
  return all.sort(([a, b], [c, d]) => Math.hypot(a, b) - Math.hypot(c, d));
}

/** Clicks around the middle of the structure until an atom is hit, which is when something is there. */
export async function clickUntil(page: Page, there: Locator): Promise<void> {
  const picture = page.getByRole("img", { name: /^Structure of/ });
  for (const [across, down] of aroundMiddle(4)) {
    // What is above it may still grow, and push it away.
    await picture.scrollIntoViewIfNeeded();
    const box = await picture.boundingBox();
    assert.ok(box);
    const clicks = Number(await picture.getAttribute("data-clicks"));
    await page.mouse.click(box.x + box.width / 2 + 17 * across, box.y + box.height / 2 + 17 * down);
    await page.locator(`[role=img][data-clicks="${clicks + 1}"]`).waitFor();
    if (await there.count() > 0) return;
  }
  throw new Error("there is no atom in the middle of the picture");
}
