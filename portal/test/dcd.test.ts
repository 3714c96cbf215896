import assert from "node:assert/strict";
import { test } from "node:test";

import { Dcd, type ReadRange } from "../src/viewer/dcd.ts";

/** A DCD file with `n` frames, whose numbers say frame, axis and atom. */
function dcdOf(n: number, atoms: number, hasCell = true): ArrayBuffer {
  const frameBytes = 3 * (4 * atoms + 8) + (hasCell ? 56 : 0);
  const start = 92 + 4 + 84 + 4 + 12;
  const view = new DataView(new ArrayBuffer(start + n * frameBytes));
  view.setInt32(0, 84, true);
  view.setUint32(4, 0x434f5244);
  view.setInt32(8 + 40, hasCell ? 1 : 0, true);
  view.setInt32(88, 84, true);
  view.setInt32(92, 84, true);
  view.setInt32(92 + 88, 84, true);
  view.setInt32(184, 4, true);
  view.setInt32(188, atoms, true);
  view.setInt32(192, 4, true);
  for (let frame = 0; frame < n; frame += 1) {
    let at = start + frame * frameBytes;
    if (hasCell) {
      // a, cos γ, b, cos β, cos α, c
      [30 + frame, 0.5, 40, 0.1, 0, 50].forEach((number, n) => view.setFloat64(at + 4 + 8 * n, number, true));
      at += 56;
    }
    for (let axis = 0; axis < 3; axis += 1) {
      view.setInt32(at, 4 * atoms, true);
      for (let atom = 0; atom < atoms; atom += 1) view.setFloat32(at + 4 + 4 * atom, numberAt(frame, axis, atom), true);
      view.setInt32(at + 4 + 4 * atoms, 4 * atoms, true);
      at += 4 * atoms + 8;
    }
  }
  return view.buffer;
}

const numberAt = (frame: number, axis: number, atom: number) => frame * 1000 + axis * 100 + (atom % 100);

/** Ranges of a file, which are counted. */
function rangesOf(file: ArrayBuffer): { read: ReadRange; asked: [number, number][] } {
  const asked: [number, number][] = [];
  return {
    asked,
    read: async (from, to) => {
      asked.push([from, to]);
      return { bytes: file.slice(from, to), size: file.byteLength };
    },
  };
}

test("every frame has its own numbers, with a cell and without", async () => {
  for (const hasCell of [true, false]) {
    const dcd = await Dcd.open(rangesOf(dcdOf(7, 5, hasCell)).read);
    assert.equal(dcd.frames, 7);
    assert.equal(dcd.atoms, 5);
    for (let index = 0; index < 7; index += 1) {
      const { x, y, z, cell } = await dcd.frame(index);
      assert.deepEqual(cell, hasCell ? { lengths: [30 + index, 40, 50], cosines: [0, 0.1, 0.5] } : undefined);
      assert.deepEqual([x[4], y[0], z[3]], [numberAt(index, 0, 4), numberAt(index, 1, 0), numberAt(index, 2, 3)]);
    }
  }
});

test("a frame costs one piece of the file, and one that was read costs nothing", async () => {
  // 2 MiB are 2 frames of this size.
  const { read, asked } = rangesOf(dcdOf(6, 80_000));
  const dcd = await Dcd.open(read);
  await dcd.frame(4);
  await dcd.frame(5);
  assert.equal(asked.length, 2);
  const [from, to] = asked[1] ?? [0, 0];
  assert.ok(to - from <= 2 << 20);
  dcd.readAhead(0);
  assert.equal(asked.length, 3);
  await dcd.frame(2);
  assert.equal(asked.length, 3);
});

test("of a long file the pieces that were used last are kept, 50 MB of them", async () => {
  const frames = 60;
  const file = dcdOf(frames, 80_000);
  const { read, asked } = rangesOf(file);
  const dcd = await Dcd.open(read);
  for (let index = 0; index < frames; index += 1) await dcd.frame(index);
  const pieces = asked.length;
  const [from, to] = asked.at(-1) ?? [0, 0];
  for (let index = frames; index > frames - 2 * Math.floor(48e6 / (to - from)); index -= 2) await dcd.frame(index - 1);
  assert.equal(asked.length, pieces, "what was used last is there");
  await dcd.frame(0);
  assert.equal(asked.length, pieces + 1, "what was used first is read again");
});

test("what was not written whole is no frame, and a damaged one is said to be", async () => {
  const file = dcdOf(3, 5);
  assert.equal((await Dcd.open(rangesOf(file.slice(0, -1)).read)).frames, 2);
  new DataView(file).setInt32(file.byteLength - 4, 7, true);
  const dcd = await Dcd.open(rangesOf(file).read);
  await dcd.frame(1);
  await assert.rejects(dcd.frame(2), /damaged at frame 2/);
  await assert.rejects(dcd.frame(3), RangeError);
});

test("a failed piece is read again", async () => {
  const { read } = rangesOf(dcdOf(2, 5));
  let isBroken = false;
  const dcd = await Dcd.open((from, to) => (isBroken ? Promise.reject(new Error("broken")) : read(from, to)));
  isBroken = true;
  await assert.rejects(dcd.frame(0), /broken/);
  isBroken = false;
  assert.equal((await dcd.frame(0)).x[1], numberAt(0, 0, 1));
});

test("what is no DCD file is refused", async () => {
  await assert.rejects(Dcd.open(rangesOf(new ArrayBuffer(2000)).read), /no DCD file/);
  await assert.rejects(Dcd.open(rangesOf(new ArrayBuffer(3)).read), /no DCD file/);
});
