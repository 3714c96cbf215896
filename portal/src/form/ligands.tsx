//! Ligands as rows. The request has an array of each column, in the order of the rows.
import type { Schemas, Violation } from "../api/client.ts";
import { fields } from "../api/fields.ts";
import { FieldControl } from "./field.tsx";
import { notNumber, numberOf, violation, type Wrong } from "./form.ts";

type Request = Schemas["SystemBuildRequest"];
type Arrays = Pick<Request,
  "ligands" | "ligand_residue_names" | "ligand_input_formats" | "ligand_translations" | "ligand_rotations">;

/** What was typed of one ligand, by the column's field. */
export type Ligand = { [Column in keyof Required<Arrays>]: string };

const COLUMNS = [
  ["ligands", "Ligand", "File of the ligand, by its name or id."],
  ["ligand_residue_names", "Residue name", "1 to 4 letters or digits. Default: L01, L02 and so on."],
  ["ligand_input_formats", "Format", "Default: as registered."],
  ["ligand_translations", "Translation", "Three numbers, with blanks between them. Default: where it is."],
  ["ligand_rotations", "Rotation", "Three angles, a quaternion, or nine elements of a matrix. Default: as it is."],
] as const satisfies readonly [keyof Arrays, string, string][];

export const NO_LIGAND: Ligand = {
  ligands: "", ligand_residue_names: "", ligand_input_formats: "", ligand_translations: "", ligand_rotations: "",
};

/** The arrays of the request. A column that is empty in every row is left out. */
export function readLigands(rows: readonly Ligand[]): { body: Arrays; wrong: Violation[] } {
  const body: Arrays = {};
  const wrong: Violation[] = [];
  if (rows.length === 0) return { body, wrong };
  body.ligands = rows.map(({ ligands }) => ligands.trim());
  if (isUsed(rows, "ligand_residue_names")) {
    body.ligand_residue_names = rows.map(({ ligand_residue_names: name }, i) => name.trim() || `L${String(i + 1).padStart(2, "0")}`);
  }
  if (isUsed(rows, "ligand_input_formats")) {
    // An array has as many formats as there are ligands: what is not said is what the file's name says.
    body.ligand_input_formats = rows.map(({ ligand_input_formats: format }) => format.trim());
    rows.forEach(({ ligand_input_formats: format }, i) => {
      if (format.trim() === "") wrong.push(violation(["ligand_input_formats", i], "needed where another ligand has one"));
    });
  }
  for (const column of ["ligand_translations", "ligand_rotations"] as const) {
    if (!isUsed(rows, column)) continue;
    body[column] = rows.map((row, i) => {
      const bad = wordsIn(row[column]).find((word) => numberOf(word) === undefined);
      if (bad !== undefined) wrong.push(violation([column, i], notNumber(bad)));
      return numbersIn(row[column]);
    });
  }
  return { body, wrong };
}

/** The rows of a request; the inverse of `readLigands`. */
export function ligandsOf(request: Schemas["SystemSettings"]): Ligand[] {
  const numbers = (values: readonly unknown[] | undefined) => (values ?? []).join(" ");
  return (request.ligands ?? []).map((file, i) => ({
    ligands: file,
    ligand_residue_names: request.ligand_residue_names?.[i] ?? "",
    ligand_input_formats: request.ligand_input_formats?.[i] ?? "",
    ligand_translations: numbers(request.ligand_translations?.[i]),
    ligand_rotations: numbers(request.ligand_rotations?.[i]),
  }));
}

/** The numbers in a text, as far as they are some. */
export function numbersIn(text: string): number[] {
  return wordsIn(text).map(numberOf).filter((value) => value !== undefined);
}

/** Blanks separate, perhaps with a comma before them; one between digits may be meant as a point. */
function wordsIn(text: string): string[] {
  return text.split(/[,;]?\s+|;|,$/).filter((word) => word !== "");
}

/** The paths of the controls. */
export function keysOf(rows: readonly Ligand[]): string[] {
  return rows.flatMap((_, i) => COLUMNS.map(([column]) => `${column}.${i}`));
}

function isUsed(rows: readonly Ligand[], column: keyof Ligand): boolean {
  return rows.some((row) => row[column].trim() !== "");
}

type Props = { rows: readonly Ligand[]; onRows: (rows: Ligand[]) => void; wrong: Wrong; files: readonly string[] };

export function Ligands({ rows, onRows, wrong, files }: Props) {
  return <div className="stack">
    {rows.map((row, i) => <fieldset key={i} className="inset stack" aria-label={`Ligand ${i + 1}`}>
      <div className="fields">
        {COLUMNS.map(([column, label, help]) => <FieldControl key={column} name={column} label={label}
          field={{ kind: "text", help, ...unitOf(column) }} typed={row[column]} wrong={wrong.at(column, i)} noted={wrong.notedAt(column, i)}
          {...(column === "ligands" ? { choices: files } : {})}
          onType={(text) => onRows(rows.map((other, j) => (j === i ? { ...other, [column]: text } : other)))} />)}
      </div>
      <div className="end">
        <button type="button" onClick={() => onRows(rows.filter((_, j) => j !== i))}>Remove this ligand</button>
      </div>
    </fieldset>)}
    {rows.length < fields.SystemBuildRequest.ligands.to
      && <div><button type="button" onClick={() => onRows([...rows, NO_LIGAND])}>Add a ligand</button></div>}
  </div>;
}

function unitOf(column: keyof Arrays): { unit?: string } {
  if (column === "ligand_translations") return { unit: fields.SystemBuildRequest.ligand_translations.unit };
  if (column === "ligand_rotations") return { unit: fields.SystemBuildRequest.ligand_rotations.unit };
  return {};
}
