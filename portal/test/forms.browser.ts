//! Forms with pictures and parts of their own: a system from several chains and a ligand, one of another program, and a
//! margin of which all is asked.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";

import type { Locator } from "playwright-core";

import { browser, page, service } from "./admin_signed_in.ts";
import { clickUntil } from "./person.ts";

const APART = 20;

/** A structure twice, the second as chain B, to the side, and with all of its residues under one number. */
function twice(pdb: string): string {
  const atoms = pdb.split("\n").filter((line) => line.startsWith("ATOM"));
  const moved = atoms.map((line) => {
    const x = (Number(line.slice(30, 38)) + APART).toFixed(3).padStart(8);
    return `${line.slice(0, 21)}B   1${" ABC"[Number(line.slice(22, 26))]}   ${x}${line.slice(38)}`;
  });
  return [...atoms, "TER", ...moved, "TER", "END", ""].join("\n");
}

async function upload(name: string, content: Buffer): Promise<void> {
  await page.getByRole("link", { name: "Files" }).click();
  await page.locator("input[type=file]").setInputFiles({ name, mimeType: "application/octet-stream", buffer: content });
  await page.getByRole("row", { name: path.parse(name).name }).waitFor();
}

test("the example needs no mirror, and is one file however often it is tried", async () => {
  for (let tries = 0; tries < 2; tries += 1) {
    await page.getByRole("button", { name: "Try the example" }).click();
    await page.getByRole("heading", { name: "New system" }).waitFor();
    assert.equal(await page.getByLabel("protein", { exact: true }).inputValue(), "villin");
    await page.getByRole("region", { name: "Estimate" }).getByText(/^about/).first().waitFor();
    await page.getByText("this service has no mirror of public entries").waitFor();
    await page.getByRole("link", { name: "Jobs" }).click();
  }
  await page.getByRole("link", { name: "Files" }).click();
  await page.getByRole("row", { name: /^villin/ }).waitFor();
  assert.equal(await page.getByText("Public entry").count(), 0, "none is offered");
  assert.equal(await page.getByRole("row").count(), 2, "it and the head of the table");
  browser.look();
});

test("chains are left out and ligands placed in the picture of a new system", async () => {
  await upload("pair.pdb", Buffer.from(twice(await readFile("../clients/alanine.pdb", "utf8"))));
  await upload("guest.mol2", await readFile("../worker/tests/data/p-xylene.mol2"));
  await page.getByRole("row", { name: "pair" }).getByRole("link", { name: "Build" }).click();
  const preview = page.getByRole("region", { name: "Preview" });
  const picture = preview.getByRole("img", { name: "What is built, in its box" });
  await picture.and(page.locator("[data-shown=true]")).waitFor();
  const chains = preview.getByRole("group", { name: "Chains that are kept" });
  await chains.getByLabel(/^B /).uncheck();
  assert.equal(await page.getByLabel("chain_id").inputValue(), "A");
  assert.ok(await chains.getByLabel(/^A /).isDisabled(), "one is kept");

  await page.getByRole("button", { name: "Add a ligand" }).click();
  await page.getByRole("group", { name: "Ligand 1" }).getByLabel("Ligand", { exact: true }).fill("guest");
  const place = preview.getByRole("group", { name: "Place of guest" });
  await place.getByRole("button", { name: "Move guest on, x" }).click();
  await place.getByRole("button", { name: "Move guest on, x" }).click();
  await place.getByRole("button", { name: "Move guest back, z" }).click();
  assert.equal(await page.getByLabel("Translation").inputValue(), "0.2 0 -0.1");
  await page.getByLabel("Translation").fill("1,5 0 0");
  await page.getByText("1,5 is not a number; decimals are written with a point, 1.5").waitFor();
  await page.getByLabel("Translation").fill("0.2, 0, -0.1");
  await place.getByRole("button", { name: "Move guest on, z" }).click();
  assert.equal(await page.getByLabel("Translation").inputValue(), "0.2 0 0");
  await place.getByRole("button", { name: "Turn guest on, y" }).click();
  assert.equal(await page.getByLabel("Rotation").inputValue(), "0 15 0");
  await place.getByRole("button", { name: "Turn guest back, y" }).click();
  assert.equal(await page.getByLabel("Rotation").inputValue(), "");
  await picture.and(page.locator("[data-shown=true]")).waitFor();
  await browser.check("system_new_preview");
  await chains.getByLabel(/^B /).check();
  assert.equal(await page.getByLabel("chain_id").inputValue(), "");
});

