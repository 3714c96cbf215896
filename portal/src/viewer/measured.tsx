//! The trajectory of a job with what a table of its analysis measures, as lines between the atoms.
import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import type { Schemas } from "../api/client.ts";
import { fields } from "../api/fields.ts";
import { systemView } from "../api/task.ts";
import { selectionOf, soluteMask, structureOf, trajectoryOf } from "../api/trajectory.ts";
import { Failure } from "../part/notice.tsx";
import { number } from "../part/number.ts";
import { eitherOf } from "./mask.ts";
import { type Bond, type Criterion, lengthOf, type Line, type Measured } from "./measure.ts";
import Viewer from "./viewer.tsx";

type Table = Schemas["AnalysisTable"];
type Asked = Schemas["AnalysisSettings"];

type Props = { job: Schemas["JobRecord"]; table: Table; asked: Asked };

export default function MeasuredViewer({ job, table, asked }: Props) {
  const { job_id, box_id } = job;
  const [lines, tell] = useState<readonly Line[]>();
  const system = useQuery({ queryKey: ["system", box_id], queryFn: () => systemView(box_id) });
  const masks = (table.groups ?? []).map(({ label }) => label).filter((label) => label !== SOLUTE);
  const groups = useQueries({
    queries: masks.map((mask) => ({
      queryKey: ["mask", box_id, mask],
      queryFn: ({ signal }: { signal: AbortSignal }) => selectionOf(box_id, mask, signal),
      staleTime: Infinity,
    })),
    combine: (results) => ({
      error: results.find(({ error }) => error)?.error,
      selected: results.flatMap(({ data }) => data ?? []),
    }),
  });
  const isRead = groups.selected.length === masks.length;
  const measured = useMemo(() => (isRead ? measuredOf(table, asked, groups.selected) : undefined), [table, asked, isRead]);
  const summary = system.data?.summary;
  const error = system.error ?? groups.error;
  if (error) return <Failure error={error} />;
  if (!summary || !isRead) return <p className="quiet">Loading…</p>;
  if (!measured) return <p className="quiet">These atoms are chosen by their places, which are others in the picture.</p>;
  const solute = soluteMask(summary);
  const mask = solute && eitherOf([solute, ...masks]);
  const read = async () => ({ text: await structureOf(box_id, mask), format: "mmcif" as const });
  return <div className="stack">
    <Viewer id={`${job_id} ${table.name}`} name={`${job_id}-${table.name}`} read={read} hasMasks
      frames={trajectoryOf(job_id, mask)} measured={measured} onLines={tell} />
    <p role="status" className="small quiet">{lines && saidOf(measured, lines)}</p>
  </div>;
}

/** What groups are called that no mask was given for. */
const SOLUTE = "solute";

/** What a table measures; nothing where its masks select other atoms by now. */
function measuredOf({ kind, groups = [], columns }: Table, asked: Asked, selected: readonly Schemas["MaskSelection"][]): Measured | undefined {
  if (kind !== "distance") return { kind: "bonds", bonds: bondsOf(columns), criterion: criterionOf(asked) };
  const [a, b] = selected;
  const isSame = groups.every(({ atoms }, i) => atoms === undefined || atoms === selected[i]?.atoms);
  return a && b && isSame ? { kind, groups: [a.ranges, b.ranges] } : undefined;
}

function bondsOf(columns: Table["columns"]): Bond[] {
  const [donors, hydrogens, acceptors] = ["donor_atom", "hydrogen_atom", "acceptor_atom"]
    .map((name) => columns.find((column) => column.name === name)?.values ?? []);
  return (donors ?? []).map((donor, i) => ({
    donor: Number(donor), hydrogen: Number(hydrogens?.[i]), acceptor: Number(acceptors?.[i]),
  }));
}

function criterionOf({ hbond_criterion: name, hbond_distance: distance, hbond_angle: angle }: Asked): Criterion {
  const { hbond_distance, hbond_angle } = fields.AnalysisRequest;
  if (name === "baker_hubbard" || name === "wernet_nilsson") return { name };
  return { name: "angle", distance: distance ?? hbond_distance.initial, angle: angle ?? hbond_angle.initial };
}

function saidOf({ kind }: Measured, lines: readonly Line[]): string {
  const [line] = lines;
  if (kind === "distance") return line ? `${number(lengthOf(line), 4)} Å in this frame` : "";
  return lines.length === 1 ? "1 hydrogen bond in this frame" : `${number(lines.length)} hydrogen bonds in this frame`;
}
