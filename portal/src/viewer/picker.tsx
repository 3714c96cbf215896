//! Atoms picked in a structure for a field of masks, and what the masks in it select.
import { useQuery } from "@tanstack/react-query";

import { systemView } from "../api/task.ts";
import { selectionOf, soluteMask, structureOf } from "../api/trajectory.ts";
import { useSettled } from "../form/check.tsx";
import { number } from "../part/number.ts";
import { anyOf } from "./mask.ts";
import Viewer from "./viewer.tsx";

/** A field that takes masks, as it is filled in. */
export type MaskField = {
  label: string;
  text: string;
  /** Whether a line each, or one alone. */
  isList: boolean;
  onText: (text: string) => void;
};

export default function Picker({ system_id, field }: { system_id: string; field: MaskField | undefined }) {
  const system = useQuery({ queryKey: ["system", system_id], queryFn: () => systemView(system_id) });
  const wanted = useSettled(field?.isList ? anyOf(field.text) : (field?.text.trim() ?? ""));
  const selection = useQuery({
    queryKey: ["mask", system_id, wanted],
    queryFn: ({ signal }) => selectionOf(system_id, wanted, signal),
    enabled: wanted !== "",
    retry: false,
    staleTime: Infinity,
  });
  const summary = system.data?.summary;
  if (!summary) return <p className="quiet">Loading…</p>;
  const solute = soluteMask(summary);
  const found = wanted === "" ? undefined : selection.data;
  return <div className="stack" ref={showWhole}>
    <Viewer id={system_id} name={system_id} hasMasks marked={found?.ranges ?? NONE}
      read={async () => ({ text: await structureOf(system_id, solute), format: "mmcif" })}
      onMask={field && { label: `Put into ${field.label}`, take: (mask) => field.onText(withMask(field, mask)) }} />
    <p role="status" className="small quiet">{saidOf(field, wanted, found, selection.isError)}</p>
  </div>;
}

/** The picture opens below the button, often below the edge of the window. */
function showWhole(picker: HTMLDivElement | null): void {
  picker?.scrollIntoView({ block: "nearest" });
}

const NONE: readonly (readonly number[])[] = [];

function saidOf(
  field: MaskField | undefined, wanted: string, found: { atoms: number; residues: number } | undefined, isWrong: boolean,
): string {
  if (!field) return "Go to a field of masks: what it selects is marked here, and what is picked here can be put there.";
  if (wanted === "") return `There is no mask in ${field.label} yet.`;
  if (isWrong) return `What ${field.label} selects cannot be told; what is wrong stands at the field.`;
  if (!found) return "…";
  if (found.atoms === 0) return `${field.label} selects no atom.`;
  const residues = found.residues === 1 ? "1 residue" : `${number(found.residues)} residues`;
  return `${field.label} selects ${number(found.atoms)} ${found.atoms === 1 ? "atom" : "atoms"} of ${residues}.`;
}

/** In a list behind a blank that ends it, or else on a line of its own. */
function withMask({ text, isList }: MaskField, mask: string): string {
  if (!isList || text === "") return mask;
  return text + (/\s$/.test(text) ? "" : "\n") + mask;
}