test("what the service finds wrong is said at its field, also of a ligand, and is not sent", async () => {
  let sent = 0;
  await page.route("**/submit/system", (route) => {
    sent += 1;
    return route.continue();
  });
  const ligand = page.getByRole("group", { name: "Ligand 1" });
  const build = page.getByRole("button", { name: "Build", exact: true });
  const fields: [Locator, string, RegExp, string][] = [
    [page.getByLabel("chain_id"), "Q", /The structure has no chain Q/, ""],
    [ligand.getByLabel("Residue name"), "XYLENE", /Must have from 1 to 4 characters/, ""],
    [ligand.getByLabel("Rotation"), "1 2", /Must be 3, or 4, or 9 numbers/, ""],
    [ligand.getByLabel("Translation"), "0.2 0", /Must be 3 numbers/, "0.2 0 0"],
    [page.getByLabel("box_name"), "x".repeat(201), /Must have at most 200 characters, has 201/, "a name"],
  ];
  for (const [field, wrong, said, right] of fields) {
    await field.fill(wrong);
    await field.and(page.locator("[aria-invalid=true]")).waitFor();
    const help = await field.getAttribute("aria-describedby");
    await page.locator(`[id="${help}"]`).getByText(said).waitFor();
    assert.equal(await page.locator("[aria-invalid=true]").count(), 1, `${said} at its field alone`);
    if (right === "0.2 0 0") await browser.check("system_new_wrong");
    await build.click();
    assert.ok(await field.evaluate((it) => it === document.activeElement), "the button leads there");
    await field.fill(right);
    await page.locator("[aria-invalid=true]").waitFor({ state: "detached" });
  }
  assert.equal(sent, 0);
  await page.unroute("**/submit/system");
  browser.look();
});

test("a ligand that is yet to be named is not called wrong before it is sent", async () => {
  await page.goto(`${service.portal}system/new?protein=villin`);
  const estimate = page.getByRole("region", { name: "Estimate" });
  await estimate.getByText(/^about/).first().waitFor();
  const checked = page.waitForResponse("**/check/system");
  await page.getByRole("button", { name: "Add a ligand" }).click();
  await checked;
  await estimate.getByText("Appears when").or(estimate.locator("dl.quiet")).first().waitFor();
  const wrong = page.locator("[aria-invalid=true]");
  assert.equal(await wrong.count(), 0);
  await page.getByRole("button", { name: "Build", exact: true }).click();
  await wrong.waitFor();
  assert.ok(await wrong.evaluate((it) => it === document.activeElement), "the button leads there");
  browser.look();
});

test("with a number that cannot be read the rest is checked, and nothing is estimated", async () => {
  await page.goto(`${service.portal}system/new?fresh`);
  const estimate = page.getByRole("region", { name: "Estimate" });
  await estimate.getByText(/^about/).first().waitFor();
  assert.equal(await page.getByText("no protein", { exact: false }).count(), 1, "a warning is given once");
  await page.getByLabel("minimum_padding").fill("1,5");
  await page.getByLabel("pH").fill("99");
  await page.getByLabel("concentration").fill("150");
  for (const name of ["minimum_padding", "pH", "concentration"]) {
    await page.getByLabel(name).and(page.locator("[aria-invalid=true]")).waitFor();
  }
  await estimate.getByText("Something has to be changed first.").waitFor();
  assert.equal(await estimate.getByText(/about/).count(), 0);
  await page.getByRole("button", { name: "Bring from another program" }).click();
  await estimate.getByText("Appears when files are named under built.").waitFor();
  assert.equal(await estimate.getByText(/about/).count(), 0, "of a box of water that nobody wants");
  browser.look();
});

test("numbers that are none are told from those that are too large, or have commas", async () => {
  await page.goto(`${service.portal}job/new`);
  const steps = page.getByLabel("minimization_steps");
  for (const [typed, said] of [
    ["1,000", "1,000 is not a whole number; it is written without commas and blanks, 1000"],
    ["99999999999999999999", "99999999999999999999 is too large"],
    ["1.5", "1.5 is not a whole number"],
  ] as const) {
    await steps.fill(typed);
    await page.getByText(said, { exact: true }).waitFor();
  }
  await steps.fill("");
  await page.getByLabel("System", { exact: true }).fill("no identifier");
  await page.getByText("no system no identifier").waitFor();
  browser.look();
});

