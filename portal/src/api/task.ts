//! What systems, jobs and analyses have in common: they wait, run and end.
import { expectData, molbox, type Schemas } from "./client.ts";
import { chunksOf, eventsIn, persist } from "./events.ts";

const ENDED = ["succeeded", "failed", "cancelled"];

/** Whether the record will not change by itself any more. */
export function hasEnded(task: { status: string; finished_at?: string }): boolean {
  return ENDED.includes(task.status) || task.finished_at !== undefined;
}

export function jobView(job_id: string): Promise<Schemas["JobRecord"]> {
  return expectData(molbox.GET("/info/job/{job_id}", { params: { path: { job_id } } }));
}

export function systemView(system_id: string): Promise<Schemas["SystemRecord"]> {
  return expectData(molbox.GET("/info/system/{system_id}", { params: { path: { system_id } } }));
}

const RECORDS = ["file", "system", "job", "analysis"] as const;
/** What a record is of. */
export type Noun = (typeof RECORDS)[number];
export type AnyRecord = Schemas["FileRecord" | "SystemRecord" | "JobRecord" | "AnalysisRecord"];

/** The records of the account as they change. `begun` is called at first, and when there may be a gap in what is told. */
export function watchAccount(
  begun: () => void,
  told: (noun: Noun, record: AnyRecord) => void,
  failed: (error: unknown) => void,
  signal: AbortSignal,
): Promise<void> {
  return persist(async (arrived) => {
    const body = await expectData(molbox.GET("/info/events", { parseAs: "stream", signal }));
    arrived();
    begun();
    if (body === null) return "cut";
    for await (const { name, data } of eventsIn(chunksOf(body))) {
      const noun = RECORDS.find((known) => known === name);
      if (noun) told(noun, JSON.parse(data) as AnyRecord);
    }
    failed(undefined);
    return "cut";
  }, failed, signal);
}

/** What a task has logged since `offset`, in bytes. */
export async function jobLog(job_id: string, offset: number, signal: AbortSignal): Promise<Uint8Array> {
  return new Uint8Array(await expectData(molbox.GET("/info/job/{job_id}/log", {
    params: { path: { job_id }, query: { offset } }, parseAs: "arrayBuffer", signal,
  })));
}
