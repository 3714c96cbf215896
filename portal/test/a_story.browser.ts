//! What a person does with the portal, from the invitation to the end, against a real service. It takes longer than any
//! other of the tests, which begin in the order of their names.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";

import type { Locator, Page, Request } from "playwright-core";

import { Browser } from "./browser.ts";
import { clickUntil, PASSWORD, toAccount } from "./person.ts";
import { Service } from "./service.ts";

/** The portfolio of the examples, and the format that the page tells from each file. */
const PORTFOLIOS = {
  csv: "portfolio.csv",
  json: "portfolio.json",
  yaml: "portfolio.yaml",
  xml: "portfolio.xml",
  fpml: "portfolio.fpml.xml",
};

let service: Service;
let browser: Browser;
let page: Page;

before(async () => {
  service = await Service.start();
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

/** How many rows of numbers a button saves. */
async function rowsOf(button: Locator): Promise<number> {
  const download = page.waitForEvent("download");
  await button.click();
  const lines = (await readFile(await (await download).path(), "utf8")).trim().split("\n");
  return lines.length - 1;
}

/** How long a page takes for its next requests, from the first to the last, in ms by the browser's clock. */
async function spanOf(requests: number): Promise<number> {
  const times: number[] = [];
  await new Promise<void>((resolve) => {
    const note = (request: Request) => {
      if (times.push(request.timing().startTime) < requests) return;
      page.off("requestfinished", note);
      resolve();
    };
    page.on("requestfinished", note);
  });
  return Math.max(...times) - Math.min(...times);
}

/** Clicks at the structure until a residue is hit; its mask. */
async function pickedMask(): Promise<string> {
  await page.getByLabel("What a click picks").selectOption("residue");
  const mask = page.locator("[aria-label=Structure] code");
  await clickUntil(page, mask);
  return mask.innerText();
}

/** A structure as GROMACS writes it. */
function groOf(pdb: string): string {
  const atoms = pdb.split("\n").filter((line) => /^(ATOM|HETATM)/.test(line)).map((line, i) => {
    const residue = line.slice(22, 26).padStart(5) + line.slice(17, 20).trim().padEnd(5);
    const place = [30, 38, 46].map((at) => (Number(line.slice(at, at + 8)) / 10).toFixed(3).padStart(8));
    return residue + line.slice(12, 16).trim().padStart(5) + String(i + 1).padStart(5) + place.join("");
  });
  return ["of another program", String(atoms.length), ...atoms, "   5.00000   5.00000   5.00000", ""].join("\n");
}

/** The part of a page with a heading. */
function panel(heading: RegExp): Locator {
  return page.locator("section.panel").filter({ has: page.getByRole("heading", { name: heading }) });
}

test("an invitation sets a password and signs in, once", async () => {
  const link = service.command("account", "create", "ada", "--admin");
  browser = await Browser.open(service.origin);
  page = browser.page;
  await page.goto(link);
  await page.getByText("For the account ada. The invitation ends").waitFor();
  await page.getByLabel("Password").fill("too short");
  await page.getByRole("button", { name: "Set the password" }).click();
  await page.getByText("9 characters are too few").waitFor();
  await browser.check("invitation");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByText("characters are too few").waitFor({ state: "detached" });
  await page.getByLabel("The same again").fill(PASSWORD);
  await page.getByRole("button", { name: "Set the password" }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  assert.equal(new URL(page.url()).hash, "", "the token is no longer in the address");

  await page.goto("about:blank");
  await page.goto(link);
  await page.getByRole("alert").getByText(/accepted already, was replaced by another, or has expired/).waitFor();
  assert.equal(await page.getByLabel("Password").count(), 0, "it is said before anything is typed");
  await browser.check("invitation_used");
  await page.getByRole("link", { name: "sign in" }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
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
  await page.getByRole("img", { name: /^Structure of \d+ atoms/ }).waitFor();
  await browser.check("file");
  await page.getByRole("region", { name: "Chains" }).getByRole("row", { name: /^A protein/ }).waitFor();
  const viewer = browser.weightOf("stage");
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
  await page.getByRole("button", { name: "Build", exact: true }).click();
  await page.getByRole("heading", { name: "a small <box>" }).waitFor();
  await page.getByRole("link", { name: "Simulate" }).waitFor();
  await page.getByRole("button", { name: "Box" }).click();
  await browser.check("system");
  const names = await panel(/^What was asked for$/).locator("dl > dd, dl > .pair > dd").evaluateAll((all) => all.map((it) => it.getBoundingClientRect().left));
  assert.equal(new Set(names).size, 1, "what was asked for stands in one column");
  const atoms = await panel(/^What is in the box$/).locator("dt:text-is('atoms') + dd").innerText();
  await page.getByLabel("With water and ions").check();
  await page.getByRole("img", { name: `Structure of ${atoms} atoms`, exact: true }).waitFor();
  await page.getByRole("button", { name: "Water", pressed: true }).waitFor();
  await browser.check("system_whole");

  await page.getByRole("link", { name: "Simulate" }).click();
  await estimate.locator("dt:text-is('trajectories') + dd").filter({ hasText: /^\d/ }).waitFor();
  assert.equal(await estimate.locator("dt:text-is('atoms') + dd").innerText(), atoms, "what is counted is not about so many");
  await page.getByRole("button", { name: "Stages of my own" }).click();
  await page.getByLabel("restraint_mask").focus();
  await page.getByRole("button", { name: "Pick atoms" }).click();
  const restraint = await pickedMask();
  await page.getByRole("button", { name: "Put into restraint_mask of stage 1" }).click();
  assert.equal(await page.getByLabel("restraint_mask").inputValue(), restraint);
  await page.getByText(/^restraint_mask of stage 1 selects/).waitFor();
  await browser.check("job_new_picked");
  await page.getByRole("button", { name: "Pick atoms" }).click();
  await page.getByRole("button", { name: "Remove stage 1" }).click();
  await page.getByRole("group", { name: "Stages" }).getByLabel("time").fill("0.00004");
  await page.getByLabel("minimization_steps").fill("20");
  await page.getByLabel("temperature").fill("1,5");
  await page.getByText("1,5 is not a number").waitFor();
  await browser.check("job_new");
  await page.getByLabel("temperature").fill("310");
  await estimate.getByText("20", { exact: true }).waitFor();
});

test("a job draws what it logs while it runs, until it is cancelled", async () => {
  const stages = page.getByRole("group", { name: "Stages" });
  await stages.getByLabel("time").fill("1");
  await stages.getByLabel("traj_freq").fill("20");
  await stages.getByLabel("log_freq").fill("20");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByRole("heading", { name: /^job_/ }).waitFor();
  await page.getByRole("img", { name: /^temperature/ }).waitFor();
  // Saved once: a browser stops a page that saves again and again.
  const last = page.locator("figure", { has: page.getByRole("img", { name: /^temperature/ }) }).locator("figcaption .row > .quiet");
  const first = await last.innerText();
  await last.filter({ hasText: first }).waitFor({ state: "detached" });
  const rows = await rowsOf(page.getByRole("button", { name: "temperature as CSV" }));
  assert.ok(rows > 1, `${rows} rows while it runs`);
  // Drawn anew in other colours it has all of its points.
  const curve = page.getByRole("img", { name: /^temperature/ });
  const points = async () => Number(await curve.getAttribute("data-points"));
  const before = await points();
  assert.ok(before >= rows, `${before} points of ${rows} rows`);
  for (const time of ["once", "and back"]) {
    await browser.turn();
    await page.evaluate(() => new Promise(requestAnimationFrame));
    assert.ok(await points() >= before, `${await points()} points in other colours, ${time}; ${before} before`);
  }
  // Its curves are asked for every two seconds and its log every four, perhaps soon after each other.
  const span = await spanOf(9);
  assert.ok(span >= 8000, `${span} ms for nine requests: a page that is watched asks once a second at most`);
  await page.getByRole("button", { name: "Cancel…" }).click();
  const dialog = page.getByRole("dialog", { name: /^Cancel job_/ });
  await dialog.getByText("What it has written until then stays").waitFor();
  await browser.check("job_cancel");
  await dialog.getByRole("button", { name: "Let it go on" }).click();
  await page.getByRole("status").getByText("running").waitFor();
  await page.getByRole("button", { name: "Cancel…" }).click();
  await dialog.getByRole("button", { name: "Cancel it" }).click();
  await page.getByRole("status").getByText("cancelled").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement?.closest("main") === null), false, "the focus is not back at the top");
  await page.reload();
  await page.getByRole("status").getByText("cancelled").waitFor();
  await page.getByRole("img", { name: /^temperature/ }).waitFor();
  browser.look();
});

test("what a stage has written that was cancelled is downloaded in part", async () => {
  await page.getByText("Download a part of the trajectory").click();
  await page.getByLabel("Atoms", { exact: true }).fill("@CA&");
  await page.getByRole("status").getByText(/\bcolumn \d+/).waitFor();
  await page.getByLabel("Atoms", { exact: true }).fill("@CA");
  await page.getByLabel("Every how many frames").fill("2");
  const size = await page.getByText(/^1 atom in \d+ frames?, /).innerText();
  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "Trajectory (DCD)" }).click();
  const dcd = await readFile(await (await download).path());
  assert.equal(dcd.toString("latin1", 4, 8), "CORD");
  assert.equal(dcd.readInt32LE(8), Number(/in (\d+) frame/.exec(size)?.[1]), "as many frames as were told");
  browser.look();
});

