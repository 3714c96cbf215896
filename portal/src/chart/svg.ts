//! Curves as an SVG picture, for files: on white, whatever the page looks like.

import { columnOf, significant } from "../part/number.ts";

export type Line = { name: string; x: readonly number[]; y: readonly (number | null)[] };
export type Plot = {
  title: string;
  x: { name: string; unit?: string };
  y: { name: string; unit?: string };
  lines: readonly Line[];
  /** Whether the one line is a histogram, whose places are the middles of bars of one width. */
  isHistogram?: boolean;
  /** Whether points stand alone, as there is nothing between two of them. */
  isDotted?: boolean;
};

/** Okabe and Ito's colours on white. */
export const COLOURS = ["#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"] as const;

const WIDTH = 640;
const HEIGHT = 320;
const EDGE = { left: 76, right: 16, top: 36, bottom: 48 };

/** What curves show, for those who do not see them: how far each goes, and where it ends. */
export function inWords({ title, x, y, lines, isHistogram = false }: Plot): string {
  const told = lines.flatMap((line) => {
    const [least, most] = extent(line.y);
    if (least === undefined || most === undefined) return [];
    const last = line.y.at(-1);
    const words = columnOf([least, most, last], significant(5));
    const end = isHistogram || typeof last !== "number" ? "" : `, at last ${words(last)}`;
    return [`${lines.length > 1 ? `${line.name} ` : ""}from ${words(least)} to ${words(most)}${end}`];
  });
  return [`${title}: ${withUnit(y)} against ${withUnit(x)}`, ...told].join("; ");
}

export function svgOf({ title, x, y, lines, isHistogram = false, isDotted = false }: Plot): string {
  const half = isHistogram ? barOf(lines[0]) / 2 : 0;
  const across = spanOf(lines.flatMap((line) => extent(line.x)).flatMap((at) => [at - half, at + half]));
  const up = widened(spanOf([...lines.flatMap((line) => extent(line.y)), ...(isHistogram ? [0] : [])]));
  const atX = (value: number) => EDGE.left + ((value - across.from) / across.size) * (WIDTH - EDGE.left - EDGE.right);
  const atY = (value: number) => HEIGHT - EDGE.bottom - ((value - up.from) / up.size) * (HEIGHT - EDGE.top - EDGE.bottom);
  const bottom = HEIGHT - EDGE.bottom;
  const ticksX = labelled(ticks(across)).map(([value, label]) => `<path d="M${px(atX(value))} ${bottom}v5" stroke="#57606a"/>`
    + text(atX(value), bottom + 18, "middle", label));
  const ticksY = labelled(ticks(up)).map(([value, label]) => `<path d="M${EDGE.left} ${px(atY(value))}H${WIDTH - EDGE.right}" stroke="#d9dcdf"/>`
    + text(EDGE.left - 8, atY(value) + 4, "end", label));
  const curves = isHistogram ? lines.map((line) => barsOf(line, atX, atY, half)) : lines.map((line, i) => `<path fill="none" stroke="${COLOURS[i % COLOURS.length]}" ${isDotted ? 'stroke-width="3" stroke-linecap="round"' : 'stroke-width="1.3"'} d="${pathOf(line, atX, atY, isDotted)}"/>`);
  const key = lines.length < 2 ? [] : lines.map((line, i) =>
    `<rect x="${EDGE.left + 8}" y="${EDGE.top + 6 + 16 * i}" width="12" height="3" fill="${COLOURS[i % COLOURS.length]}"/>`
    + text(EDGE.left + 26, EDGE.top + 12 + 16 * i, "start", line.name));
  const middle = (EDGE.top + bottom) / 2;
  return head(WIDTH, HEIGHT, title) + ticksY.join("") + ticksX.join("")
    + `<path d="M${EDGE.left} ${EDGE.top}V${bottom}H${WIDTH - EDGE.right}" fill="none" stroke="#57606a"/>`
    + curves.join("") + key.join("")
    + text((EDGE.left + WIDTH - EDGE.right) / 2, HEIGHT - 8, "middle", withUnit(x))
    + `${upwards(16, middle, withUnit(y))}</svg>`;
}

/** Squares of a matrix as they are drawn on a figure, beside the scale of their colour. */
export type Squares = {
  title: string;
  name: string;
  unit: string;
  axes: readonly [along: string, up: string];
  size: number;
  largest: number;
  labelOf: (place: number) => number;
};

const SQUARE = 380;
const SCALE = { left: 24, width: 14 };
const RIGHT = 130;
/** From white, as print takes it, to this blue. */
export const FULL = [0, 0x72, 0xb2] as const;

