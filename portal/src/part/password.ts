//! What can be said of a new password before the service sees it.

/** Characters; the document's `Password` has the same. */
export const SHORTEST = 12;
export const LONGEST = 200;

/** What is wrong with a password that was typed twice, at the field where it is. */
export function unlike(password: string, again: string): { first?: string; again?: string } | undefined {
  const characters = [...password].length;
  if (characters < SHORTEST) return { first: `${characters} characters are too few; it needs ${SHORTEST}.` };
  return password === again ? undefined : { again: "What was typed again is something else." };
}
