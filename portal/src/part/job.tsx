//! A job as its pages share it: its record as it changes, and the head with what can be done with it.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";

import { baseUrl, expectData, molbox, type Schemas } from "../api/client.ts";
import { fields } from "../api/fields.ts";
import { hasEnded, jobView } from "../api/task.ts";
import { FieldControl } from "../form/field.tsx";
import { notNumber, numberOf } from "../form/form.ts";
import { useSubmission } from "../form/submit.tsx";
import { Waits } from "../form/waits.tsx";
import { address, go } from "../routes.ts";
import { useBack } from "./back.ts";
import { Cancellation, Deletion } from "./deletion.tsx";
import { Dialog } from "./dialog.tsx";
import { useOnce } from "./mutation.ts";
import { Failure } from "./notice.tsx";
import { duration, number } from "./number.ts";
import { Status } from "./status.tsx";

type Job = Schemas["JobRecord"];

/** What people call a job; replicas are counted from 1, as in reports and at the terminal. */
export function nameOf(job: Job): string {
  if (job.batch_name === undefined) return job.job_id;
  return job.batch_index === undefined ? job.batch_name : `${job.batch_name} · replica ${job.batch_index + 1}`;
}

type Watched = {
  job: Job | undefined;
  error: Error | null;
  again: () => void;
};

/** The record of a job, kept up to date by events. */
export function useJob(job_id: string): Watched {
  const { data: job, error, refetch } = useQuery({ queryKey: ["job", job_id], queryFn: () => jobView(job_id) });
  return { job, error, again: () => void refetch() };
}

export function JobHead({ job, page }: { job: Job; page: "job" | "analysis" }) {
  const queries = useQueryClient();
  const [asks, ask] = useState<"extend" | "cancel" | "delete">();
  const path = { job_id: job.job_id };
  const replace = (record: Job) => queries.setQueryData(["job", job.job_id], record);
  const refetch = () => queries.invalidateQueries({ queryKey: ["job", job.job_id] });
  const cancel = useOnce({
    mutationFn: () => expectData(molbox.POST("/cancel/job/{job_id}", { params: { path } })),
    onSuccess: (record) => {
      replace(record);
      ask(undefined);
    },
    onError: refetch,
  });
  const retry = useOnce({
    mutationFn: () => expectData(molbox.POST("/retry/job/{job_id}", { params: { path } })),
    onSuccess: replace,
    onError: refetch,
  });
  useEffect(() => {
    // It may run again without having been asked here.
    if (hasEnded(job)) ask((before) => (before === "cancel" ? undefined : before));
  }, [hasEnded(job)]);
  useBack(() => {
    cancel.reset();
    retry.reset();
  });
  const again = job.status === "failed" || job.status === "cancelled";
  return <div className="stack">
    <div className="spread">
      <div>
        <h1>{nameOf(job)}</h1>
        {nameOf(job) !== job.job_id && <span className="mono quiet">{job.job_id}</span>}
      </div>
      <div className="row">
        <span role="status"><Status status={job.status} isCancelling={job.cancelling} /></span>
        {!hasEnded(job) && !job.cancelling && <button className="danger" onClick={() => (cancel.reset(), ask("cancel"))}>Cancel…</button>}
        {again && <button aria-busy={retry.isPending} onClick={() => { if (!retry.isPending) retry.mutate(); }}>Retry</button>}
        {job.status === "succeeded" && job.parameters.production
          && <button onClick={() => ask("extend")}>Extend…</button>}
        <a className="button" href={address("job_new", { from: job.job_id })}>Change and run again</a>
        {hasEnded(job) && <a className="button" href={`${baseUrl}/retrieve/job/${job.job_id}`} download>Download</a>}
        {hasEnded(job) && <button className="danger" onClick={() => ask("delete")}>Delete…</button>}
      </div>
    </div>
    <nav className="tabs" aria-label="Job">
      <a href={address("job", path)} aria-current={page === "job" ? "page" : undefined}>Overview</a>
      <a href={address("analysis", path)} aria-current={page === "analysis" ? "page" : undefined}>Analysis</a>
    </nav>
    {retry.error && <Failure error={retry.error} />}
    {asks === "extend" && <Extend job={job} onClose={() => ask(undefined)} done={replace} />}
    {asks === "cancel" && !hasEnded(job) && <Cancellation what={nameOf(job)} cancel={cancel} onClose={() => ask(undefined)}
      rest={job.status === "queued" && job.attempts === 0 ? "It leaves the queue. Its record stays, and it can be retried."
        : "What it has written until then stays, and can be downloaded. It can be retried, and then goes on from its last checkpoint."} />}
    {asks === "delete" && <Delete job={job} onClose={() => ask(undefined)} />}
  </div>;
}

function Extend({ job, onClose, done }: { job: Job; onClose: () => void; done: (job: Job) => void }) {
  const [time, setTime] = useState("");
  const value = numberOf(time.trim());
  const speed = job.stages?.find(({ name }) => name === "production")?.ns_per_day;
  const submission = useSubmission(
    { time: value ?? 0 },
    (body, key) => expectData(molbox.POST("/extend/job/{job_id}", {
      body, params: { path: { job_id: job.job_id }, header: { "Idempotency-Key": key } },
    })),
    (record) => {
      done(record);
      onClose();
    },
  );
  const wrong = time !== "" && value === undefined ? notNumber(time.trim()) : submission.violations[0]?.msg;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (value !== undefined) void submission.submit();
  };
  return <Dialog title="Extend the production" onClose={onClose}>
    <form className="stack" onSubmit={submit} noValidate>
      <FieldControl name="time" field={fields.JobExtension.time} typed={time} onType={setTime} wrong={wrong} />
      {value !== undefined && value > 0 && speed !== undefined && speed > 0
        && <p aria-live="polite">About {duration((value / speed) * 86_400)} at {number(speed, 3)} ns/day, the speed of its production.</p>}
      {submission.failure && <Failure error={submission.failure} />}
      <Waits submission={submission} />
      <div className="end">
        <button type="button" onClick={onClose}>Close</button>
        <button className="main" disabled={value === undefined} aria-busy={submission.isBusy}>Extend</button>
      </div>
    </form>
  </Dialog>;
}

function Delete({ job, onClose }: { job: Job; onClose: () => void }) {
  const queries = useQueryClient();
  const remove = useOnce({
    mutationFn: () => expectData(molbox.DELETE("/info/job/{job_id}", { params: { path: { job_id: job.job_id } } })),
    onSuccess: () => {
      queries.removeQueries({ queryKey: ["job", job.job_id] });
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      go(address("jobs"));
    },
  });
  return <Deletion what={nameOf(job)} loss="Its record, its trajectories and logs are gone for good." remove={remove} onClose={onClose} />;
}