/** A matrix with its axes; `picture` has its squares, as the address of an image. */
export function svgOfSquares({ title, name, unit, axes, size, largest, labelOf }: Squares, picture: string): string {
  const [first, last] = [labelOf(0), labelOf(size - 1)];
  const bottom = EDGE.top + SQUARE;
  const [width, height] = [EDGE.left + SQUARE + RIGHT, bottom + EDGE.bottom];
  const across = spanOf([first, last]);
  const along = (value: number) => (size === 1 ? 0.5 : ((value - first) / (last - first)) * (1 - 1 / size) + 0.5 / size) * SQUARE;
  const whole = ticks(across).filter((value) => Number.isInteger(value) && value >= first && value <= last);
  const marks = labelled(whole).map(([value, label]) => {
    const [x, y] = [EDGE.left + along(value), bottom - along(value)];
    return `<path d="M${px(x)} ${bottom}v5M${EDGE.left} ${px(y)}h-5" stroke="#57606a"/>`
      + text(x, bottom + 18, "middle", label) + text(EDGE.left - 8, y + 4, "end", label);
  });
  const scale = EDGE.left + SQUARE + SCALE.left;
  const middle = (EDGE.top + bottom) / 2;
  return head(width, height, title)
    + `<image href="${picture}" x="${EDGE.left}" y="${EDGE.top}" width="${SQUARE}" height="${SQUARE}" style="image-rendering:pixelated"/>`
    + `<rect x="${EDGE.left}" y="${EDGE.top}" width="${SQUARE}" height="${SQUARE}" fill="none" stroke="#57606a"/>` + marks.join("")
    + `<linearGradient id="scale" x1="0" y1="1" x2="0" y2="0"><stop stop-color="#ffffff"/><stop offset="1" stop-color="rgb(${FULL.join()})"/></linearGradient>`
    + `<rect x="${scale}" y="${EDGE.top}" width="${SCALE.width}" height="${SQUARE}" fill="url(#scale)" stroke="#57606a"/>`
    + text(scale + SCALE.width + 8, bottom, "start", "0") + text(scale + SCALE.width + 8, EDGE.top + 10, "start", String(Number(largest.toPrecision(3))))
    + upwards(scale + SCALE.width + 24, middle, withUnit({ name, unit }))
    + text(EDGE.left + SQUARE / 2, height - 8, "middle", axes[0]) + upwards(16, middle, axes[1]) + "</svg>";
}

function head(width: number, height: number, title: string): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" `
    + `font-family="sans-serif" font-size="12" fill="#1b1f23"><rect width="100%" height="100%" fill="#ffffff"/>`
    + text(EDGE.left, 22, "start", title, 14);
}

function upwards(x: number, y: number, words: string): string {
  return `<g transform="rotate(-90 ${x} ${y})">${text(x, y, "middle", words)}</g>`;
}

export function withUnit({ name, unit }: { name: string; unit?: string }): string {
  return unit === undefined || unit === "" ? name : `${name}, ${unit}`;
}

type Span = { from: number; size: number };

/** Two numbers at most, however many there are. */
function extent(values: readonly (number | null)[]): number[] {
  let least = Infinity;
  let largest = -Infinity;
  for (const value of values) {
    if (value === null || !Number.isFinite(value)) continue;
    least = Math.min(least, value);
    largest = Math.max(largest, value);
  }
  return least <= largest ? [least, largest] : [];
}

/** The range of some numbers; of none or of one alone, a range around it. */
function spanOf(values: readonly number[]): Span {
  const [least, largest] = extent(values);
  if (least === undefined || largest === undefined) return { from: 0, size: 1 };
  if (least === largest) return { from: least - 0.5, size: 1 };
  return { from: least, size: largest - least };
}

/** Of its size, what a curve has to change by to fill a chart: logs are rounded, and rounding is no event. */
const LEAST_CHANGE = 1e-4;

/** A range that can be drawn: one of numbers that differ in their last digits alone is widened. */
export function widened({ from, size }: Span): Span {
  const least = LEAST_CHANGE * Math.max(Math.abs(from), Math.abs(from + size));
  return size >= least ? { from, size } : { from: from + (size - least) / 2, size: least };
}

/** About five round numbers in a range. */
export function ticks({ from, size }: Span): number[] {
  const rough = size / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? rough;
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor((from + size) / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step);
}

/** Ticks with their numbers: with the digits that tell them apart and no more, by powers of ten where that is shorter. */
export function labelled(ticks: readonly number[]): [number, string][] {
  const [first = 0, second = first + 1] = ticks;
  // A logarithm of 0.001 may be a little less than -3.
  const powerOf = (value: number) => Math.floor(Math.log10(Math.abs(value)) + 1e-9);
  const last = powerOf(second - first);
  const plain = ticks.map((value) => value.toFixed(Math.min(Math.max(0, -last), 100)));
  const powers = ticks.map((value) => {
    const zero = Math.abs(value) < Math.abs(second - first) / 2;
    return zero ? "0" : value.toExponential(Math.min(Math.max(0, powerOf(value) - last), 15));
  });
  const length = (labels: string[]) => Math.max(...labels.map((label) => label.length));
  const labels = length(powers) < length(plain) ? powers : plain;
  return ticks.map((value, i) => [value, labels[i] ?? ""]);
}

/** A gap in the numbers is a gap in the curve. */
function pathOf({ x, y }: Line, atX: (value: number) => number, atY: (value: number) => number, isDotted: boolean): string {
  let isDown = false;
  return y.map((value, i) => {
    const along = x[i];
    if (value === null || along === undefined || !Number.isFinite(value)) {
      isDown = false;
      return "";
    }
    const step = `${isDown ? "L" : "M"}${px(atX(along))} ${px(atY(value))}`;
    if (isDotted) return `${step}h0`;
    isDown = true;
    return step;
  }).join("");
}

/** How wide the bars of a histogram are. */
function barOf(line: Line | undefined): number {
  const [first = 0, second = first + 1] = line?.x ?? [];
  return second - first;
}

function barsOf({ x, y }: Line, atX: (value: number) => number, atY: (value: number) => number, half: number): string {
  const bars = y.map((value, i) => {
    const along = x[i];
    if (value === null || along === undefined) return "";
    return `M${px(atX(along - half))} ${px(atY(0))}V${px(atY(value))}H${px(atX(along + half))}V${px(atY(0))}z`;
  });
  return `<path fill="#56b4e9" stroke="#ffffff" stroke-width="0.5" d="${bars.join("")}"/>`;
}

function px(value: number): string {
  return value.toFixed(1);
}

function text(x: number, y: number, anchor: string, words: string, size?: number): string {
  const bold = size === undefined ? "" : ` font-size="${size}" font-weight="600"`;
  return `<text x="${px(x)}" y="${px(y)}" text-anchor="${anchor}"${bold}>${escaped(words)}</text>`;
}

function escaped(words: string): string {
  return words.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
