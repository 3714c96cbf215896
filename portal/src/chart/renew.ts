//! Other numbers in a plot that is there.
import type uPlot from "uplot";

type Shown = Pick<uPlot, "data" | "scales" | "setData" | "redraw">;

/** Somebody who looks at a part of a curve goes on looking at it while more is logged. */
export function renew(plot: Shown, data: uPlot.AlignedData): void {
  const { min, max } = plot.scales["x"] ?? {};
  const [first, last] = [plot.data[0][0], plot.data[0].at(-1)];
  const isPart = typeof min === "number" && typeof max === "number" && first !== undefined && last !== undefined
    && (min > first || max < last);
  plot.setData(data, !isPart);
  if (isPart) plot.redraw();
}
