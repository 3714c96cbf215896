//! What goes wrong, and what a person sees of it and can do.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import type { Request } from "playwright-core";

import { browser, page, service } from "./admin_signed_in.ts";
import { clickUntil } from "./person.ts";

const STRUCTURE = path.resolve("../clients/alanine.pdb");
const BROKEN = "ATOM      1  N   ALA A   1      not a number\n";
/** What a browser says while the service is gone. */
const GONE = /ERR_(CONNECTION_(REFUSED|RESET)|EMPTY_RESPONSE)/;
/** More than any disk has free. */
const FULL = "limits.free_disk_bytes=1000000000000000000";
const MIRROR = `pdb.mirror=${JSON.stringify(path.resolve("../examples/{id}.pdb"))}`;

function answer(status: number, msg: string, headers: Record<string, string>) {
  const detail = [{ loc: ["header"], msg, type: "error" }];
  return { status, headers, contentType: "application/json", body: JSON.stringify({ detail }) };
}

/** How many files are not registered; in the page. */
async function pendingOf(url: string): Promise<number> {
  const { items } = await (await fetch(`${url}/info/files`)).json() as { items: { status: string }[] };
  return items.filter(({ status }) => status === "pending").length;
}

test("a file that is wrong says so in its row", async () => {
  await page.getByRole("link", { name: "Files" }).click();
  await page.locator("input[type=file]").setInputFiles({ name: "broken.pdb", mimeType: "chemical/x-pdb", buffer: Buffer.from(BROKEN) });
  await page.locator("input[type=file]").setInputFiles(STRUCTURE);
  const row = page.getByRole("listitem").filter({ hasText: "broken.pdb" });
  await row.getByRole("alert").getByText(/line 1/).waitFor();
  await page.getByRole("row", { name: "alanine" }).waitFor();
  await browser.check("file_refused");
  const nameless = page.getByRole("row", { name: /^(file_|Unfinished upload)/ });
  await page.waitForFunction(async (url) => {
    const { items } = await (await fetch(url)).json() as { items: { status: string }[] };
    return items.every(({ status }) => status === "ready");
  }, `${service.baseUrl}/info/files`);
  assert.equal(await nameless.count(), 0, "nothing is left of it");
  await row.getByRole("button", { name: "Leave it" }).click();
  await row.waitFor({ state: "detached" });
  browser.look();
});

test("what a closed window has left of an upload is called so, until it is deleted", async () => {
  const status = await page.evaluate(async (url) => (await fetch(url)).status, `${service.baseUrl}/submit/upload-url?filetype=pdb`);
  assert.equal(status, 200);
  await page.reload();
  const nameless = page.getByRole("row", { name: /^Unfinished upload of \d{1,2} \p{L}+ \d{4}, \d\d:\d\d/u });
  await nameless.getByText("It was interrupted, or another window or program still sends it.").waitFor();
  await page.setViewportSize({ width: 390, height: 844 });
  await nameless.getByText("pending").filter({ visible: true }).waitFor();
  await page.setViewportSize({ width: 1280, height: 900 });
  await browser.check("file_unfinished");
  await nameless.getByRole("link", { name: /^Unfinished upload of/ }).click();
  await page.getByRole("heading", { name: /^Unfinished upload of/ }).waitFor();
  await page.getByText("It is removed by itself an hour after it began.").waitFor();
  assert.equal(await page.getByRole("status").filter({ hasText: "registered" }).count(), 0, "it is said once");
  await browser.check("file_unfinished_page");
  await page.getByRole("link", { name: "Files" }).click();
  await nameless.getByRole("button", { name: /^Delete Unfinished upload of/ }).click();
  await page.getByRole("dialog").getByText("Nothing was made of it").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await nameless.waitFor({ state: "detached" });
  browser.look();
});

test("what has no extension that is known is not sent, and what is compressed said to be", async () => {
  const content = await readFile(STRUCTURE);
  const chosen = ["notes.txt", "entry.pdb.bz2"].map((name) => ({ name, mimeType: "application/octet-stream", buffer: content }));
  await page.locator("input[type=file]").setInputFiles(chosen);
  for (const [name, said] of [["notes.txt", /has no extension that the service knows/], ["entry.pdb.bz2", /is compressed; unpack it first/]] as const) {
    const row = page.getByRole("listitem").filter({ hasText: name });
    await row.getByRole("alert").getByText(said).waitFor();
    await row.getByRole("button", { name: "Leave it" }).click();
  }
  browser.look();
});

