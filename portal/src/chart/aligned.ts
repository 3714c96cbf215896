//! Lines beside each other: one column of places along the x axis, and one of values for each line.
import type { Line, Plot } from "./svg.ts";

/** A value that is missing is a gap; one that is not there at all belongs to another line's place. */
type Values = (number | null | undefined)[];

/** Lines that do not share their places are put between each other; a place that a line has twice is there twice. */
export function aligned(lines: readonly Line[]): [number[], ...Values[]] {
  const [first] = lines;
  if (!first) return [[]];
  if (lines.every(({ x }) => x === first.x)) return [[...first.x], ...lines.map(({ y }) => [...y])];
  const most = new Map<number, number>();
  for (const { x } of lines) {
    const own = new Map<number, number>();
    for (const at of x) own.set(at, (own.get(at) ?? 0) + 1);
    for (const [at, times] of own) most.set(at, Math.max(times, most.get(at) ?? 0));
  }
  const places = [...most].sort(([a], [b]) => a - b).flatMap(([at, times]) => new Array<number>(times).fill(at));
  const rows = new Map<number, number>();
  places.forEach((at, row) => rows.has(at) || rows.set(at, row));
  return [places, ...lines.map(({ x, y }) => {
    const values: Values = new Array(places.length).fill(undefined);
    const next = new Map(rows);
    x.forEach((at, i) => {
      const row = next.get(at) ?? 0;
      values[row] = y[i];
      next.set(at, row + 1);
    });
    return values;
  })];
}

/** The same as columns of a file. */
export function columnsOf({ x, y, lines }: Pick<Plot, "x" | "y" | "lines">) {
  const [along, ...values] = aligned(lines);
  return [
    { ...x, values: along as Values },
    ...values.map((column, i) => ({ ...y, name: lines.length > 1 ? `${y.name} ${lines[i]?.name}` : y.name, values: column })),
  ];
}
