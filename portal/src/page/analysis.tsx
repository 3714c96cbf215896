//! The analyses of a job.
import { hasEnded } from "../api/task.ts";
import { Analyses } from "../part/analysis.tsx";
import { JobHead, nameOf, useJob } from "../part/job.tsx";
import { Unreadable } from "../part/notice.tsx";
import type { PageProps } from "../routes.ts";

export default function AnalysisPage({ given: { job_id } }: PageProps<"analysis">) {
  const { job, error, again } = useJob(job_id);
  if (error && !job) return <Unreadable error={error} what="job" again={again} />;
  if (!job) return <p className="quiet">Loading…</p>;
  const given = { job_id, ...(hasEnded(job) ? {} : { allow_unfinished: true }) };
  return <div className="stack">
    <title>{`Analysis of ${nameOf(job)} · molbox`}</title>
    <JobHead job={job} page="analysis" />
    <Analyses subject={{ name: nameOf(job), given, job }} />
  </div>;
}
