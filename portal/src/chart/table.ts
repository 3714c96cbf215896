//! Which plots show a table of an analysis. Names, units and definitions are the table's own.
import type { Schemas } from "../api/client.ts";
import type { Line, Plot } from "./svg.ts";

type Table = Schemas["AnalysisTable"];
type Column = Schemas["AnalysisColumn"];

/** A square of numbers: rows and columns are residues. */
export type Matrix = { title: string; name: string; size: number; at: (row: number, column: number) => number | undefined };

/** Along what a table is drawn, the first that it has. */
const ALONG = ["time_ps", "frame", "residue_number", "residue"];
/** Numbers that name things rather than measure them. */
const NUMBERS_OF_THINGS = /(^|_)(frame|time_ps|atom|residue|number)$/;
/** Times from here on are drawn in ns. */
const LONG_PS = 1000;
/** With more lines than colours nobody tells them apart. */
const MOST_LINES = 8;
const MANY = 4;

export function plotsOf(table: Table): Plot[] {
  const along = ALONG.map((name) => table.columns.find((column) => column.name === name)).find(Boolean);
  if (!along) return [];
  const { x, values } = abscissa(along);
  const measured = table.columns.filter(({ name, values }) =>
    !NUMBERS_OF_THINGS.test(name) && values.length > 0 && values.every((value) => value === null || typeof value === "number"));
  return alike(measured).flatMap((columns) => {
    const shown = columns.filter(isMoving).slice(0, MOST_LINES);
    const drawn = shown.length > 0 ? shown : columns.slice(0, 1);
    const lines = drawn.map((column): Line => ({ name: wordsOf(column.name), x: values, y: numbersOf(column) }));
    const unit = drawn[0]?.unit;
    const name = lines.length === 1 ? (lines[0]?.name ?? "") : quantityOf(drawn);
    return [{ title: table.title, x, y: { name, ...(unit === undefined ? {} : { unit }) }, lines }];
  });
}

/** Columns that share an axis: those of one unit. Counts and fractions do where they are many, as states are. */
function alike(columns: readonly Column[]): Column[][] {
  const byUnit = new Map<string, Column[]>();
  for (const column of columns) {
    const unit = column.unit ?? "";
    byUnit.set(unit, [...(byUnit.get(unit) ?? []), column]);
  }
  return [...byUnit].flatMap(([unit, group]) =>
    unit === "" && group.length < MANY ? group.map((column) => [column]) : [group]);
}

/** The matrix that a table of pairs of residues is. */
export function matrixOf(table: Table): Matrix | undefined {
  const column = (name: string) => table.columns.find((column) => column.name === name);
  const [a, b, values] = [column("residue_a_number"), column("residue_b_number"), column("occupancy")];
  if (!a || !b || !values || values.values.length === 0) return undefined;
  const pairs = new Map<string, number>();
  let size = 0;
  numbersOf(values).forEach((value, i) => {
    const [row, column] = [numbersOf(a)[i], numbersOf(b)[i]];
    if (value === null || typeof row !== "number" || typeof column !== "number") return;
    pairs.set(`${row} ${column}`, value).set(`${column} ${row}`, value);
    size = Math.max(size, row, column);
  });
  return { title: table.title, name: "occupancy", size, at: (row, column) => pairs.get(`${row} ${column}`) };
}

/** A column's name in words; its unit stands beside it. */
export function wordsOf(name: string): string {
  return name.replace(/_(angstrom2?|ps|deg|nm)$/, "").replaceAll("_", " ");
}

function abscissa(column: Column): { x: Plot["x"]; values: number[] } {
  const values = numbersOf(column).map((value) => value ?? NaN);
  if (column.name !== "time_ps") return { x: { name: wordsOf(column.name) }, values };
  const isLong = Math.abs(values.at(-1) ?? 0) >= LONG_PS;
  return { x: { name: "time", unit: isLong ? "ns" : "ps" }, values: isLong ? values.map((ps) => ps / 1000) : values };
}

function numbersOf({ values }: Column): (number | null)[] {
  return values.map((value) => (typeof value === "number" ? value : null));
}

/** What never occurs, such as a state of secondary structure, hides what does. */
function isMoving(column: Column): boolean {
  return column.values.some((value) => value !== 0 && value !== null);
}

/** What several columns have in common: `rmsd` of `rmsd_1_angstrom` and `rmsd_2_angstrom`. */
function quantityOf(columns: readonly Column[]): string {
  const stems = new Set(columns.map(({ name }) => wordsOf(name).replace(/ \d+$/, "")));
  return stems.size === 1 ? ([...stems][0] ?? "") : "count or fraction";
}
