//! Which plots show a table of an analysis, by its kind as figures on paper do. Names, units and definitions are the
//! table's own.
import type { Schemas } from "../api/client.ts";
import type { Line, Plot } from "./svg.ts";

type Table = Schemas["AnalysisTable"];
type Column = Schemas["AnalysisColumn"];
export type TimeUnit = "ps" | "ns";

/** A square of numbers, from its lower left corner, row by row; NaN where there is none. */
export type Matrix = {
  title: string;
  /** What the numbers are, and of what. */
  name: string;
  of: string;
  unit: string;
  size: number;
  values: Float32Array;
  /** What is drawn in full colour. */
  largest: number;
  /** What lies along it and up. */
  axes: readonly [along: string, up: string];
  /** What a row or a column is called. */
  labelOf: (place: number) => number;
};

/** Numbers that name things rather than measure them. */
const NUMBERS_OF_THINGS = /(^|_)(frame|time_ps|atom|residue|number)$/;
/** Times from here on are drawn in ns. */
const LONG_PS = 1000;
/** With more lines than colours nobody tells them apart. */
const MOST_LINES = 8;
const MOST_PLOTS = 6;
const MANY = 4;
/** Residues from which on a table by atom is left to the one by residue. */
const FEW_RESIDUES = 3;
/** Angles that are drawn over time at most. */
const MOST_ANGLES = 6;
/** Residues, or frames, that a square has at most along a side. */
const MOST_IN_SQUARE = 3000;
/** Squares of a map of angles along an axis, from −180° to 180°. */
const ANGLE_BINS = 72;

/** Which atoms each mask has selected, which may be others than were meant: `:41@CA: 1 atom, A:ALA81@CA`. */
export function selectionsOf({ groups = [] }: Table): string[] {
  const found = groups.flatMap(({ label, atoms, first_atom, last_atom }) => {
    if (atoms === undefined || first_atom === undefined) return [];
    const to = last_atom === undefined ? "" : ` to ${last_atom}`;
    return [`${label}: ${atoms} ${atoms === 1 ? "atom" : "atoms"}, ${first_atom}${to}`];
  });
  return [...new Set(found)];
}

/** The plots of a table; `time` is the unit of its times, so that tables can be drawn over each other. */
export function plotsOf(table: Table, time: TimeUnit = timeUnitOf(table)): Plot[] {
  if ((table.columns[0]?.values.length ?? 0) === 0) return [];
  switch (table.kind) {
    case "rmsf":
    case "rmsf_by_residue":
      return fluctuations(table);
    case "rdf":
    case "density":
    case "principal_components":
      return profiles(table);
    case "lipid_order":
      return lipidOrder(table);
    case "block_averages":
      return blockErrors(table);
    case "clusters_by_frame":
      return course(table, time).map((plot) => ({ ...plot, isDotted: true }));
    case "dihedrals_by_frame":
      if (table.columns.filter(({ unit }) => unit === "°").length > MOST_ANGLES) return [];
      // A line would cross the plot at each turn beyond 180°.
      return course(table, time).map((plot) => ({ ...plot, y: { ...plot.y, name: "angle" }, isDotted: true }));
    default:
      return course(table, time);
  }
}

export function timeUnitOf(table: Table): TimeUnit {
  const times = table.columns.find(({ name }) => name === "time_ps");
  return times && numbersOf(times).some((ps) => Math.abs(ps ?? 0) >= LONG_PS) ? "ns" : "ps";
}

