// The client of the simulation workflow: typed calls, uploads, waits and downloads.

import { Client } from "./client.js";
import { sleep } from "./connection.js";
import { ConnectionError, DamagedError, MolboxError, RefusedError, TaskFailedError, TimedOutError } from "./errors.js";
import { messages } from "./events.js";
import { Sha256 } from "./sha256.js";
import type { components, paths as WorkflowPaths } from "./workflow.js";

export type { WorkflowPaths };

type Schemas = components["schemas"];

type Ended = { status: string; finished_at?: string; error?: Schemas["Failure"] };

export interface UploadOptions {
  /** Name in the account. Default: that of a `File`, whole for formats of built systems, else without its extension. */
  name?: string;
  /** `pdb`, `sdf` and so on. Default: the extension of a `File`. */
  format?: string;
  /** `ligand`, `force_field` and so on. Default: what the format suggests. */
  type?: string;
  signal?: AbortSignal;
}

export interface WaitOptions<T> {
  /** Called with each record that differs from the one before. */
  onProgress?: (record: T) => void;
  /** Give up after so many milliseconds. Default: never. */
  timeout?: number;
  signal?: AbortSignal;
}

export interface TransferOptions {
  /** Called with the bytes that have come, and those of the whole as far as that is known. */
  onProgress?: (done: number, size: number | undefined) => void;
  signal?: AbortSignal;
}

const FIRST_POLL_MS = 200;
const LAST_POLL_MS = 5_000;
/** How often a job is looked at while events of it come: a proxy may hold them back. */
const POLL_BESIDE_EVENTS_MS = 15_000;

/** Whether a file is refused for what it is, or for a taken name; for its identifier, this call may have registered it. */
const isUnwanted = ({ status, violations }: RefusedError): boolean =>
  status === 422 || (status === 409 && violations.some(({ loc }) => loc.at(-1) === "name"));

export class Molbox extends Client<WorkflowPaths> {
  /** Uploads a content and registers it; what the service has got is compared with what was sent. */
  async upload(
    content: Blob | Uint8Array | ArrayBuffer | string,
    { name, format, type, signal }: UploadOptions = {},
  ): Promise<Schemas["FileRecord"]> {
    const bytes = await bytesOf(content);
    const file = content instanceof Blob && "name" in content ? String(content.name) : undefined;
    const ending = file?.includes(".") ? file.replace(/^.*\./, "").toLowerCase() : undefined;
    const extension = format ?? (ending === undefined ? undefined : (USUAL.get(ending) ?? ending));
    if (!extension) throw new MolboxError("format: a content without a file's name needs one");
    const link = await this.get("/submit/upload-url", { query: { filetype: extension }, signal });
    if (!URL.canParse(link.upload_url)) throw new MolboxError("what answered is not the service: there is no upload_url");
    if (link.max_bytes !== undefined && bytes.length > link.max_bytes) {
      throw new MolboxError(`the content has ${bytes.length} bytes, the service takes ${link.max_bytes}`);
    }
    const headers: Record<string, string> = link.content_type ? { "content-type": link.content_type } : {};
    await this.connection.sendWithoutKey(link.upload_url, { method: "PUT", headers, body: bytes as BodyInit }, signal);
    const registration = { file_id: link.file_id, format: extension, name: name ?? usualName(file, ending), type };
    const registered = await this.post("/submit/file/", { body: registration, signal }).catch(async (error: unknown) => {
      // It would be in the account's list for a day. What is thrown is why it was refused, also when it stays.
      if (error instanceof RefusedError && isUnwanted(error)) {
        await this.delete("/info/file/{file_id}", { path: { file_id: link.file_id } }).catch(() => undefined);
      }
      throw error;
    });
    const digest = new Sha256().update(bytes).hex();
    if (registered.sha256 !== undefined && registered.sha256 !== digest) {
      throw new DamagedError(`${registered.file_id}: the service has other bytes than were sent`);
    }
    return registered;
  }

  /** Waits until a system is built; one that fails or is cancelled is a `TaskFailedError`. */
  waitSystem(id: string, options: WaitOptions<Schemas["SystemRecord"]> = {}): Promise<Schemas["SystemRecord"]> {
    const look = (signal: AbortSignal) => this.get("/info/system/{system_id}", { path: { system_id: id }, signal });
    return this.#wait(id, look, options);
  }

