//! The files of the account, for what refers to them.
import { useQuery } from "@tanstack/react-query";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { minuteOf } from "./when.tsx";

/** What a system is built of, and what another program has built. */
const BUILDABLE = ["structure", "protein", "topology"];

type Use = { name: string; given: Readonly<Record<string, string>> };

/** What a new system can make of a file: its field, and what people call that; nothing of a ligand alone. */
export function useOf({ type, status, name }: Schemas["FileRecord"]): Use | undefined {
  if (status !== "ready") return undefined;
  if (BUILDABLE.includes(type)) return { name: "Build", given: { protein: name } };
  return type === "system" ? { name: "Bring", given: { built: name } } : undefined;
}

/** The newest files that a form can suggest; any other may be typed. */
const SUGGESTED = 500;

export function useFiles(): { named: (...types: string[]) => string[] } {
  const { data } = useQuery({
    queryKey: ["files", "suggested"],
    queryFn: () => expectData(molbox.GET("/info/files", { params: { query: { status: "ready", limit: SUGGESTED } } })),
  });
  return {
    named: (...types) => (data?.items ?? []).filter(({ type }) => types.includes(type)).map(({ name }) => name),
  };
}

/** Whether a file was sent, or was to be, and has no name yet. */
export function isUnregistered({ status, name, file_id }: Schemas["FileRecord"]): boolean {
  return status === "pending" && name === file_id;
}

/** What a file is called; one without a name by when it was begun. */
export function titleOf(file: Schemas["FileRecord"]): string {
  return isUnregistered(file) ? `Unfinished upload of ${minuteOf(file.created_at)}` : file.name;
}

/** What there is to know of a file without a name: this window sends it no more. */
export const UNREGISTERED = "It was interrupted, or another window or program still sends it. It is removed by itself an hour after it began.";