test("chains are hidden on the page of their file, and left out of the system that is built from there", async () => {
  await page.getByRole("link", { name: "Files" }).click();
  await page.getByRole("link", { name: "pair", exact: true }).click();
  const whole = page.getByRole("img", { name: "Structure of 20 atoms" });
  await whole.waitFor();
  const chains = page.getByRole("region", { name: "Chains" });
  await chains.getByLabel("A", { exact: true }).uncheck();
  await page.getByRole("img", { name: "Structure of 10 atoms" }).waitFor();
  assert.ok(await chains.getByLabel("B", { exact: true }).isDisabled(), "one is kept");
  await browser.check("file_chains");
  await page.reload();
  await page.getByRole("img", { name: "Structure of 10 atoms" }).waitFor();
  await clickUntil(page, page.getByText(/(ACE 1A|ALA 1B|NME 1C) of chain B/));
  await page.getByRole("link", { name: "Build a system" }).click();
  await page.getByRole("heading", { name: "New system" }).waitFor();
  assert.equal(await page.getByLabel("protein", { exact: true }).inputValue(), "pair");
  assert.equal(await page.getByLabel("chain_id").inputValue(), "B");
  await page.goBack();
  await page.getByRole("img", { name: "Structure of 10 atoms" }).waitFor();
  await chains.getByLabel("A", { exact: true }).check();
  await whole.waitFor();
  assert.ok(!page.url().includes("chain_id"), "all are kept");
  browser.look();
});

test("a system of another program is brought by its files", async () => {
  await upload("topol.zip", await readFile("../worker/tests/data/built/gromacs.zip"));
  await page.getByRole("row", { name: "topol" }).getByRole("link", { name: "Bring" }).click();
  await page.getByRole("button", { name: "Bring from another program", pressed: true }).waitFor();
  assert.equal(await page.getByLabel("built", { exact: true }).inputValue(), "topol.zip");
  assert.equal(await page.getByLabel("minimum_padding").count(), 0, "what its files decide is not asked");
  await page.getByLabel("box_name").fill("from elsewhere");
  await browser.check("system_brought");
  await page.getByRole("button", { name: "Bring", exact: true }).click();
  await page.getByRole("heading", { name: "from elsewhere" }).waitFor();
  await page.getByRole("link", { name: "Simulate" }).waitFor();
  await page.getByText("GROMACS, topol.top").waitFor();
  browser.look();
});

test("a job without a system is told which it would be of", async () => {
  await page.goto(`${service.portal}job/new`);
  // What was typed before stays with the window.
  await page.getByLabel("System", { exact: true }).fill("");
  await page.getByText("It would be the newest: from elsewhere, box_").waitFor();
  await page.getByLabel("System", { exact: true }).fill("box_00000000000000000000");
  await page.getByText("It would be the newest").waitFor({ state: "detached" });
  browser.look();
});

