import assert from "node:assert/strict";
import { test } from "node:test";

import { aligned, columnsOf } from "../src/chart/aligned.ts";
import { svgOfSquares } from "../src/chart/svg.ts";
import { matrixOf, plotsOf, selectionsOf, statesOf } from "../src/chart/table.ts";

type Table = Parameters<typeof plotsOf>[0];

function table(kind: string, columns: Record<string, unknown[]>, units: Record<string, string> = {}): Table {
  return { name: kind, title: kind, kind, definition: "", columns: Object.entries(columns).map(([name, values]) => (
    { name, values, ...(units[name] === undefined ? {} : { unit: units[name] }) })) };
}

function rmsf(rows: [name: string, chain: string, residue: number, value: number][]): Table {
  return table("rmsf", {
    atom: rows.map((_, i) => i + 1), name: rows.map(([name]) => name), chain: rows.map(([, chain]) => chain),
    residue_number: rows.map(([, , residue]) => residue), rmsf_angstrom: rows.map(([, , , value]) => value),
  }, { rmsf_angstrom: "Å" });
}

test("fluctuations have a line for each chain, which ends where residues are missing", () => {
  const [plot, ...more] = plotsOf(rmsf([
    ["A:SER17@CA", "A", 17, 1], ["A:GLY18@CA", "A", 18, 1.1], ["A:GLY18A@CA", "A", 18, 1.2], ["A:ALA25@CA", "A", 25, 1.3],
    ["B:ALA17@CA", "B", 17, 2], ["B:SER18@CA", "B", 18, 2.1],
  ]));
  assert.equal(more.length, 0);
  assert.deepEqual(plot?.x, { name: "residue number" });
  assert.deepEqual(plot?.lines, [
    { name: "chain A", x: [17, 18, 18, 19, 25], y: [1, 1.1, 1.2, null, 1.3] },
    { name: "chain B", x: [17, 18], y: [2, 2.1] },
  ]);
});

test("numbers that begin again without a chain's name begin another line", () => {
  const [plot] = plotsOf(rmsf([[":ALA1@CA", "", 1, 1], [":ALA2@CA", "", 2, 1], [":ALA1@CA", "", 1, 2]]));
  assert.deepEqual(plot?.lines.map(({ x }) => x), [[1, 2], [1]]);
});

test("several atoms of each residue are left to the table by residue", () => {
  const rows = [1, 2, 3].flatMap((n) => ["N", "CA"].map((atom): [string, string, number, number] => [`A:ALA${n}@${atom}`, "A", n, 1]));
  assert.deepEqual(plotsOf(rmsf(rows)), []);
  assert.equal(plotsOf(rmsf(rows.slice(0, 2)))[0]?.x.name, "atom number");
});

test("profiles are drawn over their first column, a plot for each other", () => {
  const plots = plotsOf(table("rdf", { distance_angstrom: [0.05, 0.15], g: [0, 1.5], neighbours: [0, 2] }, { distance_angstrom: "Å" }));
  assert.deepEqual(plots.map(({ x, y, lines }) => [x, y.name, lines[0]?.y]),
    [[{ name: "distance", unit: "Å" }, "g", [0, 1.5]], [{ name: "distance", unit: "Å" }, "neighbours", [0, 2]]]);
  assert.equal(plotsOf(table("density", { z_angstrom: [0], mass_density: [1] })).length, 1);
  assert.equal(plotsOf(table("principal_components", { component: [1], variance_angstrom2: [1], fraction: [1] })).length, 2);
});

test("lipids have a line for each name, over carbons", () => {
  const [plot] = plotsOf(table("lipid_order", {
    residue: ["PA", "PA", "OL"], carbon: ["C1", "C2", "C1"], bonds: [2, 2, 2], order_parameter: [-0.2, -0.1, -0.3],
  }));
  assert.deepEqual(plot?.lines, [{ name: "PA", x: [1, 2], y: [0.2, 0.1] }, { name: "OL", x: [1], y: [0.3] }]);
});

test("errors by the length of blocks say what was measured on which masks", () => {
  const [first, second] = plotsOf(table("block_averages", {
    table: ["rmsd", "rmsd_2"], column: ["rmsd_angstrom", "rmsd_angstrom"], measured: ["RMSD: @CA", "RMSD: :1-5,9"], unit: ["Å", "Å"],
    block_ps: [1, 1], standard_error: [0.1, 0.2],
  }));
  assert.deepEqual([first?.lines[0]?.name, second?.lines[0]?.name], ["RMSD: @CA", "RMSD: :1-5,9"]);
  assert.deepEqual(first?.y, { name: "error", unit: "Å" });
});

test("what has no course is not drawn", () => {
  assert.deepEqual(plotsOf(table("dihedrals", { residue: [1, 2], residue_index: [1, 2], mean_deg: [60, -60] })), []);
  assert.deepEqual(plotsOf(table("rmsd", { frame: [], rmsd_angstrom: [] })), []);
  const seven = Object.fromEntries(Array.from({ length: 7 }, (_, i) => [`phi_${i}_deg`, [1, 2]]));
  const units = Object.fromEntries(Object.keys(seven).map((name) => [name, "°"]));
  assert.deepEqual(plotsOf(table("dihedrals_by_frame", { frame: [0, 1], ...seven }, units)), []);
});

