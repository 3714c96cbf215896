//! What a person does at the beginning of every test: gets an invitation, and signs in with a browser.
import { Browser } from "./browser.ts";
import type { Service } from "./service.ts";

export const PASSWORD = "correct horse battery staple";
/** What waits for the engine, on a machine that has other work. */
export const LONG_MS = 120_000;

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
