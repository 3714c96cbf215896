//! Curves over time or along a chain. Only this folder knows uPlot.
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { number, tickLabels } from "../part/number.ts";
import { aligned, columnsOf } from "./aligned.ts";
import { renew } from "./renew.ts";
import { saveCsv, savePng, saveSvg } from "./save.ts";
import { useFileName } from "./subject.ts";
import { inWords, type Line, type Plot, svgOf, ticks, widened, withUnit } from "./svg.ts";

type Props = Plot & {
  /** Where one stage ends and the next begins. */
  borders?: readonly number[];
  height?: number;
  /** Whether there are more values than are drawn and saved. */
  isThinned?: boolean;
  /** A point that was clicked at, by its number on the first line. */
  onPick?: (index: number) => void;
};

const HEIGHT = 170;
const FONT = "12px system-ui, sans-serif";
/** From the edge of a chart to its numbers, and from them to its curves. */
const BESIDE_NUMBERS = 20;
/** So that charts below each other begin at one place. */
const LEAST_WIDTH = 72;
/** Between the numbers along an axis, and for numbers that are short. */
const BETWEEN_NUMBERS = 16;
const LEAST_SPACE = 50;

export function SeriesChart({ title, x, y, lines, isHistogram = false, isDotted = false, borders = [], height = HEIGHT, isThinned = false, onPick }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const [pointed, point] = useState<number>();
  const drawn = useRef({ borders, onPick, lines, point });
  drawn.current = { borders, onPick, lines, point };
  const shape = JSON.stringify([x, y, lines.map(({ name }) => name), height]);
  useEffect(() => {
    const target = place.current;
    if (!target) return;
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const draw = () => {
      // When the colours change, the numbers of the first drawing are old.
      const { lines } = drawn.current;
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(target, { title, x, y, lines, isHistogram, isDotted }, height, drawn), dataOf(lines), target);
    };
    draw();
    scheme.addEventListener("change", draw);
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: target.clientWidth, height }));
    resized.observe(target);
    return () => {
      scheme.removeEventListener("change", draw);
      resized.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
    // New numbers go into the plot that is there; `shape` has everything else.
  }, [shape]);
  useEffect(() => {
    if (plot.current) renew(plot.current, dataOf(lines));
  }, [lines]);

  // The values of several lines are in the legend.
  const first = lines.length === 1 ? lines[0] : undefined;
  const last = lines.length === 1 && !isHistogram ? lines[0]?.y.at(-1) : undefined;
  const fileName = useFileName(title);
  const inFile = isThinned ? { ...y, name: `${y.name}, thinned` } : y;
  const picture = () => svgOf({ title, x, y, lines, isHistogram, isDotted });
  return <figure className="chart">
    <figcaption className="spread">
      <span className="quiet">{withUnit(y)}</span>
      <span className="row">
        {typeof last === "number" && x.unit !== undefined && x.unit !== "" && <span className="quiet">last {number(last, 5)}</span>}
        {isThinned && <span className="quiet">thinned</span>}
        <span className="saves">
          <button type="button" className="plain" aria-label={`${title} as PNG`} onClick={() => void savePng(fileName, picture())}>PNG</button>
          <button type="button" className="plain" aria-label={`${title} as SVG`} onClick={() => saveSvg(fileName, picture())}>SVG</button>
          <button type="button" className="plain" aria-label={`${title} as CSV`} onClick={() => saveCsv(isThinned ? `${fileName}_thinned` : fileName, columnsOf({ x, y: inFile, lines }))}>CSV</button>
        </span>
      </span>
    </figcaption>
    <div className="plotted">
      <div ref={place} role="img" aria-label={inWords({ title, x, y, lines, isHistogram })} />
      {first && pointed !== undefined && pointed < first.x.length && <p className="readout small" aria-live="off">
        {x.name} {numberWithUnit(first.x[pointed], x.unit)}: <strong>{numberWithUnit(first.y[pointed], y.unit)}</strong>
      </p>}
    </div>
  </figure>;
}

/** A number of the legend. */
function value(_: uPlot, of: number | null | undefined): string {
  return of === null || of === undefined ? "–" : number(of, 6);
}

function numberWithUnit(of: number | null | undefined, unit = ""): string {
  if (of === null || of === undefined) return "–";
  return unit === "" ? number(of, 6) : `${number(of, 6)} ${unit}`;
}