test("it is changed, runs again, and its frames play", async () => {
  await page.getByRole("link", { name: "Change and run again" }).click();
  const stages = page.getByRole("group", { name: "Stages" });
  await stages.getByRole("button", { name: "Add a stage" }).click();
  const [first, production] = [stages.getByRole("listitem"), stages.locator(".inset")];
  for (const [name, value] of [["time", "0.00002"], ["restraint_mask", "@CA"], ["restraint_force", "5"], ["traj_freq", "2"]] as const) {
    await first.getByLabel(name).fill(value);
  }
  for (const [name, value] of [["time", "0.00004"], ["traj_freq", "2"], ["log_freq", "2"]] as const) {
    await production.getByLabel(name).fill(value);
  }
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByRole("link", { name: "Download" }).waitFor();
  await page.getByRole("status").getByText("succeeded").waitFor();
  await page.getByRole("cell", { name: "production" }).waitFor();

  const frame = page.getByRole("slider", { name: "Frame" });
  await frame.waitFor();
  assert.equal(await frame.getAttribute("aria-valuetext"), "frame 0 (0–9)");
  await page.getByLabel("Frames a second").selectOption("5");
  await page.getByRole("button", { name: "Play" }).click();
  await page.waitForFunction(() => document.querySelector<HTMLInputElement>("input[type=range]")?.value === "8");
  await page.getByRole("button", { name: "Pause" }).click();
  await browser.check("job");
});

