import assert from "node:assert/strict";
import { test } from "node:test";

import { batchOf, replica, wrongOfLast } from "../src/form/batch.ts";

test("what was submitted of a batch is not submitted again, also when there shall be fewer", () => {
  const begun = { ...batchOf({ box_id: "box_a" }, 10, undefined), sent: 5 };
  assert.deepEqual(batchOf({ box_id: "box_a" }, 10, begun), begun);
  assert.deepEqual(batchOf({ box_id: "box_a" }, 7, begun), { ...begun, of: 7 });
});

test("another request, and one job alone, are another batch", () => {
  const begun = { ...batchOf({ box_id: "box_a" }, 10, undefined), sent: 5 };
  for (const other of [batchOf({ box_id: "box_b" }, 10, begun), batchOf({ box_id: "box_a" }, 1, begun)]) {
    assert.equal(other.sent, 0);
    assert.notEqual(other.key, begun.key);
  }
});

test("seeds count up, and the last of a batch has one that there is", () => {
  const body = { seed: 2147483646 };
  assert.deepEqual([0, 1].map((i) => replica(body, i).seed), [2147483646, 2147483647]);
  assert.deepEqual(wrongOfLast(body, 2), []);
  assert.match(wrongOfLast(body, 3)[0]?.msg ?? "", /would have 2147483648; at most 2147483647/);
  assert.deepEqual(wrongOfLast({}, 100), []);
});
