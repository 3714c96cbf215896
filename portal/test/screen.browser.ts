//! What charts and tables show of numbers and words: all of them, on the screen, on a telephone and on paper.
import assert from "node:assert/strict";
import { test } from "node:test";

import { browser, page, service } from "./admin_signed_in.ts";

const JOB = "job_00000000000000000001";
const ANALYSIS = "ana_00000000000000000001";
const LONG = "villin replica comparison of a batch with quite a long name and more of it";
const PAPER_PX = 720;

function job(more: object) {
  return {
    job_id: JOB, box_id: "box_00000000000000000001", request: {}, status: "succeeded", warnings: [], attempts: 1,
    parameters: { integration_timestep: 2, production: { type: "NVT", time: 0.01, traj_freq: 0 } },
    stages: [{ name: "production", steps: 5000, frames: 0, seconds: 10, ns_per_day: 100 }],
    created_at: "2026-01-02T03:04:05Z", started_at: "2026-01-02T03:04:06Z", finished_at: "2026-01-02T03:05:00Z", ...more,
  };
}

/** Answers for a job that this service never had. */
async function routeJob(record: object, columns: object[]): Promise<void> {
  await page.route(`**/info/job/${JOB}`, (route) => route.fulfill({ json: record }));
  await page.route(`**/info/job/${JOB}/log**`, (route) => route.fulfill({ body: "" }));
  await page.route(`**/info/job/${JOB}/series**`, (route) => route.fulfill({ json: { stage: "production", rows: 3, columns } }));
}

/** Words of the page's tables that are broken in the middle. */
function brokenWords(): Promise<string[]> {
  return page.evaluate(() => [...document.querySelectorAll("main :is(td, th)")].flatMap((cell) => {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    const found: string[] = [];
    while (texts.nextNode()) {
      const node = texts.currentNode as Text;
      for (const { 0: word, index } of node.data.matchAll(/[^\s-]+/g)) {
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
        if (lines.size > 1) found.push(word);
      }
    }
    return found;
  }));
}

test("an axis has room for its numbers, and what is constant but for rounding is level", async () => {
  await page.addInitScript(() => {
    const written: { text: string; left: number }[] = [];
    Object.assign(globalThis, { written });
    const fill = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, ...rest) {
      if (this.textAlign === "right") written.push({ text, left: x - this.measureText(text).width });
      return fill.call(this, text, x, ...rest);
    };
  });
  await routeJob(job({}), [
    { name: "step", values: [0, 1, 2] }, { name: "time", unit: "ps", values: [2, 4, 6] },
    { name: "temperature", unit: "K", values: [300, 310.5, 305] },
    { name: "potential_energy", unit: "kJ/mol", values: [-1_234_567.25, -1_234_890.5, -1_235_001.75] },
    { name: "volume", unit: "nm³", values: [119.67186, 119.67185, 119.67186] },
  ]);
  await page.goto(`${service.portal}job/${JOB}`);
  const volume = page.getByRole("img", { name: /^volume/ });
  await volume.and(page.locator("[data-points='3']")).waitFor();
  const labels = await page.evaluate(() => (globalThis as unknown as { written: { text: string; left: number }[] }).written);
  assert.deepEqual(labels.filter(({ left }) => left < 0), []);
  const volumes = labels.filter(({ text }) => text.startsWith("119."));
  assert.ok(volumes.length >= 2 && volumes.every(({ text }) => /^119\.\d{3}$/.test(text)), JSON.stringify(volumes));
  await browser.check("job_charts");
});

test("where one points at a curve its value and time are told", async () => {
  const over = page.getByRole("img", { name: /^temperature/ }).locator(".u-over");
  await over.hover();
  await page.getByText("time 4 ps: 310.5 K").waitFor();
  await page.mouse.move(0, 0);
  await page.getByText("time 4 ps").waitFor({ state: "detached" });
  browser.look();
});

