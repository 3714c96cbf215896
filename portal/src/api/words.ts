//! Refusals of the service in words for people.
import type { components } from "./molbox.d.ts";

type Violation = components["schemas"]["ValidationError"];

/** What is wrong: of what has to be written in a certain way, how, and not the pattern of it. */
export function inWords({ type, msg, ctx }: Violation): string {
  if (type !== "string_pattern_mismatch") return msg.replace(/from (\d+) to 9007199254740992\b/, "at least $1");
  const pattern = String(ctx?.["pattern"]);
  const [, nouns, length] = /^\^\(?([a-z|]+)\)?_\[0-9a-z\]\{(\d+)\}\$$/.exec(pattern) ?? [];
  if (nouns !== undefined) return `must be ${nouns.replaceAll("|", "_ or ")}_ with ${length} small letters or digits after it`;
  if (pattern.includes("pdb_")) return "must be an entry such as 1L2Y or pdb_00001l2y";
  return "has characters that are not allowed here, or lacks some that are needed";
}

/** What messages begin with that is no name: names stay as they were given. */
const WORDS = ["a", "after", "an", "another", "at", "both", "built", "cannot", "each", "every", "expected", "field", "give", "has", "in", "is", "it", "must",
  "needed", "no", "none", "not", "of", "one", "only", "selects", "some", "sound", "the", "there", "they", "this", "too", "what", "without"];

/** A message that begins a sentence does so with a capital. */
export function sentence(message: string): string {
  const [first = ""] = message.split(/[ ,;]/, 1);
  return WORDS.includes(first) ? message.charAt(0).toUpperCase() + message.slice(1) : message;
}
