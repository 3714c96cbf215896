//! What is sent to the service, and how far that is.
import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useEffect, useRef, useState } from "react";

import { Refused } from "../api/client.ts";
import { newKey } from "../api/key.ts";
import type { Uploaded } from "../api/upload.ts";

export type Row = {
  id: number;
  file: File;
  /** Under which name it is registered. */
  name: string;
  sent: number;
  state: "waits" | "sends" | "registers" | "done" | "failed";
  error?: Error;
  /** There once the content has arrived. */
  uploaded?: Uploaded;
  key: string;
};

export type Sending = {
  rows: readonly Row[];
  /** Each under the name that it shall have. */
  add: (files: { file: File; name: string }[]) => void;
  cancel: (id: number) => void;
  /** Registers what has arrived under another name. */
  rename: (id: number, name: string) => void;
  again: (id: number) => void;
  /** Forgets what has been sent. */
  tidy: () => void;
};

/** The uploads of the window: they go on whichever page is shown. */
export const Uploads = createContext<Sending | undefined>(undefined);

export function KeepUploads({ children }: { children: ReactNode }) {
  return <Uploads value={useSending()}>{children}</Uploads>;
}

/** Uploads one after another, as long as the window is open. */
function useSending(): Sending {
  const queries = useQueryClient();
  const [rows, setRows] = useState<Row[]>([]);
  const next = useRef(0);
  const stops = useRef(new Map<number, AbortController>());
  const change = (id: number, to: Partial<Row>) =>
    setRows((before) => before.map((row) => (row.id === id ? { ...row, ...to } : row)));

  const run = async (row: Row) => {
    const stop = new AbortController();
    stops.current.set(row.id, stop);
    try {
      let { uploaded } = row;
      change(row.id, uploaded ? { state: "registers" } : { state: "sends", sent: 0 });
      // It knows formats, which the first page has no need of.
      const { register, upload } = await import("../api/upload.ts");
      uploaded ??= await upload(row.file, (sent) => change(row.id, { sent }), stop.signal);
      change(row.id, { state: "registers", uploaded });
      await register(uploaded, row.name, row.key);
      change(row.id, { state: "done" });
      void queries.invalidateQueries({ queryKey: ["files"] });
    } catch (error) {
      if (stop.signal.aborted) setRows((before) => before.filter(({ id }) => id !== row.id));
      else change(row.id, { state: "failed", error: error instanceof Error ? error : new Error(String(error)) });
    }
    stops.current.delete(row.id);
  };
  const isBusy = rows.some(({ state }) => state === "sends" || state === "registers");
  const waiting = rows.find(({ state }) => state === "waits");
  useEffect(() => {
    if (waiting && !isBusy) void run(waiting);
  }, [waiting?.id, isBusy]);
  const isOpen = isBusy || waiting !== undefined;
  useEffect(() => {
    if (!isOpen) return;
    // The browser asks whether the window shall be left.
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [isOpen]);

  const wait = (id: number, to: Partial<Row>) =>
    setRows((before) => before.map((row) => {
      if (row.id !== id) return row;
      const { error: _gone, ...rest } = row;
      return { ...rest, ...to, state: "waits" };
    }));
  return {
    rows,
    add: (files) => setRows((before) => [...before, ...files.map(({ file, name }): Row => ({
      id: next.current++, file, name, sent: 0, state: "waits", key: newKey(),
    }))]),
    cancel: (id) => {
      const stop = stops.current.get(id);
      if (stop) return stop.abort();
      const left = rows.find((row) => row.id === id);
      setRows((before) => before.filter((row) => row.id !== id));
      if (left) void discardRefused(left).then(() => queries.invalidateQueries({ queryKey: ["files"] }));
    },
    rename: (id, name) => wait(id, { name, key: newKey() }),
    again: (id) => wait(id, {}),
    tidy: () => setRows((before) => before.filter(({ state }) => state !== "done")),
  };
}

/** What was sent and refused stays under no name in the list. Where the answer was lost, it may be a file by now. */
async function discardRefused({ uploaded, error }: Row): Promise<void> {
  if (!uploaded || !(error instanceof Refused) || error.status >= 500) return;
  const { discard } = await import("../api/upload.ts");
  await discard(uploaded.fileId);
}
