//! The log of a job, followed to its end until somebody scrolls up.
import { useEffect, useRef, useState } from "react";

import { jobLog } from "../api/task.ts";
import { persist } from "../api/events.ts";

/** With the charts, which ask more often, a page that is only watched asks for less than one thing a second. */
const LOOK_MS = 4000;
/** Longer logs are shown from here on; the whole is in the bundle. */
const LONGEST = 500_000;

export function Log({ job_id, hasEnded }: { job_id: string; hasEnded: boolean }) {
  const text = useLog(job_id, hasEnded);
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  if (text === undefined) return <p className="quiet">Loading…</p>;
  if (text === "") return <p className="quiet">{hasEnded ? "Nothing was logged." : "Nothing has been logged yet."}</p>;
  return <pre ref={box} className="log" role="region" tabIndex={0} aria-label="Log" onScroll={(event) => {
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < 24;
  }}>{text}</pre>;
}

/** What has been read of the log; undefined until there was an answer. */
function useLog(job_id: string, hasEnded: boolean): string | undefined {
  const [text, setText] = useState<string>();
  // What has been read outlives the change from running to ended.
  const reading = useRef({ offset: 0, decoder: new TextDecoder() });
  useEffect(() => {
    const stop = new AbortController();
    const state = reading.current;
    const read = async (): Promise<"seen" | "cut"> => {
      for (;;) {
        const bytes = await jobLog(job_id, state.offset, stop.signal);
        state.offset += bytes.length;
        // A character may be cut at the offset.
        const more = state.decoder.decode(bytes, { stream: true });
        setText((before = "") => (before + more).slice(-LONGEST));
        if (hasEnded) return "seen";
        await new Promise((go) => setTimeout(go, LOOK_MS));
      }
    };
    void persist(read, () => undefined, stop.signal);
    return () => stop.abort();
  }, [job_id, hasEnded]);
  return text;
}