function dataOf(lines: readonly Line[]): uPlot.AlignedData {
  return aligned(lines);
}

type Drawn = { current: { borders: readonly number[]; onPick: ((index: number) => void) | undefined; point: (index: number | undefined) => void } };

function optionsOf(target: HTMLElement, { x, y, lines, isHistogram, isDotted }: Plot, height: number, drawn: Drawn): uPlot.Options {
  const ink = colourOf(target, "--quiet");
  const grid = { stroke: colourOf(target, "--line"), width: 1 };
  const bars = isHistogram ? uPlot.paths.bars?.({ size: [1, Infinity] }) : undefined;
  const withBars = (plot: uPlot, least: number, largest: number): [number, number] => {
    const [first = 0, second = first + 1] = plot.data[0];
    return [least - (second - first) / 2, largest + (second - first) / 2];
  };
  const upwards = (_: uPlot, least: number | null, most: number | null): uPlot.Range.MinMax => {
    if (least === null || most === null) return [0, 1];
    const { from, size } = widened({ from: least, size: most - least });
    return uPlot.rangeNum(from, from + size, 0.1, true);
  };
  const axis = { stroke: ink, grid, ticks: grid, font: FONT };
  const space = (_: uPlot, __: number, least: number, most: number) => {
    const labels = tickLabels(ticks({ from: least, size: most - least }));
    return Math.max(LEAST_SPACE, BETWEEN_NUMBERS + widest(labels));
  };
  const size = (_: uPlot, labels: string[] | null) => Math.max(LEAST_WIDTH, BESIDE_NUMBERS + widest(labels ?? []));
  return {
    width: target.clientWidth,
    height,
    legend: { show: lines.length > 1 },
    cursor: { y: false, drag: { x: true, y: false } },
    scales: isHistogram ? { x: { time: false, range: withBars }, y: { range: (_, __, most) => [0, 1.05 * most] } } : { x: { time: false }, y: { range: upwards } },
    axes: [
      { ...axis, size: 28, space, label: withUnit(x), labelSize: 18, labelFont: FONT, values: (_, values) => tickLabels(values) },
      { ...axis, size, values: (_, values) => tickLabels(values) },
    ],
    series: [
      { label: withUnit(x), value },
      ...lines.map((line, i) => ({
        label: lines.length > 1 ? line.name : withUnit(y),
        stroke: colourOf(target, lines.length > 1 ? `--series-${(i % 8) + 1}` : "--accent"),
        width: 1.3,
        value,
        ...(isDotted ? { paths: () => null, points: { show: true, size: 4 } } : { points: { show: (plot: uPlot, nth: number) => countOf(plot.data[nth]) < 2 } }),
        ...(bars ? { paths: bars, fill: colourOf(target, "--accent-soft"), points: { show: false } } : {}),
      })),
    ],
    hooks: {
      setCursor: [({ cursor: { idx } }) => drawn.current.point(idx ?? undefined)],
      draw: [(plot) => {
        drawBorders(plot, drawn.current.borders, ink);
        target.dataset["points"] = String(countOf(plot.data[1]));
      }],
      ready: [(plot) => plot.over.addEventListener("click", () => {
        if (typeof plot.cursor.idx === "number") drawn.current.onPick?.(plot.cursor.idx);
      })],
    },
  };
}

const measuring = document.createElement("canvas").getContext("2d");

/** How many pixels the longest of some numbers takes. */
function widest(labels: readonly string[]): number {
  if (!measuring) return 0;
  measuring.font = FONT;
  return Math.ceil(Math.max(0, ...labels.map((label) => measuring.measureText(label).width)));
}

/** How many numbers there are of a line: of one alone no curve is seen. */
function countOf(values: ArrayLike<number | null | undefined> | undefined): number {
  return Array.from(values ?? []).filter((value) => typeof value === "number").length;
}

function drawBorders({ ctx, bbox, valToPos }: uPlot, borders: readonly number[], colour: string): void {
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([4, 4]);
  for (const border of borders) {
    const at = Math.round(valToPos(border, "x", true)) + 0.5;
    if (at <= bbox.left || at >= bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/** A colour of the sheet as a canvas takes it: it does not know `light-dark()`. */
function colourOf(place: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  place.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
