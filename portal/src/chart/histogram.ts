//! Numbers counted in equal parts of their range.

/** How many values lie in each of so many equal parts of their range; the largest lies in the last. */
export function histogramOf(values: readonly number[], parts: number): { middles: number[]; counts: number[] } {
  let [least, largest] = [Infinity, -Infinity];
  for (const value of values) {
    least = Math.min(least, value);
    largest = Math.max(largest, value);
  }
  const width = largest > least ? (largest - least) / parts : 1;
  const n = largest > least ? parts : 1;
  const counts = new Array<number>(values.length === 0 ? 0 : n).fill(0);
  for (const value of values) {
    const part = Math.min(n - 1, Math.floor((value - least) / width));
    counts[part] = (counts[part] ?? 0) + 1;
  }
  return { middles: counts.map((_, part) => least + (part + 0.5) * width), counts };
}
