//! Which chains of a file are kept, by the names that a request has of them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { chainsIn, choicesOf } from "../src/part/chains.ts";

function structure(...names: string[]) {
  const chains = names.map((chain_id) => ({ chain_id, kinds: [], residues: 1, waters: 0, atoms: 10, missing_residues: 0 }));
  return {
    models: 1, atoms: 10 * names.length, hydrogens: 0, residues: names.length, alternates: 0, missing_residues: 0,
    chains, heterogens: [], missing: [], truncated: false,
  };
}

/** What is kept after each of the chains has been toggled, none where it cannot be. */
function after(of: ReturnType<typeof structure>, kept: string): (string | undefined)[] {
  return choicesOf(of, chainsIn(kept)).map(({ toggled, isFixed }) => (isFixed ? undefined : toggled.join()));
}

test("one chain is always kept, and all of them without naming one", () => {
  assert.deepEqual(after(structure("A", "B"), ""), ["B", "A"]);
  assert.deepEqual(after(structure("A", "B"), " B "), ["", undefined]);
  assert.deepEqual(after(structure("A"), ""), []);
});

test("a chain that no request can name is kept with all others", () => {
  for (const nameless of ["", "A,1"]) {
    const kept = (of: string) => choicesOf(structure(nameless, "A", "B"), chainsIn(of)).map(({ isKept }) => isKept);
    assert.deepEqual(kept(""), [true, true, true]);
    assert.deepEqual(kept("A,B"), [false, true, true]);
    assert.deepEqual(after(structure(nameless, "A", "B"), ""), ["A,B", "B", "A"]);
    assert.deepEqual(after(structure(nameless, "A", "B"), "A"), ["", undefined, "A,B"]);
    assert.deepEqual(after(structure(nameless, "B"), ""), ["B", undefined]);
    assert.deepEqual(after(structure(nameless), ""), []);
  }
});

test("no chain is left out of a list that is cut", () => {
  assert.deepEqual(after({ ...structure("A", "B"), atoms: 21 }, ""), []);
});
