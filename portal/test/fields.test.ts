import assert from "node:assert/strict";
import { test } from "node:test";

import { type Field, fields } from "../src/api/fields.ts";

const all: [string, Field][] = Object.entries(fields).flatMap(([object, of]) =>
  Object.entries<Field>(of).map(([name, field]): [string, Field] => [`${object}.${name}`, field]));

test("units, defaults, values and ranges come from the document", () => {
  const { kind, unit, initial } = fields.JobCreateParams.temperature;
  assert.deepEqual({ kind, unit, initial }, { kind: "number", unit: "K", initial: 300 });
  assert.deepEqual(fields.EquilibrationStep.type.values, ["NPT", "NVT"]);
  const { from, to } = fields.SystemBuildRequest.minimum_padding;
  assert.deepEqual({ from, to }, { from: 0.5, to: 5 });
  assert.equal(fields.SystemBuildRequest.force_field.isOpen, true);
});

test("every field is explained, and no explanation repeats the default that its control shows", () => {
  for (const [name, { help, initial }] of all) {
    assert.notEqual(help, "", name);
    if (initial !== undefined) assert.ok(!help.includes(`Default: ${initial}.`), `${name}: ${help}`);
  }
});

test("every default is of its field's kind and within its range", () => {
  for (const [name, { kind, initial, values, from, above, to }] of all) {
    if (initial === undefined) continue;
    if (values) assert.ok(values.includes(String(initial)), name);
    if (kind === "boolean") assert.equal(typeof initial, "boolean", name);
    if (kind !== "number" && kind !== "integer") continue;
    assert.ok(typeof initial === "number", name);
    assert.ok(initial >= (from ?? -Infinity) && initial > (above ?? -Infinity) && initial <= (to ?? Infinity), name);
  }
});
