//! What is picked in the viewer as a mask in the Amber syntax.

/** An atom of a residue, or without a name the whole residue; numbers as masks count them. */
export type Part = { residue: number; atom?: string };

/** Whole residues as `:5-9,12`, atoms as `:5@CA,CB`, several such terms joined by `|`. */
export function maskOf(parts: readonly Part[]): string {
  const whole = new Set(parts.filter(({ atom }) => atom === undefined).map(({ residue }) => residue));
  const atomsOf = new Map<number, Set<string>>();
  for (const { residue, atom } of parts) {
    if (atom === undefined || whole.has(residue)) continue;
    atomsOf.set(residue, (atomsOf.get(residue) ?? new Set()).add(atom));
  }
  // Residues of which the same atoms are picked share a term.
  const residuesOf = new Map<string, number[]>();
  for (const [residue, atoms] of [...atomsOf].sort(([a], [b]) => a - b)) {
    const names = [...atoms].sort().join(",");
    residuesOf.set(names, [...(residuesOf.get(names) ?? []), residue]);
  }
  return [
    ...(whole.size > 0 ? [`:${runs([...whole])}`] : []),
    ...[...residuesOf].map(([names, residues]) => `:${runs(residues)}@${names}`),
  ].join("|");
}

/** What any of several masks selects; a blank separates them where one can end and the next can start. */
export function anyOf(text: string): string {
  const masks = text.trim().split(/(?<![&|!<>,:@^(\s])\s+(?=[:@^*(!])/).filter((mask) => mask !== "");
  return eitherOf(masks);
}

/** What any of several masks selects. */
export function eitherOf(masks: readonly string[]): string {
  return masks.length > 1 ? masks.map((mask) => `(${mask})`).join("|") : masks.join("");
}

/** With parts that were not all there, or without those that were. */
export function toggled(parts: readonly Part[], picked: readonly Part[]): Part[] {
  const keyOf = ({ residue, atom }: Part) => `${residue} ${atom ?? ""}`;
  const keys = new Set(picked.map(keyOf));
  const others = parts.filter((part) => !keys.has(keyOf(part)));
  return parts.length - others.length === keys.size ? others : [...others, ...picked];
}

/** Numbers in ascending order, those that follow each other as a range. */
function runs(numbers: readonly number[]): string {
  const ranges: [first: number, last: number][] = [];
  for (const n of [...new Set(numbers)].sort((a, b) => a - b)) {
    const range = ranges.at(-1);
    if (range && n === range[1] + 1) range[1] = n;
    else ranges.push([n, n]);
  }
  return ranges.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(",");
}