test("of a batch that is refused in the middle the rest is submitted, and nothing twice", async () => {
  const keys: (string | null)[] = [];
  await page.route("**/submit/job", async (route) => {
    keys.push(await route.request().headerValue("idempotency-key"));
    const refusal = { status: 409, json: { detail: [{ loc: ["header"], msg: "there are too many jobs", type: "conflict" }] } };
    await route.fulfill(keys.length === 3 ? refusal : { json: { job_id: `job_${keys.length}`, status: "queued" } });
  });
  // Of a system that there is; what is found wrong is not submitted.
  await page.route("**/check/job", (route) => route.fulfill({ json: { estimate: {}, warnings: [], parameters: {} } }));
  await page.goto(`${service.portal}job/new?box_id=box_00000000000000000000`);
  await page.getByLabel("Replicas").fill("4");
  await page.getByRole("button", { name: "Simulate 4 times" }).click();
  await page.getByText("there are too many jobs").waitFor();
  await page.getByText("2 of 4 are submitted").waitFor();
  await browser.check("job_new_refused");
  await page.getByLabel("Replicas").fill("3");
  await page.getByRole("button", { name: "Simulate 3 times" }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  assert.equal(keys.length, 4);
  assert.equal(keys[2], keys[3]);
  assert.equal(new Set(keys).size, 3);
  await page.unroute("**/submit/job");
  await page.unroute("**/check/job");
  browser.look();
});

test("a portfolio is read again when its file is chosen again, and only one currency has bars", async () => {
  await page.getByRole("link", { name: "Margin" }).click();
  const portfolio = page.getByLabel("Portfolio", { exact: true });
  const file = { name: "two.csv", mimeType: "text/csv", buffer: Buffer.from("ticker,type,quantity\nXEQ1,long,2\nXEQ2,short,1\n") };
  for (let times = 0; times < 2; times += 1) {
    await portfolio.fill("");
    await page.getByLabel("Portfolio file").setInputFiles(file);
    await page.waitForFunction(() => document.querySelector("textarea")?.value.includes("XEQ1,long,2"));
    assert.equal(await page.getByLabel("Portfolio file").evaluate((input) => (input as HTMLInputElement).value), "", "so that the same file is a change");
  }
  await page.getByRole("button", { name: "Calculate" }).click();
  await page.getByRole("row", { name: /XEQ2 short/ }).waitFor();
  const bars = page.locator(".part-of-margin");
  assert.equal(await bars.count(), 2);
  await page.route("**/historical/csv**", async (route) => {
    const response = await route.fetch();
    const report = await response.json() as { rows: { currency: string; initialMargin: number }[] };
    for (const [i, row] of report.rows.entries()) Object.assign(row, { currency: ["USD", "JPY"][i], initialMargin: 10_000 * row.initialMargin });
    await route.fulfill({ response, json: report });
  });
  await page.getByRole("button", { name: "Calculate" }).click();
  await page.getByRole("row", { name: /JPY/ }).waitFor();
  assert.equal(await bars.count(), 0);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByRole("row", { name: /XEQ2 short/ }).getByText("JPY").filter({ visible: true }).waitFor();
  const panel = page.locator("section.panel").filter({ has: page.getByRole("heading", { name: "Positions" }) });
  const lines = await panel.locator("tbody td.number:visible").evaluateAll((cells) => cells.map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map(({ bottom }) => Math.round(bottom))).size;
  }));
  assert.deepEqual(lines, [1, 1, 1, 1], "an amount and its currency are in one line");
  assert.ok(await panel.evaluate((it) => it.scrollWidth <= it.clientWidth), "the table is as wide as the screen");
  await browser.check("margin_currencies");
  const amounts = await page.locator("section.panel").filter({ has: page.getByRole("heading", { name: "Positions" }) }).locator("tbody td.number:nth-child(6)").allInnerTexts();
  assert.match(amounts[0] ?? "", /\.\d\d$/);
  assert.match(amounts[1] ?? "", /\d$/);
  assert.doesNotMatch(amounts[1] ?? "", /\./, "there is no part of a yen");
  await page.unroute("**/historical/csv**");
  browser.look();
});

test("a portfolio without positions is said to be one", async () => {
  await page.getByLabel("Portfolio", { exact: true }).fill("ticker,type,quantity\n");
  await page.getByRole("button", { name: "Calculate" }).click();
  await page.getByText("The portfolio has no positions").waitFor();
  browser.look();
});

test("a margin shows the worst scenarios, the losses and what stress adds", async () => {
  await page.getByRole("link", { name: "Margin" }).click();
  await page.getByLabel("Portfolio", { exact: true }).fill("ticker,type,quantity\nXEQ1,long,2\nXEQ2,short,1\n");
  await page.locator("summary").filter({ hasText: /./ }).evaluateAll((all) => {
    for (const summary of all) (summary.parentElement as HTMLDetailsElement).open = true;
  });
  await page.getByLabel("numScenarios").fill("500");
  await page.getByLabel("riskMeasure").selectOption("value_at_risk");
  await page.getByLabel("confidenceLevel").fill("0.95");
  await page.getByLabel("worstScenarios").fill("3");
  await page.getByLabel("includeLosses").selectOption("true");
  await page.getByLabel("stressWeight").fill("0.25");
  await page.getByLabel("stressStartDate").fill("2024-02-01");
  await page.getByRole("button", { name: "Calculate" }).click();
  await page.getByText("field required").waitFor();
  await page.getByLabel("stressEndDate").fill("2024-06-28");
  await page.getByRole("button", { name: "Calculate" }).click();
  const worst = page.getByRole("region", { name: "The worst scenarios" });
  await worst.waitFor();
  assert.equal(await worst.locator("tbody tr").count(), 3);
  await page.getByText("value at risk at 95").waitFor();
  await page.getByText("added for the stress").waitFor();
  const losses = page.locator("section.panel").filter({ has: page.getByRole("heading", { name: /^Losses of 500 scenarios/ }) });
  const download = page.waitForEvent("download");
  await losses.getByRole("button", { name: "All losses as CSV" }).click();
  const lines = (await readFile(await (await download).path(), "utf8")).trim().split("\n");
  assert.equal(lines.length, 501);
  const all = lines.slice(1).map(Number).sort((a, b) => b - a);
  const first = Number((await worst.locator("tbody td").first().innerText()).replaceAll(/[^\d.-]/g, ""));
  assert.ok(Math.abs((all[0] ?? 0) - first) < 0.01, `the worst of all is ${all[0]}, and ${first} is shown`);
  await browser.check("margin_whole");
});
