//! What people call a system.
import type { Schemas } from "../api/client.ts";

/** Its name, or what it was built of. */
export function nameOf({ box_name, request: { protein, built, ligands } }: Schemas["SystemRecord"]): string {
  const source = protein ?? built?.[0] ?? ligands?.[0];
  return box_name ?? (source === undefined ? "Box of water" : `System of ${source}`);
}