test("a packed file is unpacked, an ent file is a pdb file, and a folder is said to be one", async () => {
  const content = await readFile(STRUCTURE);
  const type = "application/octet-stream";
  await page.locator("input[type=file]").setInputFiles([
    { name: "packed.pdb.gz", mimeType: type, buffer: gzipSync(content) }, { name: "archive.ent", mimeType: type, buffer: content },
    { name: "cut.pdb.gz", mimeType: type, buffer: gzipSync(content).subarray(0, 90) },
  ]);
  for (const name of ["packed", "archive"]) await page.getByRole("row", { name }).getByText("896 bytes").waitFor();
  const cut = page.getByRole("listitem").filter({ hasText: "cut.pdb.gz" });
  await cut.getByRole("alert").getByText("cannot be unpacked").waitFor();
  await cut.getByRole("button", { name: "Leave it" }).click();
  // Below all that the page shows.
  await page.evaluate(() => {
    const item = { getAsFile: () => new File([], "results"), webkitGetAsEntry: () => ({ isDirectory: true }) };
    const drop = Object.assign(new Event("drop", { bubbles: true, cancelable: true }), { dataTransfer: { items: [item] } });
    document.documentElement.dispatchEvent(drop);
  });
  const folder = page.getByRole("listitem").filter({ hasText: "results" });
  await folder.getByRole("alert").getByText("results is a folder").waitFor();
  await folder.getByRole("button", { name: "Leave it" }).click();
  browser.look();
});

test("a file that is there is not sent again, and one whose name is taken gets another", async () => {
  let sent = 0;
  const count = (request: Request) => void (sent += request.method() === "PUT" ? 1 : 0);
  page.on("request", count);
  await page.locator("input[type=file]").setInputFiles(STRUCTURE);
  const same = page.getByRole("listitem").filter({ hasText: "alanine.pdb" }).filter({ hasText: "already there" });
  await same.getByRole("button", { name: "Hide" }).click();
  const other = `REMARK another\n${await readFile(STRUCTURE, "utf8")}`;
  await page.locator("input[type=file]").setInputFiles({ name: "alanine.pdb", mimeType: "chemical/x-pdb", buffer: Buffer.from(other) });
  const row = page.getByRole("listitem").filter({ hasText: "alanine.pdb" }).filter({ hasText: "failed" });
  await row.getByRole("alert").getByText("Another file is named alanine").waitFor();
  assert.equal(sent, 0);
  assert.equal(await page.evaluate(pendingOf, service.baseUrl), 0, "nothing is left of either");
  await row.getByLabel("Another name").fill("other peptide");
  await row.getByRole("button", { name: "Register" }).click();
  await page.getByRole("row", { name: /^other peptide/ }).waitFor();
  assert.equal(sent, 1);
  page.off("request", count);
  browser.look();
});

test("what is refused for its name goes with its window", async () => {
  await page.locator("input[type=file]").setInputFiles({ name: `${"b".repeat(201)}.pdb`, mimeType: "chemical/x-pdb", buffer: await readFile(STRUCTURE) });
  await page.getByLabel("Another name").waitFor();
  assert.equal(await page.evaluate(pendingOf, service.baseUrl), 1, "so that it need not be sent again");
  await page.reload();
  await page.getByRole("row", { name: /^other peptide/ }).waitFor();
  await page.waitForFunction(async (url) => {
    const { items } = await (await fetch(url)).json() as { items: { status: string }[] };
    return items.every(({ status }) => status === "ready");
  }, `${service.baseUrl}/info/files`);
  browser.look();
});

test("a file without an atom is said to have none by the viewer, too", async () => {
  await page.locator("input[type=file]").setInputFiles({ name: "none.pdb", mimeType: "chemical/x-pdb", buffer: Buffer.from("REMARK   4\nEND\n") });
  const row = page.getByRole("listitem").filter({ hasText: "none.pdb" });
  await row.getByRole("alert").getByText(/no atom/).waitFor();
  // Mol* reports it there.
  browser.expect(/Cannot read properties/);
  await row.getByRole("button", { name: "Look at it" }).click();
  await row.getByText("There is no atom in this file").waitFor();
  await row.getByRole("button", { name: "Leave it" }).click();
  browser.look();
  browser.expect(undefined);
});

