//! What a job has logged, stage after stage, while it runs and afterwards.
import { useQueries, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { SeriesChart } from "./series.tsx";
import { wordsOf } from "./table.ts";

type Job = Schemas["JobRecord"];
type Series = Schemas["JobSeries"];

/** What is drawn, if it was logged. */
const SHOWN = ["temperature", "potential_energy", "density", "volume"];
/** Rows that are put together piece by piece; with more, all are asked for again, thinned. */
const MOST_ROWS = 4000;
const BETWEEN_MS = 1000;

export function JobCharts({ job }: { job: Job }) {
  const stages = stagesOf(job);
  const series = useSeries(job, stages);
  const joined = useMemo(() => join(series), [series]);
  if (stages.length === 0) return null;
  const shown = SHOWN.flatMap((name) => joined.columns.filter((column) => column.name === name));
  return <section className="panel charts" aria-label="Charts">
    {shown.map(({ name, unit, values }) => <SeriesChart key={name} title={wordsOf(name)} borders={joined.borders}
      x={{ name: "time", ...(joined.timeUnit === undefined ? {} : { unit: joined.timeUnit }) }}
      y={{ name: wordsOf(name), ...(unit === undefined ? {} : { unit }) }}
      lines={[{ name: wordsOf(name), x: joined.time, y: values }]} />)}
    {shown.length === 0 && <p className="quiet">Nothing has been logged yet.</p>}
  </section>;
}

/** The stages that may have logged something, in their order. */
function stagesOf(job: Job): string[] {
  const ended = (job.stages ?? []).map(({ name }) => name);
  const present = job.progress?.stage ?? job.error?.stage;
  const names = present === undefined || ended.includes(present) ? ended : [...ended, present];
  return names.filter((name) => name === "production" || name.startsWith("equilibration_"));
}

/** The rows of each stage; those of the last are read as they come. */
function useSeries(job: Job, stages: readonly string[]): Series[] {
  const queries = useQueryClient();
  const { job_id } = job;
  const last = stages.at(-1);
  const asked = useRef(0);
  useEffect(() => {
    if (last === undefined) return;
    const wait = Math.max(0, asked.current + BETWEEN_MS - Date.now());
    const timer = setTimeout(() => {
      asked.current = Date.now();
      void queries.refetchQueries({ queryKey: ["series", job_id, last] }, { cancelRefetch: false });
    }, wait);
    return () => clearTimeout(timer);
    // A step further, a stage further, or at its end.
  }, [job_id, last, job.progress?.step, job.status, queries]);
  return useQueries({
    queries: stages.map((stage) => ({
      queryKey: ["series", job_id, stage],
      queryFn: () => seriesSince(job_id, stage, queries.getQueryData<Series>(["series", job_id, stage])),
      staleTime: Infinity,
    })),
    combine: (results) => results.flatMap(({ data }) => (data ? [data] : [])),
  });
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
    columns: before.columns.map((column) => ({
      ...column,
      values: [...column.values, ...(series.columns.find(({ name }) => name === column.name)?.values ?? [])],
    })),
  };
}

type Joined = {
  time: number[];
  timeUnit: string | undefined;
  borders: number[];
  columns: { name: string; unit?: string; values: (number | null)[] }[];
};

/** The stages behind each other: each has times from its own start. */
function join(series: readonly Series[]): Joined {
  const time: number[] = [];
  const borders: number[] = [];
  let timeUnit: string | undefined;
  const columns = new Map<string, Joined["columns"][number]>();
  for (const { columns: of } of series) {
    const own = of.find(({ name }) => name === "time");
    if (!own || own.values.length === 0) continue;
    timeUnit = own.unit;
    const start = time.at(-1) ?? 0;
    const before = time.length;
    if (before > 0) borders.push(start);
    for (const at of own.values) time.push(start + at);
    for (const { name, unit, values } of of) {
      const column = columns.get(name) ?? { name, ...(unit === undefined ? {} : { unit }), values: [] };
      // A stage before this one may not have logged it.
      while (column.values.length < before) column.values.push(null);
      for (const value of values) column.values.push(value);
      columns.set(name, column);
    }
  }
  return { time, timeUnit, borders, columns: [...columns.values()] };
}