/** What was measured in each frame; nothing of a table that is not about frames. */
function course(table: Table, time: TimeUnit): Plot[] {
  const along = abscissa(table, time);
  if (!along) return [];
  const measured = table.columns.filter(({ name, values }) =>
    !NUMBERS_OF_THINGS.test(name) && values.every((value) => value === null || typeof value === "number"));
  return alike(measured).flatMap((columns) => {
    const shown = columns.filter(isMoving).slice(0, MOST_LINES);
    const drawn = shown.length > 0 ? shown : columns.slice(0, 1);
    const lines = drawn.map((column): Line => ({ name: wordsOf(column.name), x: along.values, y: numbersOf(column) }));
    const name = lines.length === 1 ? (lines[0]?.name ?? "") : quantityOf(drawn);
    return [{ title: table.title, x: along.x, y: axisOf(name, drawn[0]?.unit), lines }];
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

/** Fluctuations along the chains, a line for each; where numbers begin again in a chain, another line begins. */
function fluctuations(table: Table): Plot[] {
  const [chains, residues, names, rmsf] = columnsNamed(table, "chain", "residue_number", "name", "rmsf_angstrom");
  if (!chains || !residues || !names || !rmsf) return [];
  // By label, since the number leaves out the insertion code.
  const labels = names.values.map((name) => String(name).split("@")[0]);
  const count = labels.filter((label, i) => i === 0 || label !== labels[i - 1]).length;
  const hasSeveral = table.kind === "rmsf" && count < labels.length;
  if (hasSeveral && count >= FEW_RESIDUES) return [];
  const [atoms] = columnsNamed(table, "atom");
  const places = numbersOf(hasSeveral && atoms ? atoms : residues);
  const lines: { name: string; x: number[]; y: (number | null)[] }[] = [];
  const last = new Map<unknown, (typeof lines)[number]>();
  numbersOf(rmsf).forEach((value, i) => {
    const at = places[i];
    const chain = chains.values[i];
    if (typeof at !== "number") return;
    let line = last.get(chain);
    const before = line?.x.at(-1);
    if (!line || before === undefined || at < before) {
      line = { name: chain === "" ? "no chain" : `chain ${String(chain)}`, x: [], y: [] };
      lines.push(line);
      last.set(chain, line);
    } else if (at > before + 1) {
      // Where residues are missing, the line ends.
      line.x.push(before + 1);
      line.y.push(null);
    }
    line.x.push(at);
    line.y.push(value);
  });
  const x = { name: hasSeveral ? "atom number" : "residue number" };
  return inPlots(lines).map((some) => ({ title: table.title, x, y: axisOf("rmsf", rmsf.unit), lines: some }));
}

/** All columns of numbers over the first, a plot each. */
function profiles({ title, columns: [along, ...others] }: Table): Plot[] {
  if (!along) return [];
  const x = axisOf(wordsOf(along.name), along.unit);
  const values = numbersOf(along).map((value) => value ?? NaN);
  return others.filter(({ values }) => typeof values[0] === "number").map((column) => {
    const name = wordsOf(column.name);
    return { title, x, y: axisOf(name, column.unit), lines: [{ name, x: values, y: numbersOf(column) }] };
  });
}

/** Order parameters in the order of carbons, with the sign that nuclear magnetic resonance gives. */
function lipidOrder(table: Table): Plot[] {
  const [residues, order] = columnsNamed(table, "residue", "order_parameter");
  if (!residues || !order) return [];
  const lines: { name: string; x: number[]; y: (number | null)[] }[] = [];
  numbersOf(order).forEach((value, i) => {
    const name = String(residues.values[i]);
    let line = lines.at(-1);
    if (line?.name !== name) lines.push(line = { name, x: [], y: [] });
    line.x.push(line.x.length + 1);
    line.y.push(value === null ? null : -value);
  });
  const x = { name: "carbon with hydrogen, in the order of the table" };
  return inPlots(lines).map((some) => ({ title: table.title, x, y: { name: "−S" }, lines: some }));
}

/** Errors by the length of blocks, a plot for each series, as units differ. */
function blockErrors(table: Table): Plot[] {
  const [tables, columns, measured, units, errors] = columnsNamed(table, "table", "column", "measured", "unit", "standard_error");
  const [times, frames] = columnsNamed(table, "block_ps", "block_frames");
  const along = times ?? frames;
  if (!tables || !columns || !measured || !units || !errors || !along) return [];
  const x = times ? { name: "time of a block", unit: "ps" } : { name: "frames of a block" };
  const series = new Map<string, { name: string; unit: string; x: number[]; y: (number | null)[] }>();
  const places = numbersOf(along);
  numbersOf(errors).forEach((error, i) => {
    const key = `${tables.values[i]},${columns.values[i]}`;
    const line = series.get(key) ?? { name: String(measured.values[i]), unit: String(units.values[i] ?? ""), x: [], y: [] };
    line.x.push(places[i] ?? NaN);
    line.y.push(error);
    series.set(key, line);
  });
  return [...series.values()].slice(0, MOST_PLOTS).map(({ name, unit, x: at, y }) => (
    { title: `${table.title}: ${name}`, x, y: { name: "error", unit }, lines: [{ name, x: at, y }] }));
}

/** Lines of one kind, as many in a plot as there are colours. */
function inPlots(lines: readonly Line[]): Line[][] {
  const some = (i: number) => lines.slice(i * MOST_LINES, (i + 1) * MOST_LINES);
  return Array.from({ length: Math.min(MOST_PLOTS, Math.ceil(lines.length / MOST_LINES)) }, (_, i) => some(i));
}

/** The square that a table of pairs is. */
export function matrixOf(table: Table): Matrix | undefined {
  if ((table.columns[0]?.values.length ?? 0) === 0) return undefined;
  switch (table.kind) {
    case "contacts":
      return residuePairs(table, "occupancy", "occupancy");
    case "native_contacts":
      return residuePairs(table, "soft_fraction", "fraction of contacts");
    case "pairwise_rmsd":
      return framePairs(table);
    case "ramachandran":
      return angles(table, ["phi_deg", "psi_deg"], ["φ", "ψ"]);
    case "side_chain_map":
      return angles(table, ["chi1_deg", "chi2_deg"], ["χ1", "χ2"]);
    default:
      return undefined;
  }
}

/** Secondary structure over time: a text for each frame, with a letter for each residue. */
export type StateMap = { title: string; codes: readonly string[]; frames: readonly number[]; residues: readonly string[] };

/** Classes of the states of DSSP, with the colours that they have in figures. */
export const STATE_CLASSES = [
  { name: "helix (H, G, I)", letters: "HGI", colour: "#8a6fb0" },
  { name: "strand (E, B)", letters: "EB", colour: "#3d8f76" },
  { name: "turn or bend (T, S)", letters: "TS", colour: "#e69f00" },
  { name: "coil (-)", letters: "-", colour: "#bdbdbd" },
] as const;

/** The states of residues in each frame; the table of residues that goes with it has their names. */
export function statesOf(table: Table, tables: readonly Table[]): StateMap | undefined {
  if (table.kind !== "secondary_structure_by_frame") return undefined;
  const nth = tables.filter(({ kind }) => kind === table.kind).indexOf(table);
  const ofResidues = tables.filter(({ kind }) => kind === "secondary_structure")[nth];
  const [codes, frames] = columnsNamed(table, "codes", "frame");
  const [names] = ofResidues ? columnsNamed(ofResidues, "name") : [];
  if (!codes || !frames || !names || codes.values.length === 0) return undefined;
  const numbers = numbersOf(frames).map((frame) => frame ?? NaN);
  return { title: table.title, codes: codes.values.map(String), frames: numbers, residues: names.values.map(String) };
}

/** From the first residue of all to the last; nothing where nobody could see a square. */
function residuePairs(table: Table, column: string, name: string): Matrix | undefined {
  const [a, b, of] = columnsNamed(table, "residue_a_index", "residue_b_index", column);
  if (!a || !b || !of) return undefined;
  const [rows, columns] = [numbersOf(a), numbersOf(b)];
  let [first, last] = [Infinity, -Infinity];
  for (const residue of [...rows, ...columns]) {
    if (residue === null) continue;
    first = Math.min(first, residue);
    last = Math.max(last, residue);
  }
  const square = squareOf(last - first + 1);
  if (!square) return undefined;
  numbersOf(of).forEach((value, i) => square.setBoth((rows[i] ?? NaN) - first, (columns[i] ?? NaN) - first, value));
  return { title: table.title, name, of: "pairs of residues", unit: "", axes: ["residue number", "residue number"], ...square.made, largest: 1, labelOf: (place) => first + place };
}

/** Deviations of all pairs of frames. */
function framePairs(table: Table): Matrix | undefined {
  const [a, b, of] = columnsNamed(table, "frame_a", "frame_b", "rmsd_angstrom");
  if (!a || !b || !of) return undefined;
  const [rows, columns, values] = [numbersOf(a), numbersOf(b), numbersOf(of)];
  const frames = [...new Set([...rows, ...columns])].map((frame) => frame ?? NaN).sort((a, b) => a - b);
  const places = new Map(frames.map((frame, place) => [frame, place]));
  const square = squareOf(frames.length);
  if (!square) return undefined;
  for (let i = 0; i < frames.length; i += 1) square.setBoth(i, i, 0);
  values.forEach((value, i) => square.setBoth(places.get(rows[i] ?? NaN) ?? NaN, places.get(columns[i] ?? NaN) ?? NaN, value));
  return { title: table.title, name: "rmsd", of: "pairs of frames", unit: "Å", axes: ["frame", "frame"], ...square.made, largest: largestOf(values), labelOf: (place) => frames[place] ?? NaN };
}

/** How many residues have which pair of angles. */
function angles(table: Table, names: readonly string[], [along, up]: readonly [string, string]): Matrix | undefined {
  const [x, y, fraction] = columnsNamed(table, ...names, "fraction");
  const square = squareOf(ANGLE_BINS);
  if (!x || !y || !fraction || !square) return undefined;
  const [columns, rows] = [numbersOf(x), numbersOf(y)];
  const percents = numbersOf(fraction).map((value) => (value === null ? null : 100 * value));
  const width = 360 / ANGLE_BINS;
  const binOf = (angle: number | null | undefined) => Math.floor(((angle ?? NaN) + 180) / width);
  percents.forEach((value, i) => square.set(binOf(rows[i]), binOf(columns[i]), value));
  const of = `residues by ${along} and ${up} in degrees`;
  return { title: table.title, name: "part", of, unit: "%", axes: [`${along}, °`, `${up}, °`], ...square.made, largest: largestOf(percents), labelOf: (place) => (place + 0.5) * width - 180 };
}

function squareOf(size: number) {
  if (!(size > 0 && size <= MOST_IN_SQUARE)) return undefined;
  const values = new Float32Array(size * size).fill(NaN);
  const isIn = (place: number) => place >= 0 && place < size;
  const set = (row: number, column: number, value: number | null) => {
    if (value !== null && isIn(row) && isIn(column)) values[row * size + column] = value;
  };
  const setBoth: typeof set = (row, column, value) => {
    set(row, column, value);
    set(column, row, value);
  };
  return { made: { size, values }, set, setBoth };
}

function largestOf(values: readonly (number | null)[]): number {
  return values.reduce((largest: number, value) => Math.max(largest, value ?? 0), 0) || 1;
}

/** A column's name in words; its unit stands beside it. */
export function wordsOf(name: string): string {
  return name.replace(/_(angstrom2?|ps|deg|nm)$/, "").replaceAll("_", " ");
}

function axisOf(name: string, unit: string | undefined): Plot["y"] {
  return { name, ...(unit === undefined ? {} : { unit }) };
}

function columnsNamed({ columns }: Table, ...names: string[]): (Column | undefined)[] {
  return names.map((wanted) => columns.find(({ name }) => name === wanted));
}

/** Times, or the frames where there are none. */
function abscissa(table: Table, time: TimeUnit): { x: Plot["x"]; values: number[] } | undefined {
  const [times, frames] = columnsNamed(table, "time_ps", "frame");
  if (times) {
    const ps = numbersOf(times).map((value) => value ?? NaN);
    return { x: { name: "time", unit: time }, values: time === "ns" ? ps.map((value) => value / 1000) : ps };
  }
  return frames && { x: { name: "frame" }, values: numbersOf(frames).map((value) => value ?? NaN) };
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
