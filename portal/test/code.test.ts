//! Requests as code: what is written has to run, whatever is in the request.
import assert from "node:assert/strict";
import { test } from "node:test";

import { codeOf, JOB_SUBMIT } from "../src/form/code.ts";

test("in Rust a request is a text, which has no largest number, no most entries and no end before its own", () => {
  const body = { seed: 9007199254740991, batch_name: 'the "#1" and "##2' };
  const [, fence, json] = /from_str\(r(#+)"(.*)"\1\)\?;/s.exec(codeOf("Rust", JOB_SUBMIT, body, "http://here/local")) ?? [];
  assert.deepEqual(JSON.parse(json ?? ""), body);
  assert.equal(fence, "###");
});