test("frames are played and the molecule is turned by keys, and fields keep theirs", async () => {
  const picture = page.getByRole("img", { name: /^Structure of/ });
  const shows = (said: string) => page.waitForFunction((text) => document.querySelector("input[type=range]")?.getAttribute("aria-valuetext")?.startsWith(text), said);
  await page.getByLabel("Frames a second").focus();
  for (let stops = 0; stops < 4 && !await picture.evaluate((it) => it === document.activeElement); stops += 1) await page.keyboard.press("Shift+Tab");
  for (const [key, said] of [["Home", "frame 0 "], ["ArrowRight", "frame 1 "], ["ArrowRight", "frame 2 "], ["ArrowLeft", "frame 1 "], ["End", "frame 9 "]] as const) {
    await page.keyboard.press(key);
    await shows(said);
  }
  await page.getByText("← and →: a frame back and on").filter({ visible: true }).waitFor();
  await browser.check("job_keys");
  await picture.focus();
  await page.keyboard.press("Space");
  await page.getByRole("button", { name: "Pause" }).waitFor();
  await page.keyboard.press("Space");
  await page.getByRole("button", { name: "Play" }).waitFor();
  const seen = () => picture.screenshot();
  const before = await seen();
  await page.keyboard.press("Shift+ArrowRight");
  await page.evaluate(() => new Promise((done) => setTimeout(done, 1000)));
  assert.notDeepEqual(await seen(), before, "it is turned");
  await page.keyboard.press("0");
  await page.getByText("Download a part of the trajectory").click();
  const stride = page.getByLabel("Every how many frames");
  await stride.fill("12");
  await stride.press("ArrowLeft");
  await stride.press("Home");
  await stride.press("0");
  assert.equal(await stride.inputValue(), "012");
  await page.getByText("Download a part of the trajectory").click();
  browser.look();
});

