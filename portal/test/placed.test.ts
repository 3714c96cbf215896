import assert from "node:assert/strict";
import { test } from "node:test";

import { after, anglesOf, placedBy, rotationOf } from "../src/viewer/placed.ts";

/** Where a matrix by columns leads. */
function moved(matrix: readonly number[], point: readonly number[]): number[] {
  return [0, 1, 2].map((i) => [...point, 1].reduce((sum, value, j) => sum + (matrix[4 * j + i] ?? NaN) * value, 0));
}

function isNear(found: readonly number[], wanted: readonly number[]): void {
  assert.equal(found.length, wanted.length);
  found.forEach((value, i) => assert.ok(Math.abs(value - (wanted[i] ?? NaN)) < 1e-9, `${found} is not ${wanted}`));
}

test("angles turn about x, then y, then z, as the worker's rotation_matrix does", () => {
  // What it returns for these.
  isNear(rotationOf([30, -40, 50]) ?? [], [
    0.49240387650610407, -0.8700019037522058, 0.025201386257487246,
    0.5868240888334652, 0.31046846097336755, -0.7478280708194912,
    0.6427876096865393, 0.38302222155948895, 0.6634139481689384,
  ]);
});

test("a quaternion is the same rotation as its angles", () => {
  const half = Math.PI / 8;
  isNear(rotationOf([0, 0, 2 * Math.sin(half), 2 * Math.cos(half)]) ?? [], rotationOf([0, 0, 45]) ?? []);
  assert.equal(rotationOf([0, 0, 0, 0]), undefined);
  assert.equal(rotationOf([1, 2]), undefined);
});

test("the middle of a ligand stays where it is when it is turned, and goes where it is moved", () => {
  const [centre, shift] = [[1, 2, 3], [10, 0, -5]];
  const matrix = placedBy(rotationOf([20, 70, -110]) ?? [], centre, shift);
  isNear(moved(matrix, centre), [11, 2, -2]);
  const quarter = placedBy(rotationOf([0, 0, 90]) ?? [], centre, [0, 0, 0]);
  isNear(moved(quarter, [2, 2, 3]), [1, 3, 3]);
});

test("a rotation has angles that give it again, also where two axes fall together", () => {
  for (const angles of [[30, -40, 50], [0, 90, 0], [10, 90, 35], [-170, 5, 179.9]]) {
    const rotation = rotationOf(angles) ?? [];
    const again = rotationOf(anglesOf(rotation)) ?? [];
    again.forEach((value, i) => assert.ok(Math.abs(value - (rotation[i] ?? NaN)) < 2e-3, `${angles}`));
  }
  const turned = after(rotationOf([0, 0, 90]) ?? [], rotationOf([90, 0, 0]) ?? []);
  isNear(turned, rotationOf([90, 0, 90]) ?? []);
});
