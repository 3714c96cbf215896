//! Several jobs of one request: how many of them have been submitted, and under which keys.
import type { Schemas, Violation } from "../api/client.ts";
import { fields } from "../api/fields.ts";
import { newKey } from "../api/key.ts";
import { violation } from "./form.ts";

export type Batch = {
  /** The request, and whether it is one of several. */
  text: string;
  /** What the keys of all begin with. */
  key: string;
  sent: number;
  of: number;
};

/** What is left of what was begun, if it is of the very same request; else a batch from its beginning. */
export function batchOf(body: unknown, of: number, begun: Batch | undefined): Batch {
  const text = JSON.stringify([body, of > 1]);
  return begun?.text === text ? { ...begun, of } : { text, key: newKey(), sent: 0, of };
}

type Job = Schemas["JobCreateParams"];

/** One of several: numbered in its batch, with a seed that no other has. */
export function replica(body: Job, i: number): Job {
  return {
    ...body,
    batch_name: body.batch_name ?? "replicas",
    batch_index: (body.batch_index ?? 0) + i,
    ...(typeof body.seed === "number" ? { seed: body.seed + i } : {}),
  };
}

/** What is wrong with the last of them although the first is right: seeds count up. */
export function wrongOfLast({ seed }: Job, of: number): Violation[] {
  const most = fields.JobCreateParams.seed.to;
  if (typeof seed !== "number" || seed > most || seed + of - 1 <= most) return [];
  return [violation(["seed"], `each replica has the next seed, and the last would have ${seed + of - 1}; at most ${most}`)];
}
