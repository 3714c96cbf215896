import assert from "node:assert/strict";
import { test } from "node:test";

import { renew } from "../src/chart/renew.ts";

type Shown = Parameters<typeof renew>[0];

function plotOf(min: number, max: number) {
  const calls: unknown[] = [];
  const plot = {
    data: [[0, 1, 2, 3]], scales: { x: { min, max } },
    setData: (_data: unknown, isReset: boolean) => calls.push(isReset), redraw: () => calls.push("redraw"),
  } as unknown as Shown;
  return { plot, calls };
}

test("a part of a curve stays in sight while the curve grows, and the whole of it becomes more", () => {
  const data: [number[], number[]] = [[0, 1, 2, 3, 4], [5, 5, 5, 5, 5]];
  const part = plotOf(1, 2);
  renew(part.plot, data);
  assert.deepEqual(part.calls, [false, "redraw"]);
  const whole = plotOf(0, 3);
  renew(whole.plot, data);
  assert.deepEqual(whole.calls, [true]);
});
