//! The portal without a mouse: every page can be walked through, and what is begun can be ended.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import type { Locator } from "playwright-core";

import { browser, page, service } from "./admin_signed_in.ts";
import { PASSWORD } from "./person.ts";

/** More than any page has places to stop at. */
const MOST_STOPS = 200;

/** What has the focus: its words, and what is wrong with it for somebody who only sees where it is. */
async function focused(): Promise<{ what: string; wrong: string[] } | undefined> {
  return page.evaluate(() => {
    const at = document.activeElement;
    if (!at || at === document.body) return undefined;
    const { left, top, right, bottom, width, height } = at.getBoundingClientRect();
    const { outlineStyle, outlineWidth } = getComputedStyle(at);
    const isSeen = width > 0 && height > 0 && right > 0 && bottom > 0 && left < innerWidth && top < innerHeight;
    const wrong = [
      ...(isSeen ? [] : ["is not on the screen"]),
      ...(outlineStyle === "none" || outlineWidth === "0px" ? ["has no outline"] : []),
    ];
    return { what: at.outerHTML.slice(0, 200), wrong };
  });
}

/** Goes on to a place, by the key for it alone. */
async function tabTo(place: Locator): Promise<void> {
  await place.waitFor();
  for (let stops = 0; stops < MOST_STOPS; stops += 1) {
    if (await place.evaluate((it) => it === document.activeElement)) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`${place} cannot be reached`);
}

async function press(place: Locator): Promise<void> {
  await tabTo(place);
  await page.keyboard.press("Enter");
}

/** Walks through a page that was just loaded, from its top to its end; how many places there were to stop at. */
async function walk(): Promise<number> {
  for (let stops = 0; stops < MOST_STOPS; stops += 1) {
    await page.keyboard.press("Tab");
    const at = await focused();
    if (!at) return stops;
    assert.deepEqual(at.wrong, [], at.what);
  }
  assert.fail(`no end after ${MOST_STOPS} stops`);
}

test("a file is uploaded, looked at and deleted by keys", async () => {
  await press(page.getByRole("link", { name: "Files" }));
  await page.getByRole("heading", { name: "Files" }).waitFor();
  const chooser = page.waitForEvent("filechooser");
  await press(page.getByRole("button", { name: "Choose files…" }));
  await (await chooser).setFiles({
    name: "alanine.pdb", mimeType: "application/octet-stream", buffer: await readFile("../clients/alanine.pdb"),
  });
  const remove = page.getByRole("button", { name: "Delete alanine" });
  await remove.waitFor();
  await press(remove);
  const dialog = page.getByRole("dialog", { name: "Delete alanine?" });
  await dialog.waitFor();
  assert.ok(await dialog.evaluate((it) => it.contains(document.activeElement)), "the question has the focus");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.ok(await remove.evaluate((it) => it === document.activeElement), "the focus is where it was");
  browser.look();
});

test("what disappears leaves the focus to its neighbour", async () => {
  const chooser = page.waitForEvent("filechooser");
  await press(page.getByRole("button", { name: "Choose files…" }));
  const content = await readFile("../clients/alanine.pdb");
  await (await chooser).setFiles([
    ...["one.pdb", "two.pdb"].map((name) => ({ name, mimeType: "application/octet-stream", buffer: content })),
    { name: "notes.txt", mimeType: "text/plain", buffer: content },
  ]);
  await page.getByRole("row", { name: "two" }).waitFor();
  const at = () => page.evaluate(() => document.activeElement?.closest("tr, li, section, main")?.textContent ?? "");
  await press(page.getByRole("listitem").filter({ hasText: "notes.txt" }).getByRole("button", { name: "Leave it" }));
  await page.getByText("notes.txt").waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement !== document.body);
  assert.match(await at(), /two\.pdb/, "the row before it");
  for (const [name, next] of [["two", /^one/], ["one", /^alanine/]] as const) {
    const row = page.getByRole("row", { name });
    await press(row.getByRole("button", { name: `Delete ${name}` }));
    const sure = page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true });
    await press(sure);
    await row.waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement !== document.body);
    assert.match(await at(), next, "the row after it");
  }
  await page.getByRole("link", { name: "Systems" }).click();
  await page.getByRole("link", { name: "New system" }).first().click();
  await press(page.getByRole("button", { name: "Add a ligand" }));
  await press(page.getByRole("button", { name: "Remove this ligand" }));
  await page.getByRole("group", { name: "Ligand 1" }).waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement?.textContent === "Add a ligand");
  await page.getByRole("link", { name: "Files" }).click();
  browser.look();
});

test("a form is filled and sent by keys, and what is wrong gets the focus", async () => {
  await press(page.getByRole("row", { name: "alanine" }).getByRole("link", { name: "Build" }));
  const padding = page.getByLabel("minimum_padding");
  await padding.waitFor();
  await tabTo(page.getByLabel("box_name"));
  await page.keyboard.type("by keys");
  await tabTo(padding);
  await page.keyboard.press("ControlOrMeta+A");
  await page.keyboard.type("-3");
  await page.locator("[aria-invalid=true]").and(padding).waitFor();
  // From another place, so that it is seen to move.
  await tabTo(page.getByLabel("concentration", { exact: true }));
  await page.keyboard.press("Enter");
  // While one submission is under way there is no other.
  await page.locator("button.main[aria-busy=false]").waitFor();
  assert.ok(await padding.evaluate((it) => it === document.activeElement), "what is wrong has the focus");
  await page.keyboard.press("ControlOrMeta+A");
  await page.keyboard.type("1.2");
  await page.locator("[aria-invalid=true]").waitFor({ state: "detached" });
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "by keys" }).waitFor();
  browser.look();
});

test("a menu opens, is left and ends a session by keys", async () => {
  const who = page.getByRole("button", { name: "ada" });
  await press(page.getByRole("button", { name: "New" }));
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "System");
  await page.keyboard.press("Escape");
  await page.locator("#new").waitFor({ state: "hidden" });
  await press(who);
  await press(page.getByRole("button", { name: "Sign out" }));
  await tabTo(page.getByLabel("Name"));
  await page.keyboard.type("ada");
  await page.keyboard.press("Tab");
  await page.keyboard.type(PASSWORD);
  await page.keyboard.press("Enter");
  await who.waitFor();
  browser.look();
});

test("every page is walked through by keys, each stop outlined and on the screen", async () => {
  for (const [at, heading] of [
    ["jobs", "Jobs"], ["systems", "Systems"], ["files", "Files"], ["margin", "Margin"], ["admin", "Admin"],
  ] as const) {
    await page.goto(`${service.portal}${at}`);
    await page.getByRole("heading", { name: heading, exact: true }).first().waitFor();
    await page.getByText("Loading…").first().waitFor({ state: "detached" });
    assert.ok(await walk() > 5, at);
  }
  await page.getByRole("link", { name: "Files" }).click();
  await page.getByRole("link", { name: "alanine" }).click();
  await page.getByRole("heading", { name: "alanine" }).waitFor();
  await page.reload();
  await page.getByRole("img", { name: /^Structure of/ }).waitFor();
  assert.ok(await walk() > 8, "past the picture");
  browser.look();
});
