//! What systems, jobs and analyses have in common: they wait, run and end.
import { expectData, molbox, Refused, type Schemas } from "./client.ts";
import { chunksOf, eventsIn, persist } from "./events.ts";

const ENDED = ["succeeded", "failed", "cancelled"];

/** Whether the record will not change by itself any more. */
export function hasEnded(task: { status: string; finished_at?: string }): boolean {
  return ENDED.includes(task.status) || task.finished_at !== undefined;
}

/** How often a record that may change is asked for, where nothing is watched. */
export const LOOK_MS = 2000;

export function jobView(job_id: string): Promise<Schemas["JobRecord"]> {
  return expectData(molbox.GET("/info/job/{job_id}", { params: { path: { job_id } } }));
}

export function systemView(system_id: string): Promise<Schemas["SystemRecord"]> {
  return expectData(molbox.GET("/info/system/{system_id}", { params: { path: { system_id } } }));
}

/** The records of a job as they change, until it has ended. */
export function watchJob(
  job_id: string,
  seen: (job: Schemas["JobRecord"]) => void,
  failed: (error: unknown) => void,
  signal: AbortSignal,
): Promise<void> {
  const follow = async (arrived: () => void): Promise<"seen" | "cut"> => {
    const body = await expectData(molbox.GET("/info/job/{job_id}/events", {
      params: { path: { job_id } }, parseAs: "stream", signal,
    }));
    if (body === null) return "cut";
    for await (const { name, data } of eventsIn(chunksOf(body))) {
      if (name !== "job") continue;
      const job = JSON.parse(data) as Schemas["JobRecord"];
      arrived();
      seen(job);
      if (hasEnded(job)) return "seen";
    }
    return "cut";
  };
  const isGone = (error: unknown) => error instanceof Refused && error.status === 404;
  return persist((arrived) => follow(arrived).catch((error: unknown) => {
    if (!isGone(error)) throw error;
    failed(error);
    return "seen";
  }), failed, signal);
}

/** What a task has logged since `offset`, in bytes. */
export async function jobLog(job_id: string, offset: number, signal: AbortSignal): Promise<Uint8Array> {
  return new Uint8Array(await expectData(molbox.GET("/info/job/{job_id}/log", {
    params: { path: { job_id }, query: { offset } }, parseAs: "arrayBuffer", signal,
  })));
}
