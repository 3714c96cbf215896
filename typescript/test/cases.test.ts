// The table of cases that all clients run, as JSON: `cargo xtask clients typescript` makes it of clients/cases.yaml.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";

import { ConnectionError, DamagedError, Molbox, MolboxError, RefusedError, TaskFailedError } from "../src/index.js";

interface Reply {
  status?: number;
  headers?: Record<string, string>;
  json?: unknown;
  text?: string;
  content?: [number, number];
  transfer?: "length" | "chunked" | "close" | "cut";
  silent?: boolean;
}
interface Wanted {
  line: string;
  has?: Record<string, string>;
  lacks?: string[];
  sends?: Record<string, unknown>;
}
interface Case {
  name: string;
  call: "view_job" | "submit_job" | "delete_job" | "wait_job" | "list_jobs" | "upload" | "download";
  retries?: number;
  file?: string;
  part?: number;
  answers: Reply[];
  elsewhere?: Reply[];
  requests: Wanted[];
  requests_elsewhere?: Wanted[];
  one_key?: boolean;
  outcome: {
    status?: string | number;
    whole?: boolean;
    at_least_seconds?: number;
    error?: string;
    message?: string;
    retry_after?: number;
    request_id?: string;
  };
}
interface Received {
  line: string;
  headers: Record<string, string>;
  body: string;
}

const CASES = JSON.parse(readFileSync(new URL("../../cases.json", import.meta.url), "utf8")) as Case[];
const JOB = "job_7cpejpkq0zxnh8yydfbe";
const CONTENT = Uint8Array.from({ length: 1200 }, (_, n) => n % 251);
const DIGEST = createHash("sha256").update(CONTENT).digest("hex");
/** A redirect that is not followed, and what is no answer, are none of the service. */
const KINDS = {
  refused: RefusedError,
  invalid: MolboxError,
  connection: ConnectionError,
  unexpected: MolboxError,
  damaged: DamagedError,
  failed: TaskFailedError,
};

