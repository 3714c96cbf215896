//! The stages of a job that may have logged something, and their rows behind each other.
import type { Schemas } from "../api/client.ts";

type Job = Pick<Schemas["JobRecord"], "parameters" | "stages" | "progress" | "started_at" | "finished_at">;

/** What a stage has logged; `rows` is how many there are, of which a long stage sends fewer points. */
export type Rows = Pick<Schemas["JobSeries"], "rows" | "columns">;

export type Stage = {
  name: string;
  /** When it begins, by the plan: a stage before it may have logged nothing, or not up to its end. */
  startPs: number;
  /** Steps that it has done, where no more will follow. */
  steps?: number;
};

/** In their order: those that have ended, and the one that runs or in which the job has stopped. */
export function stagesOf({ parameters, stages = [], progress, started_at, finished_at }: Job): Stage[] {
  const { equilibration, production, integration_timestep: fs = 1 } = parameters;
  const planned = [
    ...(equilibration ?? []).map(({ time }, i) => ({ name: `equilibration_${i + 1}`, time })),
    ...(production ? [{ name: "production", time: production.time }] : []),
  ];
  const ended = new Map(stages.map(({ name, steps }) => [name, steps]));
  // The record has no progress when the job has ended, and not every failure names its stage.
  const stopped = started_at && planned.find(({ name }) => !ended.has(name))?.name;
  const present = finished_at === undefined ? progress?.stage : stopped;
  let startPs = 0;
  const all = planned.map(({ name, time = 0 }): Stage => {
    const stage = { name, startPs };
    startPs += (Math.round((time * 1e6) / fs) * fs) / 1000;
    return stage;
  });
  const shown = all.filter(({ name }) => ended.has(name) || name === present);
  // The last may go on: it is extended, or retried.
  return shown.map((stage, i) => {
    const steps = i + 1 < shown.length ? ended.get(stage.name) : undefined;
    return steps === undefined ? stage : { ...stage, steps };
  });
}

/** Those that may have frames: of the one that runs, or in which the job has stopped, the record does not tell. */
export function framedOf(job: Job): string[] {
  const frames = new Map((job.stages ?? []).map(({ name, frames }) => [name, frames]));
  return stagesOf(job).map(({ name }) => name).filter((name) => (frames.has(name) ? frames.get(name) !== 0 : mayHaveFrames(job, name)));
}

/** Whether a stage that has not ended has come to its first frame. To ask before would be refused. */
function mayHaveFrames({ parameters: { equilibration, production }, progress, finished_at }: Job, name: string): boolean {
  const every = name === "production" ? production?.traj_freq : equilibration?.[Number(name.split("_").at(-1)) - 1]?.traj_freq;
  if (every === 0) return false;
  return finished_at !== undefined || every === undefined || every === null || (progress?.stage === name && (progress.step ?? 0) >= every);
}

/** A stage in words. */
export function stageWords(name: string): string {
  return name.replaceAll("_", " ");
}

export type Joined = {
  time: number[];
  timeUnit: string | undefined;
  borders: number[];
  /** Whether there are more rows than points. */
  isThinned: boolean;
  columns: { name: string; unit?: string; values: (number | null)[] }[];
};

/** The stages behind each other: each logs times from its own start. */
export function join(stages: readonly Stage[], rowsOf: (stage: string) => Rows | undefined): Joined {
  const time: number[] = [];
  const borders: number[] = [];
  let timeUnit: string | undefined;
  let isThinned = false;
  const columns = new Map<string, Joined["columns"][number]>();
  for (const { name: stage, startPs } of stages) {
    const { columns: of, rows } = rowsOf(stage) ?? { columns: [], rows: 0 };
    const own = of.find(({ name }) => name === "time");
    if (!own || own.values.length === 0) continue;
    timeUnit = own.unit;
    isThinned ||= rows > own.values.length;
    const before = time.length;
    if (startPs > 0) borders.push(startPs);
    for (const at of own.values) time.push(startPs + at);
    for (const { name, unit, values } of of) {
      const column = columns.get(name) ?? { name, ...(unit === undefined ? {} : { unit }), values: [] };
      // A stage before this one may not have logged it.
      while (column.values.length < before) column.values.push(null);
      for (const value of values) column.values.push(value);
      columns.set(name, column);
    }
  }
  return { time, timeUnit, borders, isThinned, columns: [...columns.values()] };
}
