//! A part of a job's trajectory as a file: of chosen atoms and frames, with the structure that names them.
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";

import { baseUrl, type Schemas } from "../api/client.ts";
import { hasEnded } from "../api/task.ts";
import { type Part, sizeOf, soluteMask } from "../api/trajectory.ts";
import { stageWords } from "../chart/stages.ts";
import { useSettled } from "../form/check.tsx";
import { numberOf } from "../form/form.ts";
import { bytes, number } from "./number.ts";

type Props = { job: Schemas["JobRecord"]; summary: Schemas["SystemSummary"]; stages: readonly string[] };

export function Excerpt(props: Props) {
  return <details className="panel">
    <summary>Download a part of the trajectory</summary>
    <Chosen {...props} />
  </details>;
}

function Chosen({ job, summary, stages }: Props) {
  const { job_id, box_id } = job;
  const [chosen, setStage] = useState<string>();
  const [mask, setMask] = useState(soluteMask(summary) ?? "*");
  const [stride, setStride] = useState("1");
  const help = useId();
  const stage = chosen ?? stages.at(-1) ?? "";
  const every = numberOf(stride.trim());
  const isStride = every !== undefined && Number.isInteger(every) && every >= 1;
  const asked = JSON.stringify({ stage, mask: mask.trim(), stride: every ?? 0 } satisfies Part);
  const settled = useSettled(asked);
  const { data: size, error } = useQuery({
    queryKey: ["part", job_id, settled, hasEnded(job)],
    queryFn: ({ signal }) => sizeOf(job_id, JSON.parse(settled) as Part, signal),
    enabled: isStride && mask.trim() !== "" && settled === asked,
    retry: false,
  });
  const isKnown = isStride && mask.trim() !== "" && settled === asked && size !== undefined;
  const place = (path: string, query: Record<string, string>) => `${baseUrl}${path}?${new URLSearchParams(query)}`;
  return <div className="stack">
    <div className="fields">
      {stages.length > 1 && <label className="field">Stage
        <select value={stage} onChange={(event) => setStage(event.target.value)}>
          {stages.map((name) => <option key={name} value={name}>{stageWords(name)}</option>)}
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
    <p id={help} role="status" className="small quiet">{
      !isStride ? <span className="bad">{stride} is not a whole number from 1 on.</span>
        : mask.trim() === "" ? "An Amber mask, such as :1-20@CA; * for all atoms."
          : error && settled === asked ? <span className="bad">{error.message}</span>
            : isKnown ? `${counted(size.atoms, "atom")} in ${counted(size.frames, "frame")}${hasEnded(job) ? "" : " so far"}, ${bytes(size.bytes)}.`
              : "…"}</p>
    <div className="row">
      {isKnown
        ? <>
          <a className="button" download={`${job_id}-${stage}.dcd`}
            href={place(`/retrieve/job/${job_id}/trajectory`, { stage, mask: mask.trim(), stride: String(every) })}>Trajectory (DCD)</a>
          <a className="button" download={`${job_id}.cif`}
            href={place(`/retrieve/system/${box_id}/structure`, { mask: mask.trim() })}>Its atoms (mmCIF)</a>
        </>
        : <><button disabled>Trajectory (DCD)</button><button disabled>Its atoms (mmCIF)</button></>}
    </div>
  </div>;
}

function counted(n: number, what: string): string {
  return `${number(n)} ${what}${n === 1 ? "" : "s"}`;
}
