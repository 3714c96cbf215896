//! What a new system is made of, beside its form: the structure with the chains that are kept, the ligands where they
//! will lie, and the box. Chains are chosen and ligands moved here, too; both stand in the fields of the form.
import { useQueries, useQuery } from "@tanstack/react-query";
import { Suspense } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { later } from "../api/later.ts";
import { sentence } from "../api/words.ts";
import { chainsIn, choicesOf, nameOf } from "../part/chains.ts";
import { counted, number } from "../part/number.ts";
import { sourceOf, structureFile } from "../part/structure.tsx";
import { useHasEntries } from "../part/usage.ts";
import { after, anglesOf, rotationOf } from "../viewer/placed.ts";
import type { PlacedLigand } from "../viewer/preview.tsx";
import { useSettled } from "./check.tsx";
import type { Typed } from "./form.ts";
import { type Ligand, numbersIn } from "./ligands.tsx";

const Preview = later(() => import("../viewer/preview.tsx"));

const ANGSTROM_PER_NM = 10;
const STEP_NM = 0.1;
const STEP_DEGREES = 15;

type Props = {
  typed: Typed;
  onType: (typed: Typed) => void;
  ligands: readonly Ligand[];
  onLigands: (rows: Ligand[]) => void;
  estimate: Schemas["Estimate"] | undefined;
};

export function SystemPreview({ typed, onType, ligands, onLigands, estimate }: Props) {
  const protein = useSettled(typed["protein"]?.trim() ?? "");
  const { data: file } = useQuery({ ...fileQuery(protein), enabled: protein !== "" });
  const names = useSettled(ligands.map(({ ligands: name }) => name.trim()).join("\n")).split("\n");
  const files = useQueries({ queries: names.map((name) => ({ ...fileQuery(name), enabled: name !== "" })) });
  const hasEntries = useHasEntries();
  const structure = (file && protein !== "" ? sourceOf(file) : undefined) ?? undefined;
  const placed = ligands.map((row, i): PlacedLigand | undefined => {
    const found = files[i]?.data;
    const source = found && sourceOf(found);
    return source ? { source, rotation: rotationIn(row), moved: movedIn(row).map((nm) => nm * ANGSTROM_PER_NM) } : undefined;
  });
  const shown = placed.filter((ligand) => ligand !== undefined);
  const chains = chainsIn(typed["chain_id"]);
  if (!structure && shown.length === 0) {
    return <section className="panel"><h2>Preview</h2><p className="small quiet">
      {protein === "" || file ? "Of a registered structure or ligand." : `There is no registered file of this name.${hasEntries ? " A public entry has a picture once it is registered under Files." : ""}`}
    </p></section>;
  }
  return <section className="panel stack" aria-label="Preview">
    <h2>Preview</h2>
    <Suspense fallback={<div className="stage small-stage"><p className="quiet">Loading…</p></div>}>
      <Preview structure={structure} chains={chains.length > 0 ? chains : undefined} ligands={shown} box={boxOf(estimate)} />
    </Suspense>
    {file && structure && <Chains file_id={file.file_id} kept={chains}
      onKept={(kept) => onType({ ...typed, chain_id: kept.join(",") })} />}
    {ligands.map((row, i) => placed[i] && <Handles key={i} name={row.ligands} row={row}
      onRow={(next) => onLigands(ligands.map((other, j) => (j === i ? next : other)))} />)}
  </section>;
}

function fileQuery(name: string) {
  return { queryKey: ["structure", name], queryFn: () => structureFile(name) };
}

function rotationIn({ ligand_rotations: text }: Ligand): readonly number[] {
  return rotationOf(numbersIn(text)) ?? rotationOf([]) ?? [];
}

function movedIn({ ligand_translations: text }: Ligand): number[] {
  const [x = 0, y = 0, z = 0] = numbersIn(text);
  return [x, y, z];
}