test("a table that is drawn over another has its unit of time", () => {
  const short = table("distance", { frame: [0, 1], time_ps: [0, 500], distance_angstrom: [3, 4] }, { time_ps: "ps" });
  const long = table("distance", { frame: [0, 1], time_ps: [0, 2000], distance_angstrom: [3, 4] }, { time_ps: "ps" });
  assert.deepEqual(plotsOf(long)[0]?.lines[0]?.x, [0, 2]);
  assert.deepEqual(plotsOf(short)[0]?.lines[0]?.x, [0, 500]);
  assert.deepEqual(plotsOf(short, "ns")[0]?.lines[0]?.x, [0, 0.5]);
});

test("a square of pairs begins at the first residue, and there is none of what nobody could see", () => {
  const pairs = (a: number[], b: number[]) => table("contacts", { residue_a_index: a, residue_b_index: b, occupancy: a.map(() => 0.5) });
  const square = matrixOf(pairs([30_001, 30_001], [30_002, 30_003]));
  assert.equal(square?.size, 3);
  assert.equal(square?.labelOf(0), 30_001);
  assert.deepEqual([...square?.values ?? []].map((value) => (Number.isNaN(value) ? 0 : value)), [0, 0.5, 0.5, 0.5, 0, 0, 0.5, 0, 0]);
  assert.equal(matrixOf(pairs([1], [30_000])), undefined);
  assert.deepEqual(plotsOf(pairs([1], [2])), []);
});

test("a map as a figure has the numbers of its residues along both axes, and a scale", () => {
  const matrix = matrixOf(table("contacts", { residue_a_index: [41, 43], residue_b_index: [60, 75], occupancy: [0.5, 1] }));
  assert.ok(matrix);
  const figure = svgOfSquares(matrix, "data:,");
  for (const number of [50, 60, 70]) assert.equal(figure.split(`>${number}</text>`).length, 3, `${number} on both axes`);
  assert.equal(figure.split(">residue number</text>").length, 3);
  assert.match(figure, />occupancy<\/text>/);
});

test("states of residues have the names of the table that goes with theirs", () => {
  const residues = (...names: string[]) => table("secondary_structure", { name: names });
  const frames = (...codes: string[]) => table("secondary_structure_by_frame", { frame: codes.map((_, i) => 2 * i), codes });
  const tables = [residues("A:ALA1", "A:GLY2"), frames("HE", "--"), residues("B:SER7"), frames("T")];
  const of = (nth: number) => statesOf(tables[nth] ?? table("rmsd", {}), tables);
  assert.deepEqual(of(1), { title: "secondary_structure_by_frame", codes: ["HE", "--"], frames: [0, 2], residues: ["A:ALA1", "A:GLY2"] });
  assert.deepEqual(of(3)?.residues, ["B:SER7"]);
  assert.equal(of(0), undefined);
});

test("angles are counted in squares, the second upwards", () => {
  const map = matrixOf(table("ramachandran", { phi_deg: [-62.5], psi_deg: [-42.5], count: [3], fraction: [0.3] }));
  const at = map?.values.findIndex((value) => value > 0) ?? -1;
  assert.deepEqual([map?.labelOf(at % 72), map?.labelOf(Math.floor(at / 72))], [-62.5, -42.5]);
  assert.ok(Math.abs((map?.largest ?? 0) - 30) < 1e-9);
});

test("lines side by side lose no point, whatever places they share", () => {
  const lines = [{ name: "A", x: [17, 18, 18, 25], y: [1, 2, 3, null] }, { name: "B", x: [18, 26], y: [4, 5] }];
  assert.deepEqual(aligned(lines), [[17, 18, 18, 25, 26], [1, 2, 3, null, undefined], [undefined, 4, undefined, undefined, 5]]);
  assert.deepEqual(columnsOf({ x: { name: "residue number" }, y: { name: "rmsf", unit: "Å" }, lines }).map(({ name }) => name),
    ["residue number", "rmsf A", "rmsf B"]);
});

test("each mask is shown once with the atoms that it has selected", () => {
  const all = { label: ":1-4@CA", atoms: 4, first_atom: "A:SER0@CA", last_atom: "A:TRP3@CA" };
  const groups = [{ role: "fit", ...all }, { role: "measure", ...all },
    { role: "measure", label: ":41@CA", atoms: 1, first_atom: "A:ALA81@CA" }, { role: "measure", label: "old" }];
  assert.deepEqual(selectionsOf({ ...table("rmsd", {}), groups }),
    [":1-4@CA: 4 atoms, A:SER0@CA to A:TRP3@CA", ":41@CA: 1 atom, A:ALA81@CA"]);
});
