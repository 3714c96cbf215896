//! What is sent to the service, and how far that is.
import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useEffect, useRef, useState } from "react";

import { Refused } from "../api/client.ts";
import { newKey } from "../api/key.ts";
import { whenThere } from "../api/later.ts";
import { discard, Taken } from "../api/pending.ts";
import type { Uploaded } from "../api/upload.ts";

export type Row = {
  id: number;
  file: File;
  /** Under which name it is registered. */
  name: string;
  sent: number;
  state: "waits" | "sends" | "registers" | "done" | "there" | "failed";
  error?: Error;
  /** The file that its content belongs to, from when that is pending. */
  fileId?: string;
  /** There once the content has arrived. */
  uploaded?: Uploaded;
  key: string;
};

export type Sending = {
  rows: readonly Row[];
  /** Each under the name that it shall have. */
  add: (files: { file: File; name: string; unfit?: Error }[]) => void;
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
    let { uploaded, fileId } = row;
    try {
      change(row.id, uploaded ? { state: "registers" } : { state: "sends", sent: 0 });
      // It knows formats, which the first page has no need of.
      const { register, uploadAs } = await whenThere(() => import("../api/upload.ts"));
      uploaded ??= await uploadAs(row.name, row.file, {
        begun: (id) => change(row.id, { fileId: (fileId = id) }),
        sent: (sent) => change(row.id, { sent }),
      }, stop.signal);
      if (!uploaded) {
        change(row.id, { state: "there" });
        stops.current.delete(row.id);
        return;
      }
      change(row.id, { state: "registers", uploaded });
      await register(uploaded, row.name, row.key);
      change(row.id, { state: "done" });
      void queries.invalidateQueries({ queryKey: ["files"] });
    } catch (error) {
      const failed = error instanceof Error ? error : new Error(String(error));
      const isUseless = uploaded === undefined || isRefusedForGood(failed) || (stop.signal.aborted && isRefused(failed));
      setRows((before) => before.flatMap((other): Row[] => {
        if (other.id !== row.id) return [other];
        const { uploaded: _sent, ...rest } = other;
        return stop.signal.aborted ? [] : [{ ...(isUseless ? rest : other), state: "failed", error: failed }];
      }));
      if (fileId !== undefined && isUseless) void forget(fileId);
    }
    stops.current.delete(row.id);
  };
  /** What was not registered stays in the list under no name otherwise. */
  const forget = async (fileId: string) => {
    await discard(fileId);
    await queries.invalidateQueries({ queryKey: ["files"] });
  };
  const isBusy = rows.some(({ state }) => state === "sends" || state === "registers");
  const waiting = rows.find(({ state }) => state === "waits");
  useEffect(() => {
    if (waiting && !isBusy) void run(waiting);
  }, [waiting?.id, isBusy]);
  // A name can be given anew as long as the window is there; with it nobody can.
  const refused = rows.flatMap(({ state, uploaded, error }) => (state === "failed" && uploaded && isRefused(error) ? [uploaded.fileId] : [])).join(" ");
  useEffect(() => {
    if (refused === "") return;
    const leave = ({ persisted }: PageTransitionEvent) => {
      if (!persisted) for (const fileId of refused.split(" ")) void discard(fileId);
    };
    addEventListener("pagehide", leave);
    return () => removeEventListener("pagehide", leave);
  }, [refused]);
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
    add: (files) => setRows((before) => [...before, ...files.map(({ file, name, unfit }): Row => ({
      id: next.current++, file, name, sent: 0, key: newKey(), ...(unfit ? { state: "failed", error: unfit } : { state: "waits" }),
    }))]),
    cancel: (id) => {
      const stop = stops.current.get(id);
      if (stop) return stop.abort();
      const left = rows.find((row) => row.id === id);
      setRows((before) => before.filter((row) => row.id !== id));
      // Where the answer was lost, it may be a file by now.
      if (left?.uploaded && isRefused(left.error)) void forget(left.uploaded.fileId);
    },
    rename: (id, name) => wait(id, { name, key: newKey() }),
    // What is sent anew is another registration.
    again: (id) => wait(id, rows.some((row) => row.id === id && !row.uploaded) ? { key: newKey() } : {}),
    tidy: () => setRows((before) => before.filter(({ state }) => state !== "done" && state !== "there")),
  };
}

/** Whether the name is refused under which it was to be registered: with another it is taken. */
export function isOfName(error: Error | undefined): boolean {
  return error instanceof Taken || (error instanceof Refused && error.detail.some(({ loc }) => loc[1] === "name"));
}

function isRefused(error: Error | undefined): boolean {
  return error instanceof Refused && error.status < 500;
}

/** Whether what was sent is of no use, whatever is done. */
function isRefusedForGood(error: Error): boolean {
  return error instanceof Refused && error.status === 422 && !isOfName(error);
}
