import assert from "node:assert/strict";
import { test } from "node:test";

import { histogramOf } from "../src/chart/histogram.ts";

test("every value of a histogram is in one of its parts, the largest in the last", () => {
  const { middles, counts } = histogramOf([0, 1, 1, 2, 9.99, 10], 10);
  assert.deepEqual(middles, [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5]);
  assert.deepEqual(counts, [1, 2, 1, 0, 0, 0, 0, 0, 0, 2]);
});

test("values that are all alike have one part, and no values none", () => {
  assert.deepEqual(histogramOf([3, 3], 10).counts, [2]);
  assert.deepEqual(histogramOf([], 10).counts, []);
});