  /**
   * Waits until a simulation has ended: by its events, and by looking again where these do not come. One that fails or is
   * cancelled is a `TaskFailedError`.
   */
  waitJob(id: string, options: WaitOptions<Schemas["JobRecord"]> = {}): Promise<Schemas["JobRecord"]> {
    const look = (signal: AbortSignal) => this.get("/info/job/{job_id}", { path: { job_id: id }, signal });
    return this.#wait(id, look, options, (signal) => this.events(id, signal));
  }

  /** Waits until an analysis has ended; one that fails or is cancelled is a `TaskFailedError`. */
  waitAnalysis(id: string, options: WaitOptions<Schemas["AnalysisRecord"]> = {}): Promise<Schemas["AnalysisRecord"]> {
    const look = (signal: AbortSignal) =>
      this.get("/info/analysis/{analysis_id}", { path: { analysis_id: id }, signal });
    return this.#wait(id, look, options);
  }

  async #wait<T extends Ended>(
    id: string,
    look: (signal: AbortSignal) => Promise<T>,
    { onProgress, timeout, signal }: WaitOptions<T>,
    follow?: (signal: AbortSignal) => AsyncGenerator<T, void, undefined>,
  ): Promise<T> {
    const end = timeout === undefined ? Infinity : Date.now() + timeout;
    const ending = new AbortController();
    const stop = () => ending.abort(signal?.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    const events = follow?.(ending.signal);
    // What is wrong with events is wrong with looking, too, which says so.
    const following = () => events?.next().catch(() => undefined);
    let next = following();
    let last = "";
    /** Whether a record is the last; it is shown when it is another one. */
    const see = (record: T): boolean => {
      const text = JSON.stringify(record);
      if (text !== last) onProgress?.(record);
      last = text;
      return isOver(record);
    };
    try {
      for (let pause = FIRST_POLL_MS; ; ) {
        const record = await look(ending.signal);
        if (see(record)) return succeeded(id, record);
        const left = end - Date.now();
        if (left <= 0) throw new TimedOutError(`${id}: still ${record.status}`);
        if (!next) {
          await sleep(Math.min(pause, left), ending.signal);
          pause = Math.min(pause * 1.25, LAST_POLL_MS);
          continue;
        }
        const time = sleep(Math.min(POLL_BESIDE_EVENTS_MS, left), ending.signal).then(() => "time" as const);
        // The one that is left over when a wait ends is nobody's error.
        time.catch(() => undefined);
        while (next) {
          const came: "time" | IteratorResult<T, void> | undefined = await Promise.race([next, time]);
          if (came === "time") break;
          const event: T | undefined = came?.done === false ? came.value : undefined;
          if (event && see(event)) return succeeded(id, event);
          next = event ? following() : undefined;
        }
      }
    } finally {
      signal?.removeEventListener("abort", stop);
      ending.abort(new Error("the wait is over"));
    }
  }

  /** The records of a job as the service sends them, whenever it changes, until it has ended. */
  async *events(jobId: string, signal?: AbortSignal): AsyncGenerator<Schemas["JobRecord"], void, undefined> {
    const answer = await this.connection.send({
      method: "GET",
      path: `/info/job/${encodeURIComponent(jobId)}/events`,
      headers: { accept: "text/event-stream" },
      signal,
    });
    if (!answer.body) throw new ConnectionError("the answer has no body");
    for await (const { event, data } of messages(answer.body)) {
      if (event === "job") yield JSON.parse(data) as Schemas["JobRecord"];
    }
  }

  /** A registered file, or the bundle of a system, job or analysis, its digest checked. */
  async download(id: string, options: TransferOptions = {}): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const part of this.stream(id, options)) {
      parts.push(part);
      size += part.length;
    }
    const whole = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  /**
   * The same in parts, for what is too large for the memory. A transfer that breaks is resumed where it stopped. Only
   * after the last part is it known that all are right: until then, what was written is not to be used.
   */
  async *stream(id: string, { onProgress, signal }: TransferOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    const kind = kindOf(id);
    if (!kind) throw new MolboxError(`${JSON.stringify(id)} is no identifier of something with a content`);
    const path = `/retrieve/${kind}/${encodeURIComponent(id)}`;
    const accept = kind === "file" ? "application/octet-stream" : "application/zip";
    const hash = new Sha256();
    let done = 0;
    let etag: string | undefined;
    let size: number | undefined;
    // Breaks after which nothing has come: a large content may break any number of times.
    for (let inVain = 0; ; ) {
      const before = done;
      const headers: Record<string, string> = { accept };
      if (done > 0 && etag) Object.assign(headers, { range: `bytes=${done}-`, "if-range": etag });
      const answer: Response = await this.connection.send({ method: "GET", path, headers, signal });
      if (done > 0 && answer.status !== 206) throw new DamagedError(`${id}: is another content by now`);
      etag ??= answer.headers.get("etag") ?? undefined;
      const length = answer.headers.get("content-length");
      if (done === 0 && length !== null && !answer.headers.get("content-encoding")) size = Number(length);
      const reader = answer.body?.getReader();
      if (!reader) throw new ConnectionError("the answer has no body");
      try {
        for (;;) {
          const part = await reader.read();
          if (part.done) break;
          hash.update(part.value);
          done += part.value.length;
          onProgress?.(done, size);
          yield part.value;
        }
        if (size !== undefined && done < size) throw new Error(`${done} of ${size} bytes came`);
        break;
      } catch (cause) {
        signal?.throwIfAborted();
        if (done > before) inVain = 0;
        if (!etag || inVain >= this.connection.retries) {
          throw new ConnectionError(`${id}: the transfer broke after ${done} bytes`, { cause });
        }
        inVain += 1;
      } finally {
        // Whoever stops reading early ends the transfer, too.
        await reader.cancel().catch(() => undefined);
      }
    }
    const promised = /"sha256-([0-9a-f]{64})"/.exec(etag ?? "")?.[1];
    if (size === undefined && promised === undefined) {
      throw new DamagedError(`${id}: came without length and digest, so nobody knows where it ends`);
    }
    if (promised !== undefined && hash.hex() !== promised) {
      throw new DamagedError(`${id}: the bytes are not those that the service has`);
    }
  }
}

