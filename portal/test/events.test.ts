import assert from "node:assert/strict";
import { test } from "node:test";

import { eventsIn, persist, type ServerEvent } from "../src/api/events.ts";

const STREAM = ": kept open\r\n\r\nevent: job\ndata: {\"name\":\ndata: \"ångström 🧪\"}\n\nretry: 10\rdata:no blank\r\revent: log\n\n"
  + "data\n\nevent: job\r\ndata: last\r\n\ndata: never ended";
const EVENTS: ServerEvent[] = [
  { name: "job", data: "{\"name\":\n\"ångström 🧪\"}" },
  { name: "message", data: "no blank" },
  { name: "message", data: "" },
  { name: "job", data: "last" },
];

async function eventsOf(...chunks: Uint8Array[]): Promise<ServerEvent[]> {
  const events: ServerEvent[] = [];
  for await (const event of eventsIn(arriving(chunks))) events.push(event);
  return events;
}

async function* arriving(chunks: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

test("a stream has the same events wherever it is cut", async () => {
  const bytes = new TextEncoder().encode(STREAM);
  assert.deepEqual(await eventsOf(bytes), EVENTS);
  for (let at = 0; at <= bytes.length; at += 1) {
    assert.deepEqual(await eventsOf(bytes.subarray(0, at), bytes.subarray(at)), EVENTS, `cut at ${at}`);
  }
  assert.deepEqual(await eventsOf(...Array.from(bytes, (byte) => Uint8Array.of(byte))), EVENTS);
});

test("what was cut is followed again until all has been seen", async () => {
  const stop = new AbortController();
  const failures: unknown[] = [];
  let calls = 0;
  const broken = new Error("broken");
  await persist(async () => {
    calls += 1;
    if (calls === 1) throw broken;
    return "seen";
  }, (error) => failures.push(error), stop.signal);
  assert.equal(calls, 2);
  assert.deepEqual(failures, [broken]);
});

test("nothing is followed once it has been given up", async () => {
  const stop = new AbortController();
  let calls = 0;
  await persist(async () => {
    calls += 1;
    stop.abort();
    return "cut";
  }, () => assert.fail(), stop.signal);
  assert.equal(calls, 1);
});
