//! What changes in the account, into what the pages show: one stream for the window, of the six connections that a
//! browser has for all of them.
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { watchAccount } from "../api/task.ts";
import { Lists, LISTS } from "./lists.ts";
import { useSameAccount } from "./session.ts";

const HIDDEN_MS = 30_000;

/** Keeps all records up to date while somebody is signed in and the window can be seen; whether that fails at present. */
export function useEvents(account: string | undefined): boolean {
  const queries = useQueryClient();
  const [isCut, setCut] = useState(false);
  const hasBegun = useRef(false);
  const isSeen = useIsSeen();
  const isSame = useSameAccount(account);
  useEffect(() => {
    if (account === undefined || !isSeen) return;
    const stop = new AbortController();
    const lists = new Lists(queries);
    const begun = () => {
      setCut(false);
      if (hasBegun.current) {
        isSame();
        const keys = Object.entries(LISTS).flat();
        for (const key of keys) void queries.invalidateQueries({ queryKey: [key] });
      }
      hasBegun.current = true;
    };
    const failed = () => {
      setCut(true);
      void queries.invalidateQueries({ queryKey: ["health"] });
    };
    void watchAccount(begun, (noun, record) => lists.tell(noun, record), failed, stop.signal);
    return () => stop.abort();
  }, [account, isSeen, isSame, queries]);
  return isCut;
}

/** Whether the window can be seen, or could be until a little while ago. */
function useIsSeen(): boolean {
  const [isSeen, set] = useState(true);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => set(false), HIDDEN_MS);
      else set(true);
    };
    document.addEventListener("visibilitychange", look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
  return isSeen;
}
