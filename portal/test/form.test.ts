import assert from "node:assert/strict";
import { test } from "node:test";

import { fields } from "../src/api/fields.ts";
import { read, typedOf, Wrong } from "../src/form/form.ts";

const { SystemBuildRequest, JobCreateParams } = fields;

test("what is typed becomes what the document has, and empty controls are left out", () => {
  const typed = { pH: " 7.0 ", keep_Hs: "true", seed: "42", protein: "villin", ions: " ", concentration: "1e-1" };
  assert.deepEqual(read(SystemBuildRequest, typed), {
    body: { pH: 7, keep_Hs: true, seed: 42, protein: "villin", concentration: 0.1 },
    wrong: [],
  });
});

test("what is no number is refused at its field, and nothing is guessed", () => {
  const bad = { temperature: "300,5", pressure: "1 bar", minimization_steps: "1.5", friction: "0x10", seed: "1e400" };
  const { body, wrong } = read(JobCreateParams, bad, ["stage", 1]);
  assert.deepEqual(body, {});
  assert.deepEqual(new Set(wrong.map(({ loc }) => loc.join("."))),
    new Set(Object.keys(bad).map((name) => `body.stage.1.${name}`)));
  assert.match(wrong.find(({ loc }) => loc.at(-1) === "temperature")?.msg ?? "", /with a point, 300\.5/);
});

test("a request that is typed again is the same request", () => {
  const body = { box_shape: "cube", concentration: 0.15, keep_Hs: false, seed: 2147483647 };
  assert.deepEqual(read(SystemBuildRequest, typedOf(SystemBuildRequest, body)).body, body);
});

test("a violation stands at the nearest control, or at the top with its place", () => {
  const at = (...loc: (string | number)[]) => ({ loc, msg: "is wrong", type: "value_error" });
  const wrong = new Wrong(
    [at("body", "equilibration", 1, "time"), at("body", "ligands", 2, 0), at("body", "unknown"), at("header", "x")],
    new Set(["equilibration.1.time", "ligands.2", "pH"]),
  );
  assert.equal(wrong.at("equilibration", 1, "time"), "is wrong");
  assert.equal(wrong.at("ligands", 2), "line 1: is wrong");
  assert.equal(wrong.at("pH"), undefined);
  assert.deepEqual(wrong.top, ["unknown: is wrong", "x: is wrong"]);
});
