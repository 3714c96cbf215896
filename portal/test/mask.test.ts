import assert from "node:assert/strict";
import { test } from "node:test";

import { anyOf, maskOf, type Part, toggled } from "../src/viewer/mask.ts";

/** Which of 40 residues, each with the same atoms, a mask of this kind selects: read by itself. */
function selected(mask: string): Set<string> {
  const atoms = ["N", "CA", "CB", "C", "O"];
  const found = new Set<string>();
  for (const term of mask === "" ? [] : mask.split("|")) {
    const [, residues = "", names] = /^:([\d,-]+)(?:@([\w,]+))?$/.exec(term) ?? [];
    for (const range of residues.split(",")) {
      const [first = 0, last = first] = range.split("-").map(Number);
      for (let residue = first; residue <= last; residue += 1) {
        for (const atom of names?.split(",") ?? atoms) found.add(`${residue} ${atom}`);
      }
    }
  }
  return found;
}

test("whole residues, parts of residues, and both", () => {
  assert.equal(maskOf([]), "");
  assert.equal(maskOf([12, 5, 7, 6, 9, 8].map((residue) => ({ residue }))), ":5-9,12");
  assert.equal(maskOf([{ residue: 5, atom: "CB" }, { residue: 5, atom: "CA" }]), ":5@CA,CB");
  assert.equal(maskOf([{ residue: 3, atom: "CA" }, { residue: 1 }, { residue: 2, atom: "CA" }]), ":1|:2-3@CA");
});

test("a mask selects what was picked, whatever it is", () => {
  const atoms = [undefined, "N", "CA", "CB"];
  let state = 1;
  const next = (below: number) => (state = (state * 48_271) % 2_147_483_647) % below;
  for (let round = 0; round < 300; round += 1) {
    const parts = Array.from({ length: next(12) }, (): Part => {
      const atom = atoms[next(4)];
      return { residue: 1 + next(40), ...(atom === undefined ? {} : { atom }) };
    });
    const expected = new Set(parts.flatMap(({ residue, atom }) =>
      (atom === undefined ? ["N", "CA", "CB", "C", "O"] : [atom]).map((name) => `${residue} ${name}`)));
    assert.deepEqual(selected(maskOf(parts)), expected, maskOf(parts));
  }
});

test("what is picked twice is not picked", () => {
  const one: Part[] = [{ residue: 5, atom: "CA" }];
  assert.deepEqual(toggled(toggled([{ residue: 5 }], one), one), [{ residue: 5 }]);
});

test("a chain of which a part was picked is picked whole, and let go of whole", () => {
  const chain: Part[] = [{ residue: 1 }, { residue: 2 }, { residue: 3 }];
  const whole = toggled([{ residue: 2 }, { residue: 9 }], chain);
  assert.equal(maskOf(whole), ":1-3,9");
  assert.equal(maskOf(toggled(whole, chain)), ":9");
});

test("the masks of a list are told apart by the blanks between them", () => {
  assert.equal(anyOf(" "), "");
  assert.equal(anyOf(":1-20 & @CA\n"), ":1-20 & @CA");
  assert.equal(anyOf(":25@CA :124@CA"), "(:25@CA)|(:124@CA)");
  assert.equal(anyOf("(:1-2 | :7)&@CA\n!:HOH  *"), "((:1-2 | :7)&@CA)|(!:HOH)|(*)");
});
