//! The jobs of the account, newest first, those of a batch together.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { whenThere } from "../api/later.ts";
import { useHere } from "../part/here.ts";
import { nameOf } from "../part/job.tsx";
import { useOnce } from "../part/mutation.ts";
import { Failure } from "../part/notice.tsx";
import { number, percent } from "../part/number.ts";
import { Pages, usePaging } from "../part/pages.tsx";
import { Status } from "../part/status.tsx";
import { StatusCell } from "../part/task.tsx";
import { When } from "../part/when.tsx";
import { address, go } from "../routes.ts";

type Job = Schemas["JobRecord"];

const STATUSES = ["queued", "running", "succeeded", "failed", "cancelled"] as const;

export default function Jobs() {
  const paging = usePaging();
  const [status, setStatus] = useHere<(typeof STATUSES)[number] | "">("status", "");
  const jobs = useQuery({
    queryKey: ["jobs", paging.token, status],
    queryFn: () => expectData(molbox.GET("/info/jobs", {
      params: {
        query: {
          ...(paging.token === undefined ? {} : { page_token: paging.token }),
          ...(status === "" ? {} : { status }),
        },
      },
    })),
    placeholderData: keepPreviousData,
  });
  const isEmpty = jobs.data?.items.length === 0 && paging.isFirst && status === "";
  return <div className="stack">
    <title>Jobs · molbox</title>
    <div className="spread">
      <h1>Jobs</h1>
      <div className="row">
        <label className="row">Status
          <select className="short" value={status} onChange={(event) => {
            setStatus(STATUSES.find((known) => known === event.target.value) ?? "");
            paging.restart();
          }}>
            <option value="">all</option>
            {STATUSES.map((known) => <option key={known}>{known}</option>)}
          </select>
        </label>
        <a className="button main" href={address("job_new")}>New job</a>
      </div>
    </div>
    {jobs.error && <Failure error={jobs.error} again={() => void jobs.refetch()} />}
    {isEmpty ? <Begin /> : jobs.data && <>
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Status</th>
            <th scope="col" className="wide">Stage</th>
            <th scope="col" className="number">Done</th>
            <th scope="col" className="number wide">ns/day</th>
            <th scope="col" className="wide">Submitted</th>
          </tr>
        </thead>
        <tbody>
          {batchesOf(jobs.data.items).map((batch) => batch.length === 1
            ? batch.map((job) => <JobRow key={job.job_id} job={job} />)
            : <BatchRows key={batch[0]?.job_id} batch={batch} />)}
        </tbody>
      </table>
      {jobs.data.items.length === 0 && <p className="quiet">No job is {status || "here"}.</p>}
      <Pages paging={paging} next={jobs.data.next_page} />
    </>}
    {jobs.isPending && <p className="quiet">Loading…</p>}
  </div>;
}

/** Where to begin when there is no job yet. */
function Begin() {
  const example = useOnce({
    mutationFn: async () => (await whenThere(() => import("../api/example.ts"))).registerExample(),
    onSuccess: (protein) => go(address("system_new", { protein })),
  });
  return <>
    {example.error && <Failure error={example.error} />}
    <div className="begin">
      <a className="panel" href={address("system_new")}>
        <strong>Start from a structure</strong>
        <span className="quiet">Build a solvated box of a PDB or mmCIF file, then simulate it.</span>
      </a>
      <button className="panel" aria-busy={example.isPending} onClick={() => { if (!example.isPending) example.mutate(); }}>
        <strong>Try the example</strong>
        <span className="quiet">The villin headpiece, 36 residues, in a small box.</span>
      </button>
      <a className="panel" href={address("account")}>
        <strong>Get a key for the terminal</strong>
        <span className="quiet">The same from scripts and the command line.</span>
      </a>
    </div>
  </>;
}

/** Jobs that follow each other in the list and have the name of one batch. */
function batchesOf(jobs: readonly Job[]): Job[][] {
  const batches: Job[][] = [];
  for (const job of jobs) {
    const last = batches.at(-1);
    const isSame = job.batch_name !== undefined && last?.[0]?.batch_name === job.batch_name;
    if (isSame && last) last.push(job);
    else batches.push([job]);
  }
  return batches;
}

function BatchRows({ batch }: { batch: readonly Job[] }) {
  const [isOpen, open] = useState(false);
  const done = batch.reduce((sum, job) => sum + doneOf(job), 0) / batch.length;
  const newest = batch[0];
  return <>
    <tr>
      <td>
        <button className="plain fold" aria-expanded={isOpen} onClick={() => open(!isOpen)}>
          {newest?.batch_name} <span className="quiet count">{batch.length} jobs</span>
        </button>
      </td>
      <td><span className="row">{STATUSES.map((status) => {
        const n = batch.filter((job) => job.status === status).length;
        return n > 0 && <span key={status} className="count">{n} <Status status={status} /></span>;
      })}</span></td>
      <td className="wide" />
      <td className="number">{percent(done)}</td>
      <td className="wide" />
      <td className="wide">{newest && <When at={newest.created_at} />}</td>
    </tr>
    {isOpen && batch.map((job) => <JobRow key={job.job_id} job={job} isInner />)}
  </>;
}

function JobRow({ job, isInner = false }: { job: Job; isInner?: boolean }) {
  const { stage, ns_per_day: speed } = job.progress ?? {};
  return <tr>
    <td className={isInner ? "inner" : undefined}><a href={address("job", { job_id: job.job_id })}>{nameOf(job)}</a></td>
    <td><StatusCell status={job.status} queue={job.queue} isCancelling={job.cancelling} /></td>
    <td className="wide">{stage?.replaceAll("_", " ")}</td>
    <td className="number">{job.status === "failed" || job.status === "cancelled" ? "" : percent(doneOf(job))}</td>
    <td className="number wide">{speedOf(job, speed)}</td>
    <td className="wide"><When at={job.created_at} /></td>
  </tr>;
}

function doneOf(job: Job): number {
  return job.status === "succeeded" ? 1 : (job.progress?.fraction ?? 0);
}

function speedOf(job: Job, present: number | undefined): string {
  const speed = present ?? job.stages?.at(-1)?.ns_per_day;
  return speed === undefined ? "" : number(speed, 3);
}
