//! Refusals of the service in words for people.
import type { components } from "./molbox.d.ts";

type Violation = components["schemas"]["ValidationError"];

/** What is wrong: of what has to be written in a certain way, how, and not the pattern of it. */
export function inWords({ type, msg, ctx }: Violation): string {
  if (type !== "string_pattern_mismatch") return msg;
  const pattern = String(ctx?.["pattern"]);
  const [, nouns, length] = /^\^\(?([a-z|]+)\)?_\[0-9a-z\]\{(\d+)\}\$$/.exec(pattern) ?? [];
  if (nouns !== undefined) return `must be ${nouns.replaceAll("|", "_ or ")}_ with ${length} small letters or digits after it`;
  if (pattern.includes("pdb_")) return "must be an entry such as 1L2Y or pdb_00001l2y";
  return "has characters that are not allowed here, or lacks some that are needed";
}
