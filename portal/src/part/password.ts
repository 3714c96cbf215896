//! What can be said of a new password before the service sees it.
import { textOf } from "./input.tsx";

/** Characters; the document's `Password` has the same. */
export const SHORTEST = 12;
export const LONGEST = 200;

/** What is wrong with a password that was typed twice, in the fields `name` and `again`, at the field where it is. */
export function unlike(data: FormData, name: string): { first?: string; again?: string } {
  const password = textOf(data, name);
  const characters = [...password].length;
  if (characters < SHORTEST) return { first: `${characters} characters are too few; it needs ${SHORTEST}.` };
  return password === textOf(data, "again") ? {} : { again: "What was typed again is something else." };
}
