import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { Dcd, type Frame } from "../src/viewer/dcd.ts";
import { type Atoms, type Criterion, lengthOf, linesOf, type Measured, nearestIn, type Run } from "../src/viewer/measure.ts";

type Numbers = {
  masks: Record<string, number[]>;
  masses: number[];
  values: Record<string, {
    expected: number[];
    count_per_frame: number[];
    bonds: { donor: number; hydrogen: number; acceptor: number }[];
    triplets_dha: number[][];
  }>;
};

/** What other programs find in a trajectory, and its frames. */
async function trajectory(name: string): Promise<{ numbers: Numbers; frames: Frame[] }> {
  const folder = new URL("../../crates/analysis/tests/data/", import.meta.url);
  const numbers = JSON.parse(await readFile(new URL(`${name}.json`, folder), "utf8")) as Numbers;
  const { buffer, byteLength: size, byteOffset } = await readFile(new URL(`${name}.dcd`, folder));
  const bytes = buffer.slice(byteOffset, byteOffset + size) as ArrayBuffer;
  const dcd = await Dcd.open(async (from, to) => ({ bytes: bytes.slice(from, to), size }));
  return { numbers, frames: await Promise.all(Array.from({ length: dcd.frames }, (_, i) => dcd.frame(i))) };
}

function atomsOf({ x, y, z, cell }: Frame, masses: readonly number[]): Atoms {
  return {
    place: (atom) => [x[atom - 1] ?? NaN, y[atom - 1] ?? NaN, z[atom - 1] ?? NaN],
    mass: (atom) => masses[atom - 1] ?? NaN,
    nearest: nearestIn(cell),
  };
}

/** Atoms that other programs count from 0, each as a run of its own. */
function runs(atoms: readonly number[] = []): Run[] {
  return atoms.map((atom) => [atom + 1, atom + 1]);
}

test("distances are those of cpptraj, in a cube and in a dodecahedron", async () => {
  for (const name of ["mini_md", "mini_tri"]) {
    const { numbers, frames } = await trajectory(name);
    const keys = Object.keys(numbers.values).filter((key) => key.startsWith("distance_com|"));
    assert.ok(keys.length > 1);
    for (const key of keys) {
      const [, a = "", b = ""] = key.split("|");
      const measured: Measured = { kind: "distance", groups: [runs(numbers.masks[a]), runs(numbers.masks[b])] };
      frames.forEach((frame, i) => {
        const [line] = linesOf(measured, atomsOf(frame, numbers.masses));
        assert.ok(line);
        const error = lengthOf(line) - (numbers.values[key]?.expected[i] ?? NaN);
        assert.ok(Math.abs(error) < 1e-4, `${name}, ${key}, frame ${i}: ${error} Å off`);
      });
    }
  }
});

test("the hydrogen bonds of a frame are those of cpptraj", async () => {
  for (const name of ["mini_md", "mini_tri"]) {
    const { numbers, frames } = await trajectory(name);
    const keys = Object.keys(numbers.values).filter((key) => key.startsWith("hbond|"));
    assert.ok(keys.length > 1);
    for (const key of keys) {
      const [, distance, angle] = /dist=([\d.]+)\|angle=([\d.]+)/.exec(key) ?? [];
      const criterion: Criterion = { name: "angle", distance: Number(distance), angle: Number(angle) };
      const { bonds = [], count_per_frame: expected } = numbers.values[key] ?? {};
      const measured: Measured = { kind: "bonds", criterion, bonds: bonds.map(({ donor, hydrogen, acceptor }) =>
        ({ donor: donor + 1, hydrogen: hydrogen + 1, acceptor: acceptor + 1 })) };
      const counts = frames.map((frame) => linesOf(measured, atomsOf(frame, numbers.masses)).length);
      assert.deepEqual(counts, expected, `${name}, ${key}`);
    }
  }
});

test("what mdtraj's baker_hubbard finds in more than a tenth of the frames is there in as many", async () => {
  const { numbers, frames } = await trajectory("mini_md");
  const { triplets_dha: found = [] } = numbers.values["mdtraj_baker_hubbard|:1-24|freq=0.1"] ?? {};
  assert.ok(found.length > 10);
  for (const [donor = 0, hydrogen = 0, acceptor = 0] of found) {
    const bonds = [{ donor: donor + 1, hydrogen: hydrogen + 1, acceptor: acceptor + 1 }];
    const measured: Measured = { kind: "bonds", criterion: { name: "baker_hubbard" }, bonds };
    const share = frames.filter((frame) => linesOf(measured, atomsOf(frame, numbers.masses)).length > 0).length / frames.length;
    assert.ok(share > 0.1, `${donor} ${hydrogen} ${acceptor}: ${share}`);
  }
});

test("an atom that is not shown is in no line", async () => {
  const hidden: Atoms = { place: (atom) => (atom === 2 ? undefined : [atom, 0, 0]), mass: () => 1, nearest: (vector) => vector };
  const criterion: Criterion = { name: "baker_hubbard" };
  const bond = (hydrogen: number) => ({ kind: "bonds", criterion, bonds: [{ donor: 1, hydrogen, acceptor: 4 }] }) as const;
  assert.equal(linesOf(bond(2), hidden).length, 0);
  assert.deepEqual(linesOf(bond(3), hidden), [{ from: [3, 0, 0], to: [4, 0, 0] }]);
  assert.deepEqual(linesOf({ kind: "distance", groups: [[[1, 3]], [[4, 4]]] }, hidden), []);
});
