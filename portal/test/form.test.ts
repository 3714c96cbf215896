import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { fields } from "../src/api/fields.ts";
import { inWords, sentence } from "../src/api/words.ts";
import { inTypedLines, masksIn, notNumber, pointedAt, read, typedOf, Wrong } from "../src/form/form.ts";

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

test("the place of what is wrong is found in what was typed, with its blanks and empty lines", () => {
  assert.deepEqual(pointedAt("  @CA&", false, '"@CA&": column 5: expected a selector'), { before: "@CA&", at: "\u00a0", after: "" });
  const typed = "\n:1-5\n\n  :6@@";
  const wrong = 'line 2: ":6@@": column 4: expected a name';
  assert.deepEqual(read(fields.AnalysisRequest, { rmsf_masks: typed }).body, { rmsf_masks: [":1-5", ":6@@"] });
  assert.deepEqual(pointedAt(typed, true, wrong), { before: ":6@", at: "@", after: "" });
  assert.equal(inTypedLines(typed, `line 1: is long; ${wrong}`), 'line 2: is long; line 4: ":6@@": column 4: expected a name');
});

test("of a line of several masks it is told which is wrong, and where in it", () => {
  const loc = ["body", "rmsd_masks", 1, 1];
  const wrong = new Wrong([{ loc, msg: "column 6: expected a name", type: "mask" }], new Set(["rmsd_masks"])).at("rmsd_masks");
  assert.equal(wrong, "line 2, mask 2: column 6: expected a name");
  const typed = "@CA\n\n@CA  :1-5@@";
  assert.equal(inTypedLines(typed, wrong), "line 3, mask 2: column 6: expected a name");
  assert.deepEqual(pointedAt(typed, true, wrong), { before: ":1-5@", at: "@", after: "" });
});

test("masks of a line are told apart by blanks, but not within one", () => {
  for (const [line, masks] of Object.entries({
    "@CA": ["@CA"],
    ":1-3 & @CA": [":1-3 & @CA"],
    "@CA  :1-3&@CA\t!:HOH": ["@CA", ":1-3&@CA", "!:HOH"],
    "! :HOH (:1 | :2) & @CA :5 , 6": ["! :HOH", "(:1 | :2) & @CA", ":5 , 6"],
    ":1 <:4.0 (@N @C)": [":1 <:4.0", "(@N @C)"],
    "@CA &": ["@CA &"],
  })) assert.deepEqual(masksIn(line), masks);
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

test("a warning stands at its control as well, and is no violation", () => {
  const warning = { code: "unlikely", message: "is unlikely", loc: ["body", "ligand_rotations", 1] };
  const wrong = new Wrong([], new Set(["ligand_rotations.1"]), [warning]);
  assert.equal(wrong.notedAt("ligand_rotations", 1), "is unlikely");
  assert.equal(wrong.at("ligand_rotations", 1), undefined);
  assert.deepEqual(wrong.top, []);
});

test("what is no number is told with what was meant, and nothing is guessed", () => {
  assert.match(notNumber("1,5"), /a point, 1\.5$/);
  assert.match(notNumber("1,500"), /write 1500, or 1\.500 if the comma/);
  assert.match(notNumber("1,000,000"), /without commas and blanks, 1000000$/);
  assert.match(notNumber("1 000", "whole number"), /without commas and blanks, 1000$/);
  assert.equal(notNumber("9".repeat(500), "whole number"), `${"9".repeat(40)}… is too large`);
  assert.equal(notNumber("1e999"), "1e999 is too large");
  assert.equal(notNumber("ten"), "ten is not a number");
});

test("a range without an end is told without one, and a sentence begins as one", () => {
  const range = { loc: [], msg: "must be from 1 to 9007199254740992, is 0", type: "value_error" };
  assert.equal(inWords(range), "must be at least 1, is 0");
  assert.equal(sentence("the account has 3 tasks"), "The account has 3 tasks");
  assert.equal(sentence("sound, 1 account"), "Sound, 1 account");
  assert.equal(sentence("after 20 steps net forces remain"), "After 20 steps net forces remain");
  for (const name of ["box_id: is wrong", "pH 99 is too high", "protein: is missing", "file.pdb has no atom", "broken cannot be taken as pdb", "molboxd is not there"]) {
    assert.equal(sentence(name), name);
  }
});

test("a pattern is put into words", () => {
  const of = (pattern: string) => inWords({ loc: [], msg: `String should match pattern '${pattern}'`, type: "string_pattern_mismatch", ctx: { pattern } });
  assert.match(of("^box_[0-9a-z]{20}$"), /^must be box_ with 20 small/);
  assert.match(of("^(job|ana)_[0-9a-z]{20}$"), /^must be job_ or ana_ with/);
  const document = JSON.parse(readFileSync(new URL("../../openapi/openapi.json", import.meta.url), "utf8")) as object;
  for (const [, pattern = ""] of JSON.stringify(document).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)) {
    assert.doesNotMatch(of(JSON.parse(pattern) as string), /[$^\[]|pattern/, pattern);
  }
});
