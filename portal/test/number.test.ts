import assert from "node:assert/strict";
import { test } from "node:test";

import { columnOf, hours, moment, number, roughly, significant, tickLabels, toFemtosecond } from "../src/part/number.ts";

/** As the sentences around them have them, whatever this machine speaks. */
function plain(text: string): number {
  return Number(text.replaceAll(",", ""));
}

test("a number loses no digit before its point", () => {
  assert.equal(plain(number(123_456.7)), 123_457);
  assert.equal(plain(number(9_999.6)), 10_000);
  assert.equal(plain(number(0.123_456)), 0.1235);
  assert.equal(plain(number(12.3456)), 12.35);
  assert.equal(plain(number(-1_234.56, 5)), -1234.6);
});

test("what is estimated is told as exactly as it is known", () => {
  assert.equal(plain(roughly(8_923)), 8900);
  assert.equal(plain(roughly(0)), 0);
});

test("a time has its decimals however long the trajectory is", () => {
  assert.equal(plain(moment(1_234_567.5)), 1_234_567.5);
  assert.equal(plain(moment(0.002)), 0.002);
});

test("ticks are told apart, far from zero and near it", () => {
  for (const values of [[12_345.5, 12_346, 12_346.5], [-1_000_200, -1_000_100, -1_000_000], [0, 0.00005, 0.0001], [0.1, 0.35, 0.6]]) {
    assert.deepEqual(tickLabels(values).map(plain), values);
  }
});

test("ticks have the decimals that they need, and all as many", () => {
  assert.deepEqual(tickLabels([119.67, 119.671, 119.672]), ["119.670", "119.671", "119.672"]);
  assert.deepEqual(tickLabels([0.1, 0.2, 0.1 + 0.2]), ["0.1", "0.2", "0.3"]);
  assert.deepEqual(tickLabels([0, 0.25, 0.5]), ["0.00", "0.25", "0.50"]);
  assert.deepEqual(tickLabels([-79_000, -78_500]), ["-79,000", "-78,500"]);
});

test("hours of a limit are told to a tenth", () => {
  assert.equal(plain(hours(0.002_008)), 0);
  assert.equal(plain(hours(1_234.56)), 1234.6);
});

test("numbers of a column have as many decimals", () => {
  const decimals = (text: string) => text.split(/[.,]/).at(-1)?.length;
  const speeds = columnOf([12.7, 300, undefined, 8.25], significant(3));
  assert.deepEqual([12.7, 300, 8.25].map(speeds).map(decimals), [2, 2, 2]);
  assert.deepEqual([12.7, 300].map(speeds).map(plain), [12.7, 300]);
  const times = columnOf([1_234_567.5, 2], toFemtosecond);
  assert.deepEqual([1_234_567.5, 2].map(times).map(plain), [1_234_567.5, 2]);
  assert.equal(columnOf([3, 1_200])(3), "3");
  assert.equal(plain(columnOf([1e-12, 0.5])(0.5)), 0.5);
  assert.equal(plain(columnOf([12_345.678, 0.25], significant(5))(12_345.678)), 12_345.68, "no digit is lost to fewer");
});

test("what rounding leaves of 0 is 0 beside the numbers of its column, and small numbers are what they are", () => {
  const rmsd = columnOf([4e-18, 1.25, 2.5]);
  assert.deepEqual([4e-18, -4e-18, 1.25, 2.5].map(rmsd), ["0.00", "0.00", "1.25", "2.50"]);
  assert.equal(columnOf([-1e-16, 3])(-1e-16), "0");
  assert.equal(plain(columnOf([4e-18, 8e-18])(4e-18)), 4e-18);
  assert.equal(plain(columnOf([2e-9, 0.5])(2e-9)), 2e-9);
});
