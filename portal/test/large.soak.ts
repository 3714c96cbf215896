//! Files as large as people have: what the portal takes to show 100,000 atoms, and a trajectory of 5 GB of them.
import assert from "node:assert/strict";
import { createWriteStream } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import type { Locator } from "playwright-core";

import type { Browser } from "./browser.ts";
import { invited } from "./person.ts";
import { Service } from "./service.ts";

const N_ATOMS = 99_990;
const N_FRAMES = 4200;
/** Residues are this far apart, on a lattice. */
const APART = 5;
const VERY_LONG_MS = 600_000;
/** What a person waits for without turning away, on two cores and without a graphics card. */
const PATIENCE_MS = 30_000;

let folder: string;
let service: Service;
let browser: Browser;

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "large-"));
  service = await Service.start();
  browser = await invited(service, service.command("account", "create", "ada", "--admin"));
  browser.page.setDefaultTimeout(VERY_LONG_MS);
});

after(async () => {
  await browser?.close();
  await service?.close();
  await rm(folder, { recursive: true, force: true });
});

/** Glycines on a lattice, without hydrogens but one, five atoms each. */
const GLYCINE = [["N", 0, 0, 0], ["CA", 1.46, 0, 0], ["C", 2, 1.42, 0], ["O", 1.25, 2.4, 0], ["OXT", 3.2, 1.5, 0]] as const;
const PER_CHAIN = 999;
const CHAINS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

type Atom = { line: string; position: [number, number, number] };

function atomOf(serial: number): Atom {
  const residue = Math.floor(serial / GLYCINE.length);
  const [name, x, y, z] = GLYCINE[serial % GLYCINE.length] ?? GLYCINE[0];
  const side = Math.ceil(Math.cbrt(N_ATOMS / GLYCINE.length));
  const place = [residue % side, Math.floor(residue / side) % side, Math.floor(residue / side ** 2)];
  const position: Atom["position"] = [x + APART * (place[0] ?? 0), y + APART * (place[1] ?? 0), z + APART * (place[2] ?? 0)];
  const chain = CHAINS[Math.floor(residue / PER_CHAIN)];
  const number = String(residue % PER_CHAIN + 1).padStart(4);
  const at = position.map((value) => value.toFixed(3).padStart(8)).join("");
  const line = `ATOM  ${String(serial + 1).padStart(5)}  ${name.padEnd(3)} GLY ${chain}${number}    ${at}  1.00  0.00           ${name.slice(0, 1)}`;
  return { line, position };
}

/** A block as Fortran writes it. */
function block(content: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeInt32LE(content.length);
  return Buffer.concat([length, content, length]);
}

function header(): Buffer {
  const control = Buffer.alloc(84);
  control.write("CORD", 0, "latin1");
  for (const [at, value] of [[1, N_FRAMES], [2, 0], [3, 1], [4, N_FRAMES], [20, 24]] as const) control.writeInt32LE(value, 4 * at);
  control.writeFloatLE(1, 40);
  const title = Buffer.alloc(84, " ");
  title.writeInt32LE(1);
  const atoms = Buffer.alloc(4);
  atoms.writeInt32LE(N_ATOMS);
  return Buffer.concat([block(control), block(title), block(atoms)]);
}

/** All of it moves along x, by a thousandth of an Å in a frame. */
async function writeTrajectory(to: string, atoms: readonly Atom[]): Promise<void> {
  const file = createWriteStream(to);
  file.write(header());
  const along = (axis: 0 | 1 | 2) => Float32Array.from(atoms, ({ position }) => position[axis]);
  const x = along(0);
  const still = [along(1), along(2)].map((values) => block(Buffer.from(values.buffer)));
  for (let frame = 0; frame < N_FRAMES; frame += 1) {
    const moved = x.map((value) => value + 0.001 * frame);
    if (!file.write(Buffer.concat([block(Buffer.from(moved.buffer)), ...still]))) await new Promise<void>((resolve) => file.once("drain", () => resolve()));
  }
  await new Promise<void>((resolve) => file.end(() => resolve()));
}

/** How long something takes; it is told. */
async function timed(what: string, does: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await does();
  const ms = performance.now() - start;
  console.log(`${what}: ${(ms / 1000).toFixed(1)} s`);
  return ms;
}

async function upload(file: string): Promise<void> {
  const { page } = browser;
  await page.getByRole("link", { name: "Files" }).click();
  await page.locator("input[type=file]").setInputFiles(path.join(folder, file));
  await page.getByRole("row", { name: path.parse(file).name }).waitFor();
}

/** Drags the structure to the side; until the page answers again. */
async function turn(picture: Locator): Promise<void> {
  const { page } = browser;
  const box = await picture.boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  for (let steps = 1; steps <= 10; steps += 1) await page.mouse.move(box.x + box.width / 2 + 10 * steps, box.y + box.height / 2);
  await page.mouse.up();
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
}

test("a hundred thousand atoms are seen and turned, and any frame of five gigabytes of them", async () => {
  const { page } = browser;
  const atoms = Array.from({ length: N_ATOMS }, (_, serial) => atomOf(serial));
  await writeFile(path.join(folder, "lattice.pdb"), [...atoms.map(({ line }) => line), "END", ""].join("\n"));
  await writeTrajectory(path.join(folder, "moving.dcd"), atoms);
  const picture = page.getByRole("img", { name: /^Structure of 99.990 atoms/ });
  await timed("the structure is uploaded", () => upload("lattice.pdb"));
  const seen = await timed("the structure is seen", async () => {
    await page.getByRole("link", { name: "lattice" }).click();
    await picture.waitFor();
  });
  const turned = await timed("it is turned by ten steps", () => turn(picture));
  await timed("the trajectory is uploaded", () => upload("moving.dcd"));
  await page.getByRole("link", { name: "moving" }).click();
  const frame = page.getByRole("slider", { name: "Frame" });
  const begins = await timed("its first frame is seen", async () => {
    await page.getByLabel("Structure with the names of its atoms").fill("lattice");
    await picture.waitFor();
    await frame.waitFor();
  });
  const jumps: number[] = [];
  for (const to of [N_FRAMES - 1, 7, N_FRAMES / 2]) {
    jumps.push(await timed(`frame ${to} is seen`, async () => {
      await frame.fill(String(to));
      await page.getByText(`frame ${to.toLocaleString("en-GB")} (0–${(N_FRAMES - 1).toLocaleString("en-GB")})`).waitFor();
    }));
  }
  const heap = await page.evaluate(() => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize);
  console.log(`memory of the page: ${(heap / 1e6).toFixed(0)} MB`);
  for (const ms of [seen, turned, begins, ...jumps]) assert.ok(ms < PATIENCE_MS, `${ms} ms`);
  browser.look();
});
