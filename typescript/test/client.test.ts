// The client against a service that breaks in every way that it should get over, or name.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";

import {
  ConnectionError,
  DamagedError,
  Molbox,
  MolboxError,
  MolboxMargin,
  RefusedError,
  TaskFailedError,
  TimedOutError,
} from "../src/index.js";
import { Sha256 } from "../src/sha256.js";

type Handler = (request: IncomingMessage, answer: ServerResponse, nth: number, body: string) => void;

/** The address of a service that answers until the test ends. */
async function serve(t: TestContext, handler: Handler): Promise<string> {
  let nth = 0;
  const server = createServer((request, answer) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => handler(request, answer, nth++, Buffer.concat(parts).toString()));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function json(answer: ServerResponse, value: unknown, status = 200, headers: Record<string, string> = {}): void {
  answer.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));
}

const client = (baseUrl: string, more = {}) => new Molbox({ baseUrl, apiKey: "mbx_secret", ...more });
const ID = "job_0123456789abcdefghij";
const etagOf = (content: string) => `"sha256-${createHash("sha256").update(content).digest("hex")}"`;
const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();

test("the digest is that of another implementation, whatever the parts", () => {
  for (const size of [0, 1, 55, 56, 63, 64, 65, 1000, 100_003]) {
    const bytes = Uint8Array.from({ length: size }, (_, at) => (at * 31) & 255);
    const hash = new Sha256();
    for (let at = 0; at < size; at += 37) hash.update(bytes.subarray(at, at + 37));
    assert.equal(hash.hex(), createHash("sha256").update(bytes).digest("hex"), `${size} bytes`);
  }
});

test("the key goes to the service and to no other origin", async (t) => {
  const keys: (string | string[] | undefined)[] = [];
  const other = await serve(t, (request, answer) => {
    keys.push(request.headers["x-api-key"]);
    json(answer, { account: "ada" });
  });
  const service = await serve(t, (request, answer) => {
    keys.push(request.headers["x-api-key"]);
    answer.writeHead(307, { location: `${other}/elsewhere` }).end();
  });
  assert.deepEqual(await client(service).get("/info/account"), { account: "ada" });
  assert.deepEqual(keys, ["mbx_secret", undefined]);
  await assert.rejects(client(service).post("/submit/system", { body: {} }), /redirects to/);
});

test("transient errors are repeated with the same idempotency key, others are not", async (t) => {
  const keys: unknown[] = [];
  const service = await serve(t, (request, answer, nth) => {
    keys.push(request.headers["idempotency-key"]);
    if (nth === 0) answer.destroy();
    else if (nth === 1) json(answer, {}, 503, { "retry-after": "0" });
    else json(answer, { job_id: ID });
  });
  assert.equal((await client(service).post("/submit/job", { body: {} })).job_id, ID);
  assert.equal(keys.length, 3);
  assert.equal(new Set(keys).size, 1);
  assert.ok(keys[0]);

  let calls = 0;
  const failing = await serve(t, (_, answer) => {
    calls += 1;
    json(answer, { detail: [{ loc: ["body", "time"], msg: "is too long", type: "x" }] }, 422, { "x-request-id": "r1" });
  });
  await assert.rejects(client(failing).post("/submit/job", { body: {} }), (error) => {
    assert.ok(error instanceof RefusedError && error instanceof MolboxError);
    assert.deepEqual([error.status, error.requestId, error.message], [422, "r1", "refused with 422: time: is too long"]);
    return true;
  });
  assert.equal(calls, 1);
});

test("a request that may not be done twice is not repeated when its answer is lost", async (t) => {
  let calls = 0;
  const service = await serve(t, (_, answer) => {
    calls += 1;
    answer.destroy();
  });
  await assert.rejects(client(service).post("/submit/key", { body: { name: "k" } }), ConnectionError);
  assert.equal(calls, 1);
});

test("a delete that was not begun is repeated, an uncertain one is not", async (t) => {
  const statuses = [503, 204, 502];
  const service = await serve(t, (_, answer, nth) => {
    answer.writeHead(statuses[nth] as number).end();
  });
  const remove = () => client(service).delete("/info/job/{job_id}", { path: { job_id: ID } });
  await remove();
  await assert.rejects(remove(), { name: "RefusedError", status: 502 });
});

test("a refusal that is no JSON is one all the same, and a long wait is left to the caller", async (t) => {
  const service = await serve(t, (_, answer) => {
    answer.writeHead(429, { "retry-after": "3600" }).end("<html>");
  });
  await assert.rejects(client(service).get("/info/account"), { name: "RefusedError", status: 429, violations: [] });
});

