//! What a job has logged, stage after stage, while it runs and afterwards.
import { useQueries, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { hasEnded } from "../api/task.ts";
import { SeriesChart } from "./series.tsx";
import { join, type Stage, stagesOf } from "./stages.ts";
import { wordsOf } from "./table.ts";

type Job = Schemas["JobRecord"];
type Series = Schemas["JobSeries"];

/** What is drawn, if it was logged. */
const SHOWN = ["temperature", "potential_energy", "density", "volume"];
/** Rows that are put together piece by piece; with more, all are asked for again, thinned. */
const MOST_ROWS = 4000;
/** The page asks for its log, too, and is to ask for no more than one thing a second. */
const BETWEEN_MS = 2000;

export function JobCharts({ job }: { job: Job }) {
  const stages = stagesOf(job);
  const series = useSeries(job, stages);
  const joined = useMemo(
    () => join(stages, (name) => series.find(({ stage }) => stage === name)),
    [series, JSON.stringify(stages)],
  );
  const shown = useMemo(() => SHOWN.flatMap((name) => joined.columns.filter((column) => column.name === name).map((column) => (
    { ...column, lines: [{ name: wordsOf(name), x: joined.time, y: column.values }] }))), [joined]);
  if (stages.length === 0) return null;
  return <section className="panel charts" aria-label="Charts">
    {joined.isThinned && <p className="small quiet">
      The log is long: its curves, and what is saved of them here, have the least and the largest value of each run of rows.
      Every row is in the logs of the download.
    </p>}
    {shown.map(({ name, unit, lines }) => <SeriesChart key={name} title={wordsOf(name)} borders={joined.borders} isThinned={joined.isThinned}
      x={{ name: "time", ...(joined.timeUnit === undefined ? {} : { unit: joined.timeUnit }) }}
      y={{ name: wordsOf(name), ...(unit === undefined ? {} : { unit }) }}
      lines={lines} />)}
    {shown.length === 0 && <p className="quiet">{hasEnded(job) ? "Nothing was logged." : "Nothing has been logged yet."}</p>}
  </section>;
}

/** The rows of each stage; those of the last are read as they come, and of the others once when they have ended. */
function useSeries(job: Job, stages: readonly Stage[]): Series[] {
  const queries = useQueryClient();
  const { job_id } = job;
  const last = stages.at(-1)?.name;
  const asked = useRef(0);
  useEffect(() => {
    if (last === undefined) return;
    const wait = Math.max(0, asked.current + BETWEEN_MS - Date.now());
    const timer = setTimeout(() => {
      asked.current = Date.now();
      void queries.refetchQueries({ queryKey: keyOf(job_id, { name: last }) }, { cancelRefetch: false });
    }, wait);
    return () => clearTimeout(timer);
    // A step further, a stage further, or at its end.
  }, [job_id, last, job.progress?.step, job.status, queries]);
  return useQueries({
    queries: stages.map((stage) => {
      const queryKey = keyOf(job_id, stage);
      // What was there while it ran may lack its last rows.
      const before = () => queries.getQueryData<Series>(queryKey) ?? queries.getQueryData<Series>(keyOf(job_id, { name: stage.name }));
      return { queryKey, queryFn: () => seriesSince(job_id, stage.name, before()), placeholderData: before, staleTime: Infinity };
    }),
    combine: seriesOf,
  });
}

function keyOf(job_id: string, { name, steps }: Pick<Stage, "name" | "steps">): unknown[] {
  return ["series", job_id, name, steps ?? "open"];
}

function seriesOf(results: readonly { data: Series | undefined }[]): Series[] {
  return results.flatMap(({ data }) => (data ? [data] : []));
}

/** All rows, read on from those that are there. */
async function seriesSince(job_id: string, stage: string, before: Series | undefined): Promise<Series> {
  const steps = before?.columns.find(({ name }) => name === "step")?.values;
  const after = before && steps && steps.length < MOST_ROWS ? steps.at(-1) : undefined;
  const series = await expectData(molbox.GET("/info/job/{job_id}/series", {
    params: { path: { job_id }, query: after === undefined ? { stage } : { stage, after } },
  }));
  if (!before || after === undefined) return series;
  if (series.rows === 0) return before;
  return {
    ...series,
    rows: before.rows + series.rows,
    columns: before.columns.map((column) => ({
      ...column,
      values: [...column.values, ...(series.columns.find(({ name }) => name === column.name)?.values ?? [])],
    })),
  };
}