test("a name that is refused is given anew, without sending the file again", async () => {
  const long = "a".repeat(201);
  await page.locator("input[type=file]").setInputFiles({ name: `${long}.pdb`, mimeType: "chemical/x-pdb", buffer: await readFile(STRUCTURE) });
  const row = page.getByRole("listitem").filter({ hasText: long });
  await row.getByLabel("Another name").waitFor();
  assert.equal(await row.getByRole("button", { name: "Try again" }).count(), 0, "it would be refused again");
  await browser.check("file_long_name");
  const enough = long.slice(1);
  await row.getByLabel("Another name").fill(enough);
  await row.getByRole("button", { name: "Register" }).click();
  const cells = page.getByRole("row", { name: enough }).getByRole("cell");
  await cells.first().waitFor();
  const lines = await cells.evaluateAll((all) => [1, 5].map((i) => {
    const range = document.createRange();
    range.selectNodeContents(all[i]?.querySelector("time") ?? all[i] ?? document.body);
    return range.getClientRects().length;
  }));
  assert.deepEqual(lines, [1, 1], "a long name leaves the others their room");
  browser.look();
});

test("an upload goes on while another page is shown, and the window is not left without asking", async () => {
  let open = () => {};
  const gate = new Promise<void>((resolve) => (open = resolve));
  await page.route("**/*", async (route) => {
    if (route.request().method() === "PUT") await gate;
    await route.fallback();
  });
  const isAsked = () => page.evaluate(() => !dispatchEvent(new Event("beforeunload", { cancelable: true })));
  await page.locator("input[type=file]").setInputFiles({ name: "slow.pdb", mimeType: "chemical/x-pdb", buffer: await readFile(STRUCTURE) });
  await page.getByRole("progressbar", { name: "Upload of slow.pdb" }).waitFor();
  await page.getByRole("link", { name: "Jobs" }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  assert.ok(await isAsked());
  const registered = page.waitForResponse((response) => response.url().endsWith("/submit/file/"));
  open();
  assert.equal((await registered).status(), 200);
  await page.waitForFunction(() => dispatchEvent(new Event("beforeunload", { cancelable: true })));
  await page.unroute("**/*");
  await page.getByRole("link", { name: "Files" }).click();
  await page.getByRole("row", { name: /^slow/ }).waitFor();
  browser.look();
});

test("a build that fails shows the residue where it did", async () => {
  const unknown = (await readFile(STRUCTURE, "utf8")).replace(/^((?:ATOM {2}|HETATM).{11})(?!ACE|NME)[A-Z]{3}/gm, "$1UNK");
  await page.locator("input[type=file]").setInputFiles({ name: "unknown.pdb", mimeType: "chemical/x-pdb", buffer: Buffer.from(unknown) });
  const row = page.getByRole("row", { name: "unknown" });
  await row.getByRole("link", { name: "Build" }).click();
  await page.getByRole("button", { name: "Build", exact: true }).click();
  await page.getByRole("heading", { name: /UNK 2 of chain A is part of a chain/ }).waitFor();
  await page.getByText("Marked: UNK 2 of chain A.").waitFor();
  await browser.check("system_failed");
  await page.getByRole("link", { name: "Files" }).click();
});

test("a submission waits when it is asked to, and is tried again with the same key", async () => {
  const keys: (string | null)[] = [];
  const noted = async (request: Request) => keys.push(await request.headerValue("idempotency-key"));
  const refusals = [
    answer(429, "too many requests", { "retry-after": "2" }),
    answer(500, "something broke", { "x-request-id": "req_of_the_test" }),
  ];
  await page.route("**/submit/system", async (route) => {
    await noted(route.request());
    const refusal = refusals.shift();
    await (refusal ? route.fulfill(refusal) : route.continue());
  });
  await page.getByRole("row", { name: "alanine" }).getByRole("link", { name: "Build" }).click();
  await page.getByLabel("minimum_padding").fill("0.5");
  const build = page.getByRole("button", { name: "Build", exact: true });
  await build.click();
  await page.getByText("The service asks to wait").waitFor();
  assert.equal(await build.getAttribute("aria-busy"), "true");
  await page.getByText("something broke").waitFor();
  await page.getByText("req_of_the_test").waitFor();
  await browser.check("refused_500");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { name: "System of alanine" }).waitFor();
  assert.equal(keys.length, 3);
  assert.ok(keys[0]);
  assert.equal(new Set(keys).size, 1, "it is one submission");
  await page.unroute("**/submit/system");
});

