//! A part of a job's trajectory as a file: of chosen atoms and frames, with the structure that names them.
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";

import { baseUrl, type Schemas } from "../api/client.ts";
import { selectionOf, soluteMask } from "../api/trajectory.ts";
import { useSettled } from "../form/check.tsx";
import { numberOf } from "../form/form.ts";
import { bytes, number } from "./number.ts";

type Props = { job: Schemas["JobRecord"]; summary: Schemas["SystemSummary"] };

export function Excerpt({ job, summary }: Props) {
  const stages = (job.stages ?? []).filter(({ frames }) => frames > 0);
  if (stages.length === 0) return null;
  return <details className="panel">
    <summary>Download a part of the trajectory</summary>
    <Chosen job={job} summary={summary} stages={stages} />
  </details>;
}

function Chosen({ job: { job_id, box_id }, summary, stages }: Props & { stages: readonly Schemas["StageResult"][] }) {
  const [stage, setStage] = useState(stages.at(-1)?.name ?? "");
  const [mask, setMask] = useState(soluteMask(summary) ?? "*");
  const [stride, setStride] = useState("1");
  const help = useId();
  const every = numberOf(stride.trim());
  const isStride = every !== undefined && Number.isInteger(every) && every >= 1;
  const wanted = useSettled(mask.trim());
  const { data: selection, error } = useQuery({
    queryKey: ["mask", box_id, wanted],
    queryFn: ({ signal }) => selectionOf(box_id, wanted, signal),
    enabled: wanted !== "",
    retry: false,
    staleTime: Infinity,
  });
  const total = stages.find(({ name }) => name === stage)?.frames ?? 0;
  const frames = isStride ? Math.ceil(total / every) : 0;
  const atoms = error ? 0 : (selection?.atoms ?? 0);
  const isRight = isStride && atoms > 0 && wanted === mask.trim();
  const place = (path: string, query: Record<string, string>) => `${baseUrl}${path}?${new URLSearchParams(query)}`;
  return <div className="stack">
    <div className="fields">
      {stages.length > 1 && <label className="field">Stage
        <select value={stage} onChange={(event) => setStage(event.target.value)}>
          {stages.map(({ name }) => <option key={name} value={name}>{name.replaceAll("_", " ")}</option>)}
        </select>
      </label>}
      <label className="field">Atoms
        <input className="mono" value={mask} spellCheck={false} autoComplete="off" aria-describedby={help}
          aria-invalid={error ? true : undefined} onChange={(event) => setMask(event.target.value)} />
      </label>
      <label className="field">Every how many frames
        <input inputMode="numeric" value={stride} aria-describedby={help} aria-invalid={isStride ? undefined : true}
          onChange={(event) => setStride(event.target.value)} />
      </label>
    </div>
    <p id={help} role="status" className="small quiet">{error ? <span className="bad">{error.message}</span>
      : !isStride ? <span className="bad">{stride} is not a whole number from 1 on.</span>
        : wanted === "" ? "An Amber mask, such as :1-20@CA; * for all atoms."
          : !selection ? "…"
            : `${number(atoms)} atoms in ${number(frames)} frames, about ${bytes(frames * (12 * atoms + 80))}.`}</p>
    <div className="row">
      {isRight
        ? <>
          <a className="button" download={`${job_id}.dcd`}
            href={place(`/retrieve/job/${job_id}/trajectory`, { stage, mask: wanted, stride: String(every) })}>Trajectory (DCD)</a>
          <a className="button" download={`${job_id}.cif`}
            href={place(`/retrieve/system/${box_id}/structure`, { mask: wanted })}>Its atoms (mmCIF)</a>
        </>
        : <><button disabled>Trajectory (DCD)</button><button disabled>Its atoms (mmCIF)</button></>}
    </div>
  </div>;
}