/** A service that answers as the table says, and remembers what it was asked. */
async function serve(t: TestContext, answers: Reply[], names: Record<string, string>) {
  const received: Received[] = [];
  const filled = (text: string) => text.replace(/\{(base|other|job|digest)\}/g, (_, name: string) => all[name] as string);
  const answer = (socket: Socket, request: Received) => {
    // A wait looks at events, too; there are none.
    if (request.line.endsWith("/events")) return socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    received.push(request);
    const reply = answers[Math.min(received.length, answers.length) - 1];
    if (!reply || reply.silent) return socket.destroy();
    const bytes = wire(reply, filled);
    return socket.end(bytes);
  };
  const server = createServer((socket) => {
    let data = Buffer.alloc(0);
    socket.on("error", () => undefined);
    socket.on("data", (part: Buffer) => {
      data = Buffer.concat([data, part]);
      const end = data.indexOf("\r\n\r\n");
      if (end < 0) return;
      const [first = "", ...rest] = data.subarray(0, end).toString("latin1").split("\r\n");
      const pairs = rest.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]);
      const headers = Object.fromEntries(pairs) as Record<string, string>;
      if (data.length < end + 4 + Number(headers["content-length"] ?? 0)) return;
      answer(socket, { line: first.replace(/ HTTP\/1\.1$/, ""), headers, body: data.subarray(end + 4).toString("latin1") });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const all: Record<string, string> = { base: `${origin}/local`, job: JOB, digest: DIGEST, ...names };
  return { origin, received, filled };
}

function wire({ status = 200, headers = {}, json, text = "", content, transfer = "length" }: Reply, filled: (text: string) => string): Buffer {
  const body = content ? Buffer.from(CONTENT.subarray(...content)) : Buffer.from(json === undefined ? text : filled(JSON.stringify(json)));
  const lines = ["connection: close", ...(json === undefined ? [] : ["content-type: application/json"])];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${filled(value)}`);
  if (transfer === "chunked") lines.push("transfer-encoding: chunked");
  if (transfer === "length" && status !== 204) lines.push(`content-length: ${body.length}`);
  if (transfer === "cut") lines.push(`content-length: ${CONTENT.length - (content?.[0] ?? 0)}`);
  const head = Buffer.from(`HTTP/1.1 ${status} of the table\r\n${lines.join("\r\n")}\r\n\r\n`);
  if (transfer !== "chunked") return Buffer.concat([head, body]);
  return Buffer.concat([head, Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from("\r\n0\r\n\r\n")]);
}

async function called(molbox: Molbox, { call, file }: Case): Promise<{ status?: string; bytes?: Uint8Array }> {
  const path = { job_id: JOB };
  switch (call) {
    case "view_job":
      return molbox.get("/info/job/{job_id}", { path });
    case "submit_job":
      return molbox.post("/submit/job", { body: { box_id: "box_1" } });
    case "delete_job":
      await molbox.delete("/info/job/{job_id}", { path });
      return {};
    case "wait_job":
      return molbox.waitJob(JOB);
    case "upload":
      return file ? molbox.upload(new File([CONTENT], file)) : molbox.upload(CONTENT, { format: "pdb", name: "villin" });
    case "download":
      return { bytes: await molbox.download(JOB) };
    case "list_jobs":
      throw new Error("there is no call for listings");
  }
}

function parsed(line: string): [string, string, [string, string][]] {
  const [method = "", target = ""] = line.split(" ");
  const url = new URL(`http://host${target}`);
  return [method, url.pathname, [...url.searchParams].sort()];
}

function expectRequests(wanted: Wanted[], received: Received[], filled: (text: string) => string): void {
  assert.deepEqual(received.map(({ line }) => parsed(line)), wanted.map(({ line }) => parsed(filled(line))));
  for (const [nth, { has = {}, lacks = [], sends = {} }] of wanted.entries()) {
    const { headers, body } = received[nth] as Received;
    for (const [name, value] of Object.entries(has)) assert.equal(headers[name], value);
    for (const name of lacks) assert.equal(headers[name], undefined);
    for (const [name, value] of Object.entries(sends)) assert.deepEqual((JSON.parse(body) as Record<string, unknown>)[name], value);
  }
}

// A part on the disk, and a call for whole listings, there are not.
for (const one of CASES.filter(({ call, part }) => call !== "list_jobs" && part === undefined)) {
  test(one.name, async (t) => {
    const other = await serve(t, one.elsewhere ?? [], {});
    const service = await serve(t, one.answers, { other: other.origin });
    const molbox = new Molbox({ baseUrl: `${service.origin}/local`, apiKey: "mbx_secret", retries: one.retries ?? 4 });
    const start = performance.now();
    const { result, error } = await called(molbox, one).then(
      (result) => ({ result, error: undefined }),
      (error: unknown) => ({ result: undefined, error }),
    );
    const wanted = one.outcome;
    assert.ok(performance.now() - start >= 1000 * (wanted.at_least_seconds ?? 0));
    if (wanted.error === undefined) {
      assert.ifError(error);
      if (wanted.status !== undefined) assert.equal(result?.status, wanted.status);
      if (wanted.whole) assert.deepEqual(result?.bytes, CONTENT);
    } else {
      const isRedirect = typeof wanted.status === "number" && wanted.status < 400;
      const kind = isRedirect ? ConnectionError : KINDS[wanted.error as keyof typeof KINDS];
      assert.ok(error instanceof kind, String(error));
      if (wanted.error !== "damaged") assert.ok(error.message.includes(wanted.message ?? ""), error.message);
      if (error instanceof RefusedError) {
        assert.equal(error.status, wanted.status);
        assert.equal(error.retryAfter, wanted.retry_after);
        assert.equal(error.requestId, wanted.request_id);
      }
    }
    expectRequests(one.requests, service.received, service.filled);
    if (one.requests_elsewhere) expectRequests(one.requests_elsewhere, other.received, other.filled);
    if (one.one_key) {
      const keys = new Set(service.received.map(({ headers }) => headers["idempotency-key"]));
      assert.ok(keys.size === 1 && !keys.has(undefined));
    }
  });
}