/** Whether a task has ended. Of a later service's status the time of the end tells. */
function isOver({ status, finished_at }: Ended): boolean {
  if (["queued", "running"].includes(status)) return false;
  return ["succeeded", "failed", "cancelled"].includes(status) || finished_at !== undefined;
}

function succeeded<T extends Ended>(id: string, record: T): T {
  if (record.status === "succeeded") return record;
  throw new TaskFailedError(id, record);
}

function kindOf(id: string): "file" | "system" | "job" | "analysis" | undefined {
  const kinds = { file: "file", box: "system", job: "job", ana: "analysis" } as const;
  const prefix = String(id).split("_", 1)[0] as string;
  return Object.hasOwn(kinds, prefix) ? kinds[prefix as keyof typeof kinds] : undefined;
}

async function bytesOf(content: Blob | Uint8Array | ArrayBuffer | string): Promise<Uint8Array> {
  if (typeof content === "string") return new TextEncoder().encode(content);
  if (content instanceof Blob) return new Uint8Array(await content.arrayBuffer());
  if (content instanceof Uint8Array) return content;
  if (content instanceof ArrayBuffer) return new Uint8Array(content);
  // Of a stream, a path's object or a number `Uint8Array` would make bytes that nobody meant.
  throw new MolboxError("content: must be a Blob, a File, bytes or text; read a stream or a file first");
}

/** The format that an extension stands for, where it is not its name; as in `src/transfer.rs`, which has the names, too. */
const USUAL = new Map([
  ["ent", "pdb"],
  ["mmcif", "cif"],
  ["parm7", "prmtop"],
  ["rst7", "inpcrd"],
  ["restrt", "inpcrd"],
  ["ncrst", "inpcrd"],
  ["par", "prm"],
  ["ncdf", "nc"],
  ["netcdf", "nc"],
  ["cor", "crd"],
]);

/** What is known by its name without the extension. Files of built systems are many of one name. */
const OF_ONE_NAME = /^(pdb|ent|cif|mmcif|sdf|mol2?|xml|dcd|xtc|trr|nc|ncdf|netcdf|gz)$/;

/** The name that a file is registered under, unless another is given. */
function usualName(file: string | undefined, ending: string | undefined): string | undefined {
  return ending !== undefined && OF_ONE_NAME.test(ending) ? file?.slice(0, -ending.length - 1) : file;
}