test("while a submission waits it is told what for, and need not be waited for", async () => {
  await page.getByRole("link", { name: "Files" }).click();
  let asked = 0;
  await page.route("**/submit/system", (route) => {
    asked += 1;
    return route.fulfill(answer(429, "the account has 3 of 3 tasks that wait or run", { "retry-after": "60" }));
  });
  await page.getByRole("row", { name: /^other peptide/ }).getByRole("link", { name: "Build" }).click();
  const build = page.getByRole("button", { name: "Build", exact: true });
  await build.click();
  await page.getByRole("status").getByText("the account has 3 of 3 tasks that wait or run. It is sent again in").waitFor();
  await browser.check("submission_waits");
  await page.getByRole("button", { name: "Stop waiting" }).click();
  await page.getByRole("alert").getByText("The account has 3 of 3 tasks", { exact: false }).waitFor();
  await build.and(page.locator("[aria-busy=false]")).waitFor();
  assert.equal(asked, 1);
  await page.unroute("**/submit/system");
  browser.look();
});

test("what is refused although it was checked is said at its field, until it is another", async () => {
  await page.getByRole("link", { name: "Files" }).click();
  await page.route("**/submit/system", (route) => route.fulfill({
    status: 404, contentType: "application/json",
    body: JSON.stringify({ detail: [{ loc: ["body", "protein"], msg: "there is no such file any more", type: "not_found" }] }),
  }));
  await page.getByRole("row", { name: "alanine" }).getByRole("link", { name: "Build" }).click();
  await page.getByRole("region", { name: "Estimate" }).getByText(/^about/).first().waitFor();
  await page.getByRole("button", { name: "Build", exact: true }).click();
  const said = page.getByText("there is no such file any more");
  await said.waitFor();
  assert.equal(await page.locator("[aria-invalid=true]").count(), 1);
  await page.getByLabel("minimum_padding").fill("0.7");
  await said.waitFor({ state: "detached" });
  await page.unroute("**/submit/system");
  browser.look();
});

test("a job is prepared while its system is yet to be built, and submitted once it is", async () => {
  browser.expect(GONE);
  await service.stop();
  await service.resume("tasks.runner=\"off\"");
  await page.getByRole("link", { name: "Files" }).click();
  await page.getByRole("row", { name: "alanine" }).getByRole("link", { name: "Build" }).click();
  await page.getByLabel("minimum_padding").fill("0.6");
  await page.getByRole("button", { name: "Build", exact: true }).click();
  await page.getByRole("heading", { name: "System of alanine" }).waitFor();
  await page.getByRole("link", { name: "Prepare a job" }).click();
  const atoms = page.getByRole("region", { name: "Estimate" }).locator("dt:text-is('atoms') + dd");
  await atoms.filter({ hasText: /^about/ }).waitFor();
  await page.getByText("System of alanine is still being built.").waitFor();
  const simulate = page.getByRole("button", { name: "Simulate" });
  assert.ok(await simulate.isDisabled(), "it would be refused");
  await browser.check("job_new_unbuilt");
  await service.stop();
  await service.resume("tasks.runner=\"auto\"");
  await page.getByText("is still being built").waitFor({ state: "detached" });
  await atoms.filter({ hasText: /^\d+$/ }).waitFor();
  assert.ok(await simulate.isEnabled());
  browser.look();
  browser.expect(undefined);
});

test("a build and an analysis ask before they are cancelled, and leave the focus on the page", async () => {
  const [system_id, job_id, analysis_id] = ["box_00000000000000000001", "job_00000000000000000001", "ana_00000000000000000001"];
  const times = { created_at: "2026-01-02T03:04:05Z", started_at: "2026-01-02T03:04:06Z" };
  const open = { status: "running", warnings: [], attempts: 1, ...times };
  const ended = { ...open, status: "cancelled", finished_at: "2026-01-02T03:05:00Z" };
  const system = { system_id, request: {} };
  const analysis = { analysis_id, job_id, request: {} };
  let isCancelled = false;
  await page.route(`**/info/system/${system_id}`, (route) => route.fulfill({ json: { ...system, ...open } }));
  await page.route(`**/cancel/system/${system_id}`, (route) => route.fulfill({ json: { ...system, ...ended } }));
  await page.route(`**/info/job/${job_id}`, (route) => route.fulfill({ json: { job_id, box_id: system_id, request: {}, parameters: {}, ...ended, status: "succeeded" } }));
  await page.route("**/info/analyses**", (route) => route.fulfill({ json: { items: [{ ...analysis, ...(isCancelled ? ended : open) }] } }));
  await page.route(`**/cancel/analysis/${analysis_id}`, (route) => {
    isCancelled = true;
    return route.fulfill({ json: { ...analysis, ...ended } });
  });
  for (const [at, stays] of [[`system/${system_id}`, "What was asked for stays"], [`job/${job_id}/analysis`, "The trajectory stays"]] as const) {
    await page.goto(`${service.portal}${at}`);
    await page.getByRole("button", { name: "Cancel…" }).click();
    const dialog = page.getByRole("dialog", { name: /^Cancel / });
    await dialog.getByText(stays).waitFor();
    await dialog.getByRole("button", { name: "Cancel it" }).click();
    await page.getByRole("status").getByText("cancelled").waitFor();
    await dialog.waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement?.closest("main") !== null && document.activeElement !== document.body);
  }
  await page.unrouteAll();
  browser.look();
});