test("a service that does not answer is given up, and a signal ends a call", async (t) => {
  const service = await serve(t, () => {});
  const molbox = client(service, { retries: 0, timeout: 50 });
  await assert.rejects(molbox.get("/info/account"), ConnectionError);
  const stop = new AbortController();
  const call = client(service).get("/info/account", { signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(call, /enough/);
});

test("a margin is waited for as long as the service may take, unless another time is given", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const silent = (_: unknown, request?: RequestInit) =>
    new Promise<Response>((_, reject) => request?.signal?.addEventListener("abort", () => reject(new Error("over"))));
  for (const [given, limit] of [
    [undefined, 420_000],
    [5_000, 5_000],
  ] as const) {
    const options = { baseUrl: "http://margins", apiKey: "mbx_secret", retries: 0, timeout: given };
    const call = new MolboxMargin({ ...options, fetch: silent }).post("/margin/submit_job/historical/{data_format}", {
      path: { data_format: "json" },
      query: { shape: "report" },
      body: { portfolio: { futures: [] } },
    });
    let isOver = false;
    const over = assert.rejects(call, ConnectionError).finally(() => (isOver = true));
    t.mock.timers.tick(limit - 1);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isOver, false);
    t.mock.timers.tick(1);
    await over;
  }
});

test("a download that breaks is resumed, and its digest is that of the whole", async (t) => {
  const content = "0123456789".repeat(1000);
  const ranges: unknown[] = [];
  const service = await serve(t, (request, answer, nth) => {
    ranges.push([request.headers.range, request.headers["if-range"]]);
    const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? "bytes=0-")?.[1]);
    const status = from ? 206 : 200;
    answer.writeHead(status, { etag: etagOf(content), "content-length": content.length - from });
    if (nth === 0) answer.write(content.slice(0, 4000), () => answer.destroy());
    else answer.end(content.slice(from));
  });
  const seen: number[] = [];
  const bytes = await client(service).download(ID, { onProgress: (done) => seen.push(done) });
  assert.equal(text(bytes), content);
  assert.deepEqual(ranges[1], ["bytes=4000-", etagOf(content)]);
  assert.equal(seen.at(-1), content.length);
});

test("what is damaged, another content, or without an end that is known is refused", async (t) => {
  const damaged = await serve(t, (_, answer) => {
    answer.writeHead(200, { etag: etagOf("right"), "content-length": 5 }).end("wrong");
  });
  await assert.rejects(client(damaged).download(ID), DamagedError);
  const changed = await serve(t, (_, answer, nth) => {
    answer.writeHead(200, { etag: etagOf(`${nth}`), "content-length": 10 });
    answer.write("01234", () => answer.destroy());
  });
  await assert.rejects(client(changed).download(ID), /another content/);
  const endless = await serve(t, (_, answer) => {
    answer.write("some");
    answer.end();
  });
  await assert.rejects(client(endless).download(ID), /nobody knows where it ends/);
});

test("an upload sends no key to the link, and compares the digest", async (t) => {
  const requests: [string | undefined, unknown][] = [];
  let sha256 = createHash("sha256").update("ATOM").digest("hex");
  const service = await serve(t, (request, answer) => {
    requests.push([request.url, request.headers["x-api-key"]]);
    if (request.method === "PUT") answer.end();
    else if (request.method === "GET") {
      json(answer, { file_id: "file_1", upload_url: `http://${request.headers.host}/put`, expires_at: "" });
    } else json(answer, { file_id: "file_1", sha256 });
  });
  await client(service).upload(new File(["ATOM"], "villin.ent"));
  assert.deepEqual(requests, [
    ["/submit/upload-url?filetype=pdb", "mbx_secret"],
    ["/put", undefined],
    ["/submit/file/", "mbx_secret"],
  ]);
  sha256 = "0".repeat(64);
  await assert.rejects(client(service).upload("ATOM", { format: "pdb" }), DamagedError);
  await assert.rejects(client(service).upload("ATOM"), /format/);
});

/** A service that takes uploads, whose registrations a test answers. */
function registering(t: TestContext, registered: (body: string, request: IncomingMessage, answer: ServerResponse) => void) {
  return serve(t, (request, answer, _, body) => {
    if (request.url === "/submit/file/") registered(body, request, answer);
    else json(answer, { file_id: "file_1", upload_url: `http://${request.headers.host}/put`, expires_at: "" });
  });
}