test("a chart is saved under the name of its job, and as wide as the paper", async () => {
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "temperature as CSV" }).click();
  const heading = await page.getByRole("heading", { level: 1 }).innerText();
  assert.equal((await download).suggestedFilename(), `${heading}_temperature.csv`);
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ media: "print" });
  const widths = await page.locator("figure.chart").evaluateAll((all) => all.map((it) => [it.clientWidth, it.querySelector("canvas")?.clientWidth ?? 0] as const));
  assert.ok(widths.length > 0);
  for (const [figure, drawn] of widths) assert.ok(Math.abs(figure - drawn) <= 2, `${drawn} of ${figure} px`);
  assert.ok(await page.getByText("Click one").isHidden(), "paper cannot be clicked at");
  const chosen = await page.getByLabel("Frames of").evaluate((it) => getComputedStyle(it).borderStyle);
  assert.equal(chosen, "none", "it is told as text which frame is in the picture");
  if (process.env["SHOTS"]) await page.screenshot({ path: path.join(process.env["SHOTS"], "job-print.png"), fullPage: true });
  await page.emulateMedia({ media: "screen" });
  const times = panel(/^Parameters$/).locator("dt:text-is('submitted') + dd time");
  assert.match(await times.innerText(), /^\d{1,2} \p{L}+ \d{4}, \d\d:\d\d:\d\d/u);
  browser.look();
});

test("an atom that is clicked at gives a mask", async () => {
  assert.match(await pickedMask(), /^:\d+$/, "the whole residue was asked for");
});

test("a trajectory from elsewhere plays with the structure that names its atoms", async () => {
  const job = page.url();
  await page.getByRole("link", { name: "Files" }).click();
  const elsewhere = ["mini_tri.pdb", "mini_tri.xtc"].map((name) => path.resolve("../crates/analysis/tests/data", name));
  await page.locator("input[type=file]").setInputFiles(elsewhere);
  await page.getByLabel("Another name").fill("frames");
  await page.getByRole("button", { name: "Register" }).click();
  await page.getByRole("row", { name: "frames" }).getByRole("link", { name: "frames" }).click();
  const topology = page.getByLabel("Structure with the names of its atoms");
  await topology.fill("no such structure");
  await page.getByRole("status").getByText("There is no registered structure no such structure.").waitFor();
  assert.equal(await topology.getAttribute("aria-invalid"), "true");
  await topology.fill("alanine");
  await page.getByText(/^Has \d+ atoms, the trajectory \d+/).waitFor();
  browser.look();
  await topology.fill("mini_tri");
  const frame = page.getByRole("slider", { name: "Frame" });
  await frame.waitFor();
  const whole = await page.getByRole("img", { name: /^Structure of/ }).getAttribute("aria-label");
  await frame.fill("3");
  await page.waitForFunction(() => /^frame 3 /.test(document.querySelector("input[type=range]")?.getAttribute("aria-valuetext") ?? ""));
  await page.getByRole("textbox", { name: "Atoms" }).fill("@CA");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.getByRole("img", { name: /^Structure of/ }).and(page.locator(`:not([aria-label="${whole}"])`)).waitFor();
  await frame.waitFor();
  await browser.check("file_trajectory");
  const ofGromacs = { name: "of_gromacs.gro", mimeType: "chemical/x-gro", buffer: Buffer.from(groOf(await readFile(elsewhere[0] ?? "", "utf8"))) };
  await page.getByRole("link", { name: "Files" }).click();
  await page.locator("input[type=file]").setInputFiles(ofGromacs);
  await page.getByRole("row", { name: "of_gromacs" }).waitFor();
  await page.getByRole("row", { name: "frames" }).getByRole("link", { name: "frames" }).click();
  await topology.fill("of_gromacs.gro");
  await page.getByText("There is no picture with a gro file").waitFor();
  await page.getByRole("button", { name: "Analyse" }).waitFor();
  await page.getByRole("region", { name: "Estimate" }).getByText("frames", { exact: true }).waitFor();
  await page.goto(job);
  await page.getByRole("slider", { name: "Frame" }).waitFor();
});

