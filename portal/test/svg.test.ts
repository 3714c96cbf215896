import assert from "node:assert/strict";
import { test } from "node:test";

import { inWords, labelled, svgOf, ticks } from "../src/chart/svg.ts";

const labels = (from: number, to: number) => labelled(ticks({ from, size: to - from })).map(([, label]) => label);

test("the numbers of a saved chart have the digits that tell them apart, and no more", () => {
  assert.deepEqual(labels(0, 1), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
  assert.deepEqual(labels(0, 36), ["0", "10", "20", "30"]);
  assert.deepEqual(labels(12.34561, 12.34569), ["12.34562", "12.34564", "12.34566", "12.34568"]);
  assert.deepEqual(labels(-79_100, -78_000), ["-79000", "-78500", "-78000"]);
  assert.deepEqual(labels(-1_000_250, -1_000_000), ["-1000250", "-1000200", "-1000150", "-1000100", "-1000050", "-1000000"]);
  assert.deepEqual(labels(0, 4e7), ["0", "1e+7", "2e+7", "3e+7", "4e+7"]);
  assert.deepEqual(labels(0, 2e-5), ["0", "5e-6", "1.0e-5", "1.5e-5", "2.0e-5"]);
});

test("no two ticks of a saved chart have the same number", () => {
  for (let power = -9; power <= 12; power += 1) {
    for (const from of [0, -3, 1, 7.3, 1234.5, -99_999, 2_345_678]) {
      const all = labels(from, from + 3.7 * 10 ** power);
      assert.equal(new Set(all).size, all.length, `${all.join(" ")}`);
    }
  }
});

test("what is constant but for its last digits is drawn as a level line", () => {
  const picture = svgOf({ title: "t", x: { name: "time" }, y: { name: "volume" }, lines: [{ name: "v", x: [0, 1, 2], y: [119.67186, 119.67185, 119.67186] }] });
  const heights = [.../ d="([^"]*L[^"]*)"/.exec(picture)?.[1]?.matchAll(/ ([\d.]+)/g) ?? []].map(([, height]) => Number(height));
  assert.equal(heights.length, 3);
  assert.ok(Math.max(...heights) - Math.min(...heights) < 1, `${heights}`);
});

test("a saved chart has its numbers beside its axes", () => {
  const line = { name: "a", x: [0, 1], y: [7, 7.004] };
  const picture = svgOf({ title: "t", x: { name: "time", unit: "ns" }, y: { name: "d", unit: "Å" }, lines: [line] });
  assert.ok(picture.includes(">7.001<") && picture.includes(">0.2<") && !picture.includes(">7.00100<"));
});

test("who does not see curves is told how far they go", () => {
  const plot = { title: "rmsd", x: { name: "time", unit: "ps" }, y: { name: "rmsd", unit: "Å" } };
  const a = { name: "one", x: [0, 1, 2], y: [0.5, null, 1.234567] };
  assert.equal(inWords({ ...plot, lines: [a] }), "rmsd: rmsd, Å against time, ps; from 0.5000 to 1.2346, at last 1.2346");
  const b = { name: "two", x: [0], y: [-3] };
  assert.match(inWords({ ...plot, lines: [a, b] }), /; one from 0\.5000 to .*; two from -3 to -3, at last -3$/);
  assert.equal(inWords({ ...plot, lines: [{ name: "none", x: [], y: [] }] }), "rmsd: rmsd, Å against time, ps");
});
