import assert from "node:assert/strict";
import { test } from "node:test";

import { framedOf, join, type Rows, stagesOf } from "../src/chart/stages.ts";

type Job = Parameters<typeof stagesOf>[0];

const parameters: Job["parameters"] = {
  integration_timestep: 2,
  equilibration: [{ time: 0.1, log_freq: 0 }, { time: 0.2 }],
  production: { time: 1 },
};

function ended(name: string, steps: number) {
  return { name, steps, frames: 0, seconds: 1 };
}

function rows(...time: number[]): Rows {
  return { rows: time.length, columns: [
    { name: "step", values: time.map((ps) => ps * 500) },
    { name: "time", unit: "ps", values: time },
    { name: "temperature", unit: "K", values: time.map(() => 300) },
  ] };
}

test("each stage begins where the plan has it, whatever those before it have logged", () => {
  const job: Job = { parameters, progress: { fraction: 0.5, stage: "production" },
    stages: [ended("minimization", 10), ended("equilibration_1", 50_000), ended("equilibration_2", 100_000)] };
  const stages = stagesOf(job);
  assert.deepEqual(stages.map(({ name, startPs }) => [name, startPs]),
    [["equilibration_1", 0], ["equilibration_2", 100], ["production", 300]]);
  const logged: Record<string, Rows> = { equilibration_1: rows(), equilibration_2: rows(1, 2), production: rows(5) };
  const { time, borders, columns, isThinned } = join(stages, (name) => logged[name]);
  assert.deepEqual(time, [101, 102, 305]);
  assert.deepEqual(borders, [100, 300]);
  assert.equal(isThinned, false);
  assert.ok(join(stages, (name) => logged[name] && { ...logged[name], rows: 4000 }).isThinned);
  assert.ok(columns.every(({ values }) => values.length === 3));
});

test("a stage is another when it has ended, and the last may go on", () => {
  const stages = [ended("equilibration_1", 50_000), ended("equilibration_2", 100_000)];
  const runs = stagesOf({ parameters, progress: { fraction: 0.1, stage: "equilibration_1" } });
  assert.deepEqual(runs, [{ name: "equilibration_1", startPs: 0 }]);
  const later = stagesOf({ parameters, stages, progress: { fraction: 0.5, stage: "production" } });
  assert.deepEqual(later.map(({ steps }) => steps), [50_000, 100_000, undefined]);
  const extended = stagesOf({ parameters, stages: [...stages, ended("production", 500_000)], progress: { fraction: 0.5, stage: "production" } });
  assert.deepEqual(extended.map(({ steps }) => steps), [50_000, 100_000, undefined]);
});

test("a job that was stopped in its production has the stage in which it was", () => {
  const times = { started_at: "2026-01-01T00:00:00Z", finished_at: "2026-01-01T01:00:00Z" };
  const stages = [ended("minimization", 10), ended("equilibration_1", 50_000), ended("equilibration_2", 100_000)];
  const stopped = stagesOf({ parameters, stages, ...times });
  assert.deepEqual(stopped.map(({ name }) => name), ["equilibration_1", "equilibration_2", "production"]);
  const whole = stagesOf({ parameters, stages: [...stages, ended("production", 500_000)], ...times });
  assert.equal(whole.length, 3);
  assert.deepEqual(stagesOf({ parameters, finished_at: times.finished_at }), [], "it was cancelled before it began");
});

test("no frames are asked for before there can be one", () => {
  const stages = [ended("minimization", 10), { ...ended("equilibration_1", 50_000), frames: 4 }, ended("equilibration_2", 100_000)];
  const at = (step: number, traj_freq = 500): Job => ({
    parameters: { ...parameters, production: { time: 1, traj_freq } }, stages, progress: { fraction: 0.5, stage: "production", step },
  });
  assert.deepEqual(framedOf(at(499)), ["equilibration_1"]);
  assert.deepEqual(framedOf(at(500)), ["equilibration_1", "production"]);
  assert.deepEqual(framedOf(at(500, 0)), ["equilibration_1"], "none is written");
  assert.deepEqual(framedOf({ ...at(0), started_at: "2026-01-01T00:00:00Z", finished_at: "2026-01-01T01:00:00Z" }), ["equilibration_1", "production"], "the record does not tell");
  const extended = at(0);
  assert.deepEqual(framedOf({ ...extended, stages: [...stages, { ...ended("production", 500_000), frames: 9 }] }), ["equilibration_1", "production"]);
});
