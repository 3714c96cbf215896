//! The chains of a structure file, of which some are kept. Their names stand in one text, as in a request and in addresses.
import type { Schemas } from "../api/client.ts";

type Chain = Schemas["ChainContents"];

/** The names in a text that separates them by commas; none stands for all chains. */
export function chainsIn(text: string | null | undefined): string[] {
  return (text ?? "").split(",").map((name) => name.trim()).filter((name) => name !== "");
}

export type Choice = {
  chain: Chain;
  isKept: boolean;
  /** What is kept once this chain is left out, or no longer. */
  toggled: string[];
  /** Whether it has to stay as it is, for nothing else would be kept. */
  isFixed: boolean;
};

/**
 * Which chains can be left out. A request keeps chains by their names, so that those without one are kept with all of
 * them. Nothing can be left out of a list that is cut: what is not in it would go, too.
 */
export function choicesOf({ chains, atoms }: Schemas["StructureContents"], kept: readonly string[]): Choice[] {
  const listed = chains.reduce((sum, chain) => sum + chain.atoms, 0);
  const names = chains.filter(isNamed).map(({ chain_id }) => chain_id);
  if (listed < atoms || chains.length < 2 || names.length === 0) return [];
  return chains.map((chain) => {
    const isKept = kept.length === 0 || (isNamed(chain) && kept.includes(chain.chain_id));
    const toggled = isNamed(chain) ? withToggled(names, kept, chain.chain_id) : isKept ? names : [];
    const isAll = toggled.length === chains.length;
    return { chain, isKept, toggled: isAll ? [] : toggled, isFixed: isKept && toggled.length === 0 };
  });
}

function isNamed({ chain_id: name }: Chain): boolean {
  return name !== "" && name === name.trim() && !name.includes(",");
}

function withToggled(names: readonly string[], kept: readonly string[], name: string): string[] {
  return names.filter((other) => (other === name) !== (kept.length === 0 || kept.includes(other)));
}

/** What people call a chain. */
export function nameOf({ chain_id: name }: Chain): string {
  return name === "" ? "without a name" : name;
}