test("a full disk is said on every page, and refuses what is new", async () => {
  browser.expect(GONE);
  await service.stop();
  await service.resume(FULL);
  await page.goto(`${service.portal}files`);
  await page.getByText("the service's disk is full").waitFor();
  await page.getByRole("row", { name: "alanine" }).getByRole("link", { name: "Build" }).click();
  await page.getByRole("button", { name: "Build", exact: true }).click();
  await page.getByRole("alert").getByText("the service's disk is full").waitFor();
  await browser.check("disk_full");
  await service.stop();
  await service.resume(MIRROR);
  await page.getByText("the service's disk is full; tasks start").waitFor({ state: "detached" });
  browser.look();
  browser.expect(undefined);
});

test("public entries are offered where the service has a mirror of them, also one that it has got since", async () => {
  await page.getByRole("link", { name: "Files" }).click();
  await page.getByText("Public entry by its identifier").click();
  await page.getByLabel("Entry").fill("??");
  await page.getByRole("button", { name: "Fetch" }).click();
  await page.getByText("Must be an entry such as 1L2Y or pdb_00001l2y", { exact: true }).waitFor();
  await page.getByLabel("Entry").fill("1VII");
  await page.getByRole("button", { name: "Fetch" }).click();
  await page.getByText("1VII is ready.").waitFor();
  await page.getByRole("row", { name: /^1VII/ }).getByRole("link", { name: "Build" }).click();
  await page.getByText("A protein is a registered file or a public entry").waitFor();
  browser.look();
});

test("what is not there, or somebody else's, is not found", async () => {
  await page.goto(`${service.portal}job/job_00000000000000000000`);
  await page.getByText("There is no such job").waitFor();
  await browser.check("job_not_found");
  await page.goto(`${service.portal}job/new?from=job_00000000000000000000`);
  await page.getByText("The job to begin with cannot be read").waitFor();
});

test("a viewer whose graphics are lost starts again", async () => {
  await page.getByRole("link", { name: "Files" }).click();
  await page.getByRole("link", { name: "alanine" }).click();
  const structure = page.getByRole("img", { name: /^Structure of \d+ atoms/ });
  await structure.waitFor();
  browser.expect(/CONTEXT_LOST|context lost|THREE|WebGL/i);
  await page.evaluate(() => {
    const canvas = document.querySelector<HTMLCanvasElement>(".stage canvas");
    canvas?.getContext("webgl2")?.getExtension("WEBGL_lose_context")?.loseContext();
  });
  await page.getByText("has taken the graphics of the viewer back").waitFor();
  await browser.check("graphics_lost");
  await page.getByRole("button", { name: "Start the viewer again" }).click();
  await page.getByText("has taken the graphics").waitFor({ state: "detached" });
  await structure.waitFor();
  browser.look();
});

test("a click finds its atom while the graphics still look for what was under the mouse", async () => {
  await page.addInitScript(() => {
    // They never answer, and no frame comes in which they could be asked again.
    WebGL2RenderingContext.prototype.clientWaitSync = () => {
      globalThis.requestAnimationFrame = () => 0;
      document.documentElement.dataset.isLate = "true";
      return WebGL2RenderingContext.TIMEOUT_EXPIRED;
    };
  });
  await page.reload();
  const structure = page.getByRole("img", { name: /^Structure of \d+ atoms/ });
  await structure.waitFor();
  await structure.hover();
  await page.locator("html[data-is-late]").waitFor();
  await clickUntil(page, page.getByText(/of chain A, atom/));
  browser.look();
});

test("without WebGL the rest of the page works", async () => {
  browser.expect(/WebGL/);
  await page.addInitScript(() => {
    HTMLCanvasElement.prototype.getContext = () => null;
  });
  await page.reload();
  await page.getByText("This browser has no WebGL").waitFor();
  await page.getByRole("heading", { name: "alanine" }).waitFor();
  browser.look();
});
