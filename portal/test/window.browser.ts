//! What people do with a window: go back in it, print it, and give it colours of their own.
import assert from "node:assert/strict";
import { test } from "node:test";

import { browser, page, service } from "./admin_signed_in.ts";
import { Browser } from "./browser.ts";
import { accept } from "./person.ts";

/** A page of a long list of files. */
function filesFrom(first: number) {
  return Array.from({ length: 100 }, (_, i) => ({
    file_id: `file_${first + i}`, name: `structure ${first + i}`, type: "structure", format: "pdb", status: "ready", created_at: "2026-01-02T03:04:05Z",
  }));
}

test("a page that is first opened while the service is away comes when that is back", async () => {
  browser.expect(/ERR_(CONNECTION_(REFUSED|RESET)|EMPTY_RESPONSE)/);
  await service.stop();
  await page.getByRole("link", { name: "Systems" }).click();
  await page.getByText("The service does not answer.").waitFor();
  await page.getByText("Loading…").waitFor();
  await service.resume();
  await page.getByRole("heading", { name: "Systems" }).waitFor();
  browser.expect(undefined);
  browser.look();
});

test("that nothing new comes is said on whichever page, and once", async () => {
  const cut = page.getByText("What is shown may be old");
  browser.expect(/ERR_FAILED/);
  await page.route("**/info/events", (route) => route.abort());
  await page.reload();
  await cut.waitFor();
  assert.equal(await cut.count(), 1);
  await page.unroute("**/info/events");
  await cut.waitFor({ state: "detached" });
  browser.expect(undefined);
  browser.look();
});

test("who goes back in a long list is where he was", async () => {
  await page.route("**/info/files?**", (route) => route.fulfill({ json: { items: filesFrom(101) } }));
  await page.route("**/info/files", (route) => route.fulfill({ json: { items: filesFrom(1), next_page: "second" } }));
  await page.getByRole("link", { name: "Files" }).click();
  await page.getByRole("button", { name: "Older" }).click();
  const link = page.getByRole("link", { name: "structure 190", exact: true });
  await link.scrollIntoViewIfNeeded();
  const place = await page.evaluate(() => scrollY);
  assert.ok(place > 1000, `${place} px`);
  await link.click();
  await page.getByRole("heading", { name: "Not found" }).waitFor();
  assert.equal(await page.evaluate(() => scrollY), 0, "another page begins at its top");
  await page.goBack();
  await link.waitFor();
  await page.waitForFunction((before) => Math.abs(scrollY - before) < 50, place);
  await page.reload();
  await link.waitFor();
  await page.unroute("**/info/files?**");
  await page.unroute("**/info/files");
  browser.look();
});

test("what is chosen is seen in the colours of the system", async () => {
  await page.getByRole("link", { name: "Systems" }).click();
  await page.getByRole("link", { name: "New system" }).first().click();
  const chosen = page.getByRole("button", { name: "Build from a structure", pressed: true });
  await chosen.waitFor();
  await page.emulateMedia({ forcedColors: "active" });
  const styleOf = (what: typeof chosen) => what.evaluate((it) => {
    const { backgroundColor, borderBottomColor } = getComputedStyle(it);
    return { backgroundColor, borderBottomColor };
  });
  const other = page.getByRole("button", { name: "Bring from another program" });
  assert.notEqual((await styleOf(chosen)).backgroundColor, (await styleOf(other)).backgroundColor);
  const pages = page.getByRole("navigation", { name: "Pages" });
  const here = await styleOf(pages.getByRole("link", { name: "Systems" }));
  const elsewhere = await styleOf(pages.getByRole("link", { name: "Jobs" }));
  assert.notEqual(here.borderBottomColor, elsewhere.borderBottomColor);
  browser.look();
  await page.emulateMedia({ forcedColors: "none" });
});

test("a page is printed without what can be pressed, and without what would hide a part of it", async () => {
  await page.getByRole("link", { name: "Margin" }).click();
  await page.getByLabel("Portfolio", { exact: true }).fill("ticker,type,quantity\nXEQ1,long,2\n");
  await page.getByRole("button", { name: "Calculate" }).click();
  await page.getByRole("row", { name: /XEQ1 long/ }).waitFor();
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.getByRole("button").filter({ visible: true }).count(), 0);
  assert.equal(await page.getByRole("link", { name: "Jobs" }).isVisible(), false);
  assert.ok(await page.getByRole("row", { name: /XEQ1 long/ }).isVisible());
  await page.emulateMedia({ media: "screen" });
  browser.look();
});

test("numbers and dates are in the language of the page, whichever the browser speaks", async () => {
  const german = await Browser.open(service.origin, "de-DE");
  try {
    service.command("account", "create", "bob");
    await accept(german, service.command("account", "invite", "bob"));
    assert.equal(await german.page.evaluate(() => new Intl.NumberFormat().format(1234.5)), "1.234,5");
    await german.page.goto(`${service.portal}account`);
    await german.page.getByText("0 of 1,000").waitFor();
    const time = german.page.getByRole("row", { name: /this browser/ }).locator("time").first();
    assert.match(await time.getAttribute("title") ?? "", /^\d{1,2} (Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec) \d{4}, /);
    german.look();
  } finally {
    await german.close();
  }
});