test("what a stage restrains is marked in the picture, and each stage has its frames", async () => {
  await page.getByText(/^Equilibration 1: NVT/).click();
  await page.getByText(/^Marked: what @CA restrains, 1 atom\.$/).waitFor();
  await browser.check("job_restrained");
  await page.getByLabel("Frames of").selectOption("equilibration 1");
  await page.locator("[aria-label=Frame][aria-valuetext='frame 0 (0–4)']").waitFor();
  browser.look();
});

test("masks are picked for an analysis, and what they select is said", async () => {
  await page.getByRole("link", { name: "Analysis" }).click();
  await page.getByRole("button", { name: "Pick atoms" }).click();
  const masks = page.getByLabel("rmsd_masks");
  await masks.fill(":999");
  await page.getByText("rmsd_masks selects no atom.").waitFor();
  await masks.fill("@CA&");
  await page.getByText("What rmsd_masks selects cannot be told").waitFor();
  await masks.fill("");
  const mask = await pickedMask();
  await page.getByRole("button", { name: "Put into rmsd_masks" }).click();
  assert.equal(await masks.inputValue(), mask);
  await page.getByText(/^rmsd_masks selects \d+ atoms of 1 residue\.$/).waitFor();
  await browser.check("analysis_picked");
  await page.getByRole("button", { name: "Pick atoms" }).click();
  await page.getByLabel("rmsf_masks").fill("");
  await page.getByLabel("distance_masks").fill(":1@C :3@N");
  await page.getByRole("button", { name: "Analyse" }).click();
  const rmsd = panel(/^RMSD/);
  await rmsd.getByRole("img", { name: /against time/ }).waitFor();
  assert.equal(await rowsOf(rmsd.getByRole("button", { name: /as CSV$/ })), 10, "a row a frame");
  await browser.check("analysis");
});

test("what is measured between atoms is drawn in each frame", async () => {
  const distance = panel(/^Distance/);
  await distance.getByRole("button", { name: "Show in the structure" }).click();
  const said = distance.getByText(/^\d+\.\d+ Å in this frame$/);
  await said.waitFor();
  await distance.getByText("Numbers").click();
  for (const frame of [0, 9]) {
    await distance.getByRole("slider", { name: "Frame" }).fill(String(frame));
    await distance.getByText(`frame ${frame} (0–9)`).waitFor();
    const row = distance.getByRole("row").filter({ has: page.getByRole("cell", { name: String(frame), exact: true }) });
    const measured = Number(await row.getByRole("cell").last().innerText());
    assert.ok(Math.abs(parseFloat(await said.innerText()) - measured) < 0.002, `${await said.innerText()} is ${measured}`);
  }
  await browser.check("analysis_measured");

  const curve = panel(/^RMSD/).getByRole("img", { name: /against time/ });
  await curve.scrollIntoViewIfNeeded();
  const plot = await curve.boundingBox();
  assert.ok(plot);
  await page.mouse.click(plot.x + 0.6 * plot.width, plot.y + plot.height / 2);
  await page.waitForURL(/\?frame=\d$/);
  await page.waitForFunction(() => Number(document.querySelector<HTMLInputElement>("input[type=range]")?.value) > 2);
  browser.look();
  await page.getByRole("link", { name: "Jobs" }).click();
  await page.getByRole("row", { name: /succeeded/ }).first().waitFor();
  await browser.check("jobs");
});