test("what is of no use is named and not sent", async () => {
  const molbox = client("http://127.0.0.1:1");
  const careless = molbox as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>;
  const made = (options: unknown) => async () => new Molbox(options as { baseUrl: string; apiKey: string });
  for (const [call, message] of [
    [() => careless.upload!(5, { format: "pdb" }), /^content: must be a Blob/],
    [() => careless.upload!({ path: "1vii.pdb" }, { format: "pdb" }), /^content: must be a Blob/],
    [() => careless.download!(undefined), /is no identifier/],
    [() => careless.waitJob!(undefined), /job_id is missing/],
    [() => careless.waitJob!(".."), /job_id is missing/],
    [() => careless.delete!("/info/job/{job_id}", { path: { job_id: "" } }), /job_id is missing/],
    [made({ baseUrl: "localhost", apiKey: "k" }), /^baseUrl: must be http/],
    [made({ baseUrl: "http://127.0.0.1:1", apiKey: process.env.MOLBOX_NO_SUCH_KEY }), /^apiKey: is empty/],
  ] as const) {
    await assert.rejects(call, (error: Error) => error instanceof MolboxError && message.test(error.message));
  }
});

test("a registration is repeated with the same idempotency key", async (t) => {
  const keys: unknown[] = [];
  const service = await registering(t, (_, request, answer) => {
    keys.push(request.headers["idempotency-key"]);
    if (keys.length === 1) answer.destroy();
    else json(answer, { file_id: "file_1" });
  });
  await client(service).upload("ATOM", { format: "pdb" });
  assert.equal(keys.length, 2);
  assert.ok(keys[0]);
  assert.equal(keys[0], keys[1]);
});

test("each file of a built system has a name of its own", async (t) => {
  const sent: unknown[] = [];
  const service = await registering(t, (body, _, answer) => {
    const { name, format } = JSON.parse(body) as { name?: string; format: string };
    sent.push([name, format]);
    json(answer, { file_id: "file_1" });
  });
  for (const name of ["system.prmtop", "system.rst7", "villin.ENT"]) {
    await client(service).upload(new File(["ATOM"], name));
  }
  assert.deepEqual(sent, [
    ["system.prmtop", "prmtop"],
    ["system.rst7", "inpcrd"],
    ["villin", "pdb"],
  ]);
});

const record = (status: string, fraction = 0) => ({ job_id: ID, status, progress: { fraction } });

test("a wait follows the events of a job to its end", async (t) => {
  let looks = 0;
  const service = await serve(t, (request, answer) => {
    if (!request.url?.endsWith("/events")) {
      looks += 1;
      return json(answer, record("running"));
    }
    answer.writeHead(200, { "content-type": "text/event-stream" });
    answer.write(`event: job\r\ndata: ${JSON.stringify(record("running", 0.5))}\r\n\r\n: a remark\n\n`);
    // In two parts, and with the last line of the data by itself.
    const last = `event: job\ndata: ${JSON.stringify(record("succeeded", 1))}\n\n`;
    answer.write(last.slice(0, 30), () => answer.end(last.slice(30)));
  });
  const fractions: number[] = [];
  const job = await client(service).waitJob(ID, { onProgress: (seen) => fractions.push(seen.progress?.fraction ?? -1) });
  assert.deepEqual([job.status, fractions, looks], ["succeeded", [0, 0.5, 1], 1]);
});

test("a wait looks for itself where events do not come", async (t) => {
  const service = await serve(t, (request, answer, nth) => {
    if (request.url?.endsWith("/events")) return json(answer, {}, 404);
    json(answer, record(nth < 4 ? "running" : "succeeded"));
  });
  assert.equal((await client(service).waitJob(ID)).status, "succeeded");
});

test("a failure, the end of a status that is not known yet, and the end of patience are told apart", async (t) => {
  let answered: object = { ...record("failed"), error: { code: "x", message: "it blew up", remedy: "a shorter step" } };
  const service = await serve(t, (request, answer) => {
    if (request.url?.endsWith("/events")) return json(answer, {}, 404);
    json(answer, answered);
  });
  await assert.rejects(client(service).waitJob(ID), (error) => {
    assert.ok(error instanceof TaskFailedError);
    assert.deepEqual([error.message, error.remedy], [`${ID} failed: it blew up`, "a shorter step"]);
    return true;
  });
  answered = { ...record("archived"), finished_at: "2026-01-01T00:00:00Z" };
  await assert.rejects(client(service).waitJob(ID), TaskFailedError);
  answered = record("queued");
  await assert.rejects(client(service).waitJob(ID, { timeout: 300 }), TimedOutError);
});
