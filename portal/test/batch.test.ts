import assert from "node:assert/strict";
import { test } from "node:test";

import { batchOf } from "../src/form/batch.ts";

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
