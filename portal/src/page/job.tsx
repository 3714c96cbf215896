//! A job: how far it is, what it logs, and what it runs with.
import { useQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";

import type { Schemas } from "../api/client.ts";
import { type Field, fields } from "../api/fields.ts";
import { later } from "../api/later.ts";
import { hasEnded, systemView } from "../api/task.ts";
import { selectionOf, soluteMask, structureOf, trajectoryOf } from "../api/trajectory.ts";
import { JobCharts } from "../chart/job.tsx";
import { framedOf, stageWords } from "../chart/stages.ts";
import { Subject } from "../chart/subject.ts";
import { Excerpt } from "../part/excerpt.tsx";
import { JobHead, nameOf, useJob } from "../part/job.tsx";
import { Log } from "../part/log.tsx";
import { Unreadable } from "../part/notice.tsx";
import { columnOf, duration, number, significant } from "../part/number.ts";
import { Settings } from "../part/settings.tsx";
import { Citations, FailurePanel, HoldNotice, ProgressPanel, QueueNotice, Warnings } from "../part/task.tsx";
import { When } from "../part/when.tsx";
import { address, type PageProps } from "../routes.ts";

type Job = Schemas["JobRecord"];

const Viewer = later(() => import("../viewer/viewer.tsx"));

export default function JobPage({ given: { job_id }, search }: PageProps<"job">) {
  const [restraint, mark] = useState<string>();
  const { job, error, again } = useJob(job_id);
  if (error && !job) return <Unreadable error={error} what="job" again={again} />;
  if (!job) return <p className="quiet">Loading…</p>;
  return <div className="stack">
    <title>{`${nameOf(job)} · molbox`}</title>
    <JobHead job={job} page="job" />
    {job.held ? <HoldNotice held={job.held} /> : job.queue && <QueueNotice queue={job.queue} />}
    {job.progress && !hasEnded(job) && <ProgressPanel progress={job.progress} />}
    {job.error && <FailurePanel failure={job.error} />}
    <div className="columns job-columns">
      <div className="stack">
        <Trajectory job={job} firstFrame={Number(search.get("frame") ?? 0)} restraint={restraint} />
        <section className="panel">
          <h2>Log</h2>
          <Log job_id={job_id} hasEnded={hasEnded(job)} />
        </section>
        <Stages stages={job.stages ?? []} />
        <Warnings warnings={job.warnings} />
      </div>
      <div className="stack">
        <Subject value={nameOf(job)}><JobCharts job={job} /></Subject>
        <Parameters job={job} onRestraint={mark} />
        <Citations citations={job.citations} />
      </div>
    </div>
  </div>;
}

/** The solute of the system as it moves in a stage; of a job that runs, as far as it had come. */
function Trajectory({ job, firstFrame, restraint }: { job: Job; firstFrame: number; restraint: string | undefined }) {
  const { job_id, box_id } = job;
  const [seen, look] = useState(0);
  const [chosen, choose] = useState<string>();
  const system = useQuery({ queryKey: ["system", box_id], queryFn: () => systemView(box_id) });
  const restrained = useQuery({
    queryKey: ["mask", box_id, restraint],
    queryFn: ({ signal }) => selectionOf(box_id, restraint ?? "", signal),
    enabled: restraint !== undefined,
    staleTime: Infinity,
  });
  const summary = system.data?.summary;
  if (!summary || job.status === "queued") return null;
  const stages = framedOf(job);
  const last = stages.at(-1);
  const stage = chosen ?? last;
  const mask = soluteMask(summary);
  const read = async () => ({ text: await structureOf(box_id, mask), format: "mmcif" as const });
  return <div className="stack">
    <Suspense fallback={<div className="stage"><p className="quiet">Loading…</p></div>}>
      <Viewer id={`${job_id} ${stage} ${seen} ${hasEnded(job)}`} read={read} hasMasks residues={job.error?.residues} name={nameOf(job)}
        {...(restraint !== undefined && restrained.data ? { marked: restrained.data.ranges } : {})}
        {...(stage === undefined ? {} : { frames: trajectoryOf(job_id, mask, stage), firstFrame: stage === last ? firstFrame : 0 })} />
    </Suspense>
    {restraint !== undefined && restrained.data && <p role="status" className="small quiet">
      Marked: what <code>{restraint}</code> restrains, {restrained.data.atoms === 1 ? "1 atom" : `${number(restrained.data.atoms)} atoms`}.
    </p>}
    {stages.length > 1 && <label className="row">Frames of
      <select className="short" value={stage} onChange={(event) => choose(event.target.value)}>
        {stages.map((name) => <option key={name} value={name}>{stageWords(name)}</option>)}
      </select>
    </label>}
    {stage !== undefined && !hasEnded(job)
      && <div className="row">
        <button onClick={() => look(seen + 1)}>Look for new frames</button>
        <span className="small quiet">There are more with each checkpoint.</span>
      </div>}
    {stages.length > 0 && <Excerpt job={job} summary={summary} stages={stages} />}
  </div>;
}

function Stages({ stages }: { stages: readonly Schemas["StageResult"][] }) {
  if (stages.length === 0) return null;
  const speeds = columnOf(stages.map(({ ns_per_day }) => ns_per_day), significant(3));
  return <section className="panel scroll">
    <h2>Stages done</h2>
    <table>
      <thead>
        <tr>
          <th scope="col">Stage</th>
          <th scope="col" className="number wide">Steps</th>
          <th scope="col" className="number wide">Frames</th>
          <th scope="col" className="number">Took</th>
          <th scope="col" className="number">ns/day</th>
        </tr>
      </thead>
      <tbody>{stages.map(({ name, steps, frames, seconds, ns_per_day: speed }) => <tr key={name}>
        <td>{stageWords(name)}</td>
        <td className="number wide">{number(steps)}</td>
        <td className="number wide">{number(frames)}</td>
        <td className="number">{duration(seconds)}</td>
        <td className="number">{speed === undefined ? "" : speeds(speed)}</td>
      </tr>)}</tbody>
    </table>
  </section>;
}

const ENGINES: Readonly<Record<string, string>> = { openmm: "OpenMM", gromacs: "GROMACS" };

function Parameters({ job, onRestraint }: { job: Job; onRestraint: (mask: string | undefined) => void }) {
  const { equilibration, production, ...conditions } = job.parameters;
  const of: Record<string, Field> = fields.JobCreateParams;
  return <section className="panel stack">
    <h2>Parameters</h2>
    <Settings fields={of} values={conditions} without={["box_id", "batch_name", "batch_index", ...(job.engine === undefined ? [] : ["engine"])]}>
      <dt>system</dt>
      <dd><a className="mono" href={address("system", { system_id: job.box_id })}>{job.box_id}</a></dd>
      <dt>submitted</dt>
      <dd><When at={job.created_at} isExact /></dd>
      {job.started_at !== undefined && <><dt>started</dt><dd><When at={job.started_at} isExact /></dd></>}
      {job.finished_at !== undefined && <><dt>ended</dt><dd><When at={job.finished_at} isExact /></dd></>}
      {job.expires_at !== undefined && <><dt>will be deleted</dt><dd className="bad"><When at={job.expires_at} isExact />: download what you need</dd></>}
      {job.platform !== undefined && <><dt>platform</dt><dd>{job.platform}</dd></>}
      {job.engine !== undefined && <><dt>engine</dt><dd>{ENGINES[job.engine] ?? job.engine}</dd></>}
      {job.attempts > 1 && <><dt>attempts</dt><dd>{job.attempts}</dd></>}
    </Settings>
    {equilibration?.map((stage, i) => <details key={i} className="told"
      onToggle={({ currentTarget: { open } }) => onRestraint(open ? stage.restraint_mask : undefined)}>
      <summary>Equilibration {i + 1}: {stage.type}, {stage.time} ns</summary>
      <Settings fields={fields.EquilibrationStep} values={stage} />
    </details>)}
    {production && <details className="told">
      <summary>Production: {production.type}, {production.time} ns</summary>
      <Settings fields={fields.ProductionParams} values={production} />
    </details>}
  </section>;
}