/** The box that would be built, in Å. */
function boxOf(estimate: Schemas["Estimate"] | undefined) {
  const [a, b, c] = (estimate?.box_vectors ?? []).map(tripleOf);
  const middle = tripleOf(estimate?.box_middle ?? []);
  return a && b && c && middle ? { vectors: [a, b, c] as const, middle } : undefined;
}

function tripleOf([x, y, z]: readonly number[]): [number, number, number] | undefined {
  if (x === undefined || y === undefined || z === undefined) return undefined;
  return [x * ANGSTROM_PER_NM, y * ANGSTROM_PER_NM, z * ANGSTROM_PER_NM];
}

type ChainsProps = { file_id: string; kept: readonly string[]; onKept: (kept: string[]) => void };

/** The chains of the file as check boxes; none that is named stands for all. */
function Chains({ file_id, kept, onKept }: ChainsProps) {
  const { data: contents } = useQuery({
    queryKey: ["contents", file_id],
    queryFn: () => expectData(molbox.GET("/info/file/{file_id}/contents", { params: { path: { file_id } } })),
    staleTime: Infinity,
  });
  const { structure, warnings = [] } = contents ?? {};
  const choices = structure ? choicesOf(structure, kept) : [];
  return <>
    {choices.length > 0 && <fieldset className="chains" aria-label="Chains that are kept">
      {choices.map(({ chain, isKept, isFixed, toggled }, i) => <label key={i} className="tick">
        <input type="checkbox" checked={isKept} disabled={isFixed} onChange={() => onKept(toggled)} />
        <span>{nameOf(chain)} <span className="quiet">{wordsOf(chain)}</span></span>
      </label>)}
    </fieldset>}
    {warnings.length > 0 && <details>
      <summary>What a build will change: {number(warnings.length)}</summary>
      <ul className="plain-list small">{warnings.map(({ message }, i) => <li key={i}>{sentence(message)}</li>)}</ul>
    </details>}
  </>;
}

function wordsOf(chain: Schemas["ChainContents"]): string {
  const kinds = chain.kinds.filter((kind) => kind !== "water").map((kind) => kind.replaceAll("_", " "));
  return [
    ...(chain.residues > 0 ? [`${kinds.join(", ")}, ${counted(chain.residues, "residue")}`] : []),
    ...(chain.waters > 0 ? [counted(chain.waters, "water")] : []),
  ].join(", ");
}

/** Moves and turns a ligand by steps, along and about the axes that the picture has in its corner. */
function Handles({ name, row, onRow }: { name: string; row: Ligand; onRow: (row: Ligand) => void }) {
  const move = (axis: number, by: number) => {
    const numbers = movedIn(row).map((value, i) => (i === axis ? Math.round((value + by) * 1000) / 1000 : value));
    onRow({ ...row, ligand_translations: numbers.every((value) => value === 0) ? "" : numbers.join(" ") });
  };
  const turn = (axis: number, by: number) => {
    const step = rotationOf([0, 1, 2].map((i) => (i === axis ? by : 0))) ?? [];
    const numbers = anglesOf(after(step, rotationIn(row)));
    onRow({ ...row, ligand_rotations: numbers.every((value) => value === 0) ? "" : numbers.join(" ") });
  };
  return <div className="stack" role="group" aria-label={`Place of ${name}`}>
    <strong className="small">{name}</strong>
    {([["Move", move, STEP_NM, "nm"], ["Turn", turn, STEP_DEGREES, "°"]] as const).map(([verb, change, step, unit]) =>
      <div key={verb} className="handles">
        <span className="small quiet">{verb} by {step} {unit}</span>
        {["x", "y", "z"].map((axis, i) => <span key={axis} className="handle">
          <button type="button" aria-label={`${verb} ${name} back, ${axis}`} onClick={() => change(i, -step)}>−</button>
          <span>{axis}</span>
          <button type="button" aria-label={`${verb} ${name} on, ${axis}`} onClick={() => change(i, step)}>+</button>
        </span>)}
      </div>)}
  </div>;
}