test("an analysis is deleted, and the job stays", async () => {
  await page.goBack();
  await page.getByRole("link", { name: "Analysis" }).click();
  await page.getByRole("button", { name: "Delete…" }).last().click();
  await page.getByRole("dialog", { name: "Delete this analysis?" }).getByRole("button", { name: "Delete", exact: true }).click();
  await panel(/^RMSD/).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Analyse" }).waitFor();
  await page.getByRole("status").getByText("succeeded").waitFor();
  browser.look();
});

test("a portfolio has a margin, and nothing of it is kept", async () => {
  await page.getByRole("link", { name: "Margin" }).click();
  const portfolio = page.getByLabel("Portfolio", { exact: true });
  await portfolio.fill("ticker,type,quantity\nXEQ1,long,2\nXEQ1,short,1\n");
  await page.getByRole("button", { name: "Calculate" }).click();
  await page.getByRole("row", { name: /XEQ1 short/ }).waitFor();
  const totals = page.getByRole("heading", { name: /^Totals/ });
  assert.ok(await totals.evaluate((it) => it.getBoundingClientRect().bottom < innerHeight), "without scrolling");
  await browser.check("margin");
  await portfolio.fill("ticker,type,quantity\nXEQ1,long,200\n");
  await page.getByRole("heading", { name: "Totals in USD, before your change" }).waitFor();
  await browser.check("margin_before");
  await portfolio.fill("ticker,type,quantity\nXEQ1,long,2\nXEQ1,short,1\n");
  await page.getByRole("heading", { name: "Totals in USD", exact: true }).waitFor();
  await page.getByRole("link", { name: "Jobs" }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  await page.getByRole("link", { name: "Margin" }).click();
  assert.equal(await portfolio.inputValue(), "");
});

test("a portfolio has the same margin in each of five formats", async () => {
  const margins = new Map<string, number>();
  for (const [format, name] of Object.entries(PORTFOLIOS)) {
    await page.getByLabel("Portfolio file").setInputFiles(path.resolve("../examples/portfolio", name));
    await page.waitForFunction((wanted) => document.querySelector("select")?.value === wanted, format);
    const answer = page.waitForResponse((response) => response.url().includes(`/historical/${format}`));
    await page.getByRole("button", { name: "Calculate" }).click();
    const { summary } = await (await answer).json() as { summary: { initialMargin: number } };
    margins.set(format, Math.round(summary.initialMargin));
    await page.getByRole("button", { name: "Calculate" }).waitFor();
  }
  assert.equal(new Set(margins.values()).size, 1, JSON.stringify([...margins]));
  browser.look();
});

test("a key works until it is revoked", async () => {
  await toAccount(browser, "ada");
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
  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByRole("row", { name: "laptop" }).getByText("expires").filter({ visible: true }).waitFor();
  await page.setViewportSize({ width: 1280, height: 900 });
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
  await dialog.waitFor();
  assert.ok(await dialog.getByLabel("Password").evaluate((it) => it === document.activeElement), "only the password is asked for");
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
  await toAccount(browser, "ada");
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByLabel("Name").fill("later");
  browser.expect(/ERR_(CONNECTION_(REFUSED|RESET)|EMPTY_RESPONSE)/);
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

test("a service that hangs is missed, too", async () => {
  browser.expect(/ERR_(CONNECTION_RESET|EMPTY_RESPONSE|ABORTED)/);
  service.hang(true);
  try {
    await page.getByText("The service does not answer.").waitFor();
  } finally {
    service.hang(false);
  }
  await page.getByText("The service does not answer.").waitFor({ state: "detached" });
  browser.expect(undefined);
});

test("after signing out one signs in again", async () => {
  await page.getByRole("button", { name: "ada" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await browser.check("sign_in");
  await signIn("ada", "not the password");
  await page.getByRole("alert").waitFor();
  await page.getByText("the account may have been disabled").waitFor();
  await browser.check("sign_in_refused");
  await signIn("ada", PASSWORD);
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  browser.look();
});