test("of a job that ended before it logged anything nothing is promised", async () => {
  await page.unrouteAll();
  await routeJob(job({ status: "failed", stages: [], error: { code: "internal", message: "the engine stopped" } }), []);
  await page.goto(`${service.portal}job/${JOB}`);
  await page.getByRole("region", { name: "Charts" }).getByText("Nothing was logged.").waitFor();
  await page.getByRole("heading", { name: "The engine stopped", exact: true }).waitFor();
  assert.equal(await page.getByText("yet").count(), 0);
  await page.unrouteAll();
  browser.look();
});

test("long names of batches leave the list of jobs on the screen", async () => {
  const items = [0, 1, 2].map((i) => job({
    job_id: `job_0000000000000000000${i}`, batch_name: LONG, batch_index: i, status: i === 0 ? "running" : "queued", stages: [],
  }));
  await page.route("**/info/jobs", (route) => route.fulfill({ json: { items } }));
  await page.goto(`${service.portal}jobs`);
  await page.getByRole("button", { name: LONG }).waitFor();
  await browser.check("jobs_batch");
  await page.setViewportSize({ width: 390, height: 844 });
  const counts = page.locator(".count");
  assert.equal(await counts.count(), 3);
  assert.ok(await counts.evaluateAll((all) => all.every((it) => it.getBoundingClientRect().height < 40)), "a number stands beside its word");
  assert.deepEqual(await brokenWords(), []);
  await page.getByRole("button", { name: LONG }).click();
  await browser.check("jobs_batch_open");
  await page.unrouteAll();
});

test("words of tables are whole on narrow screens", async () => {
  service.command("account", "create", "bob");
  service.command("key", "create", "ada");
  await page.goto(`${service.portal}admin`);
  await page.getByRole("row", { name: /^database/ }).waitFor();
  for (const width of [390, 640, 1280]) {
    await page.setViewportSize({ width, height: 844 });
    assert.deepEqual(await brokenWords(), [], `admin, ${width} px`);
  }
  await page.goto(`${service.portal}account`);
  await page.getByRole("row", { name: /this browser/ }).waitFor();
  for (const width of [390, 640, 900, 1280]) {
    await page.setViewportSize({ width, height: 844 });
    assert.deepEqual(await brokenWords(), [], `account, ${width} px`);
  }
  browser.look();
});

test("an analysis is printed whole, and without what can be pressed", async () => {
  const names = ["table", "column", "measured", "unit", "equilibrated_frame", "equilibrated_time_ps", "frames", "mean", "standard_deviation",
    "inefficiency", "effective_samples", "standard_error"];
  const columns = names.map((name, i) => ({ name, values: [i < 4 ? `${name} of something` : 3.8747 + i] }));
  const tables = [
    { name: "convergence", kind: "convergence", title: "Convergence", definition: "the part in equilibrium", columns },
    { name: "rmsd", kind: "rmsd", title: "RMSD", definition: "deviation", columns: [
      { name: "frame", values: [0, 1] }, { name: "time_ps", unit: "ps", values: [0, 1] }, { name: "rmsd_angstrom", unit: "Å", values: [0, 1] }] },
  ];
  await routeJob(job({ citations: ["Somebody, 2026"] }), []);
  await page.route("**/info/analyses**", (route) => route.fulfill({ json: { items: [
    { ...job({}), analysis_id: ANALYSIS, job_id: JOB, request: { job_id: JOB } }] } }));
  await page.route(`**/retrieve/analysis/${ANALYSIS}`, (route) => route.fulfill({ json: { frames_analyzed: 2, frames_total: 2, tables } }));
  await page.route("**/check/analysis", (route) => route.fulfill({ status: 422, json: { detail: [
    { loc: ["body", "rmsd_masks", 0], msg: "selects fewer than three atoms", type: "value_error" }] } }));
  await page.goto(`${service.portal}job/${JOB}/analysis`);
  const numbers = page.getByRole("region", { name: "Numbers: Convergence" });
  await numbers.waitFor();
  await page.getByText("New analysis").click();
  await page.emulateMedia({ media: "print" });
  await page.setViewportSize({ width: PAPER_PX, height: 1000 });
  const right = await numbers.locator("th").last().evaluate((it) => it.getBoundingClientRect().right);
  assert.ok(right <= PAPER_PX, `the last column ends at ${right} px`);
  for (const hidden of ["New analysis", "A click at a point shows its frame."]) {
    assert.equal(await page.getByText(hidden).isVisible(), false, hidden);
  }
  assert.equal(await page.getByRole("button").filter({ visible: true }).count(), 0);
  await page.goto(`${service.portal}job/${JOB}`);
  await page.getByText("Somebody, 2026").waitFor();
  assert.ok(await page.getByText("Production: NVT").isVisible());
  await page.locator("dt", { hasText: /^time$/ }).waitFor();
  await page.emulateMedia({ media: "screen" });
  await page.setViewportSize({ width: 1280, height: 900 });
  browser.look();
});

