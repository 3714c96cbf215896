//! How the losses of a portfolio are distributed over the scenarios.
import { histogramOf } from "./histogram.ts";
import { SeriesChart } from "./series.tsx";
import { saveCsv } from "./save.ts";

const BARS = 60;

type Props = {
  losses: readonly number[];
  currency: string | undefined;
  /** Losses that are marked, such as the value at risk. */
  marked: readonly number[];
};

export function LossChart({ losses, currency, marked }: Props) {
  const { middles, counts } = histogramOf(losses, BARS);
  return <div className="stack">
    <SeriesChart title="Losses" isHistogram height={220} borders={marked}
      x={{ name: "loss", ...(currency === undefined ? {} : { unit: currency }) }} y={{ name: "scenarios" }}
      lines={[{ name: "scenarios", x: middles, y: counts }]} />
    <div><button type="button" onClick={() => saveCsv("losses", [
      { name: "loss", ...(currency === undefined ? {} : { unit: currency }), values: losses },
    ])}>All losses as CSV</button></div>
  </div>;
}
