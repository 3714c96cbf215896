import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { QueryClient, QueryObserver } from "@tanstack/react-query";

import type { AnyRecord } from "../src/api/task.ts";
import { Lists } from "../src/part/lists.ts";

function job(job_id: string, status: string, fraction = 0): AnyRecord {
  return { job_id, status, progress: { fraction } } as unknown as AnyRecord;
}

/** A list that is shown, of what the service has at the moment. */
async function shown(queries: QueryClient, items: () => AnyRecord[]) {
  let asked = 0;
  const observer = new QueryObserver(queries, { queryKey: ["jobs", "first page"], staleTime: Infinity, queryFn: async () => {
    asked += 1;
    return { items: items() };
  } });
  const stop = observer.subscribe(() => undefined);
  await settled();
  return { stop, asked: () => asked, items: () => observer.getCurrentResult().data?.items };
}

/** What was begun has come to its end, without time passing. */
async function settled(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await Promise.resolve();
}

async function pass(ms: number): Promise<void> {
  mock.timers.tick(ms);
  await settled();
  mock.timers.tick(1);
  await settled();
}

test("a list is asked for when a record may have joined it, and not for each step of the record", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000_000 });
  const queries = new QueryClient();
  const lists = new Lists(queries);
  const list = await shown(queries, () => [job("job_a", "running")]);
  await pass(0);
  assert.equal(list.asked(), 1);
  for (let step = 0; step < 50; step += 1) {
    lists.tell("job", job("job_elsewhere", "running", step / 50));
    await pass(100);
  }
  assert.equal(list.asked(), 2, "once, when it was first heard of");
  lists.tell("job", job("job_a", "running", 0.5));
  await pass(1000);
  assert.deepEqual(list.items(), [job("job_a", "running", 0.5)]);
  assert.equal(list.asked(), 2);
  lists.tell("job", job("job_a", "succeeded"));
  await pass(1000);
  assert.equal(list.asked(), 3);
  list.stop();
  queries.clear();
  mock.timers.reset();
});

test("a list is asked for once a second at most, and once more after the last change", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000_000 });
  const queries = new QueryClient();
  const lists = new Lists(queries);
  const list = await shown(queries, () => []);
  await pass(0);
  for (let i = 0; i < 30; i += 1) {
    lists.tell("job", job(`job_${i}`, "succeeded"));
    await pass(100);
  }
  await pass(1000);
  assert.ok(list.asked() >= 4 && list.asked() <= 6, `${list.asked()} times in 3 s`);
  const before = list.asked();
  await pass(5000);
  assert.equal(list.asked(), before);
  list.stop();
  queries.clear();
  mock.timers.reset();
});