test("what is suggested is not called wrong before it is sent", async () => {
  await page.goto(`${service.portal}job/${JOB}/analysis`);
  const checked = page.waitForResponse("**/check/analysis");
  await page.getByText("New analysis").click();
  await checked;
  const wrong = page.locator("[aria-invalid=true]");
  await page.getByRole("region", { name: "Estimate" }).getByText("Appears when").waitFor();
  assert.equal(await wrong.count(), 0);
  await page.getByRole("button", { name: "Analyse" }).click();
  await page.getByText("line 1: selects fewer than three atoms").waitFor();
  assert.ok(await wrong.evaluate((it) => it === document.activeElement), "the button leads there");
  await page.unrouteAll();
  browser.look();
});

/** Whether the canvas of the viewer is as wide as its place, something is drawn on it, and nothing at its sides. */
function isWhole(): boolean {
  const canvas = document.querySelector<HTMLCanvasElement>(".stage canvas");
  const place = canvas?.closest("[role=img]");
  if (!canvas || canvas.width !== place?.clientWidth) return false;
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
  copy?.drawImage(canvas, 0, 0);
  const isBlank = (x: number, width: number) => {
    const pixels = copy?.getImageData(x, 0, width, canvas.height).data ?? [];
    return pixels.every((value, i) => value === pixels[i % 4]);
  };
  return isBlank(0, 1) && isBlank(canvas.width - 1, 1) && !isBlank(0, canvas.width);
}

test("what is seen whole of a molecule is seen in a narrow window, too", async () => {
  const atoms = Array.from({ length: 12 }, (_, i) =>
    `HETATM${String(i + 1).padStart(5)}  C${String(i + 1).padEnd(3)}UNL A   1    ${(1.5 * i).toFixed(3).padStart(8)}   0.000   0.000  1.00  0.00           C`);
  await page.goto(`${service.portal}files`);
  await page.locator("input[type=file]").setInputFiles(
    { name: "row.pdb", mimeType: "application/octet-stream", buffer: Buffer.from(`${atoms.join("\n")}\nEND\n`) });
  await page.getByRole("link", { name: "row", exact: true }).click();
  const picture = page.getByRole("img", { name: "Structure of 12 atoms" });
  await picture.waitFor();
  await page.waitForFunction(isWhole);
  // As wide as the narrow window.
  await picture.press("+");
  await page.waitForFunction(isWhole);
  await page.setViewportSize({ width: 390, height: 844 });
  const [canvas, place] = [".stage canvas", ".stage [role=img]"].map((it) => page.locator(it).evaluate(({ clientWidth }) => clientWidth));
  assert.equal(await canvas, await place, "at once, as it was drawn before");
  await page.waitForFunction(isWhole);
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.waitForFunction(isWhole);
  browser.look();
});
