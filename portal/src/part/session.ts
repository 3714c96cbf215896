//! Who has signed in.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect } from "react";

import { baseUrl, expectData, molbox, type Schemas } from "../api/client.ts";
import { signedIn, signedOut, untilSignedIn } from "../api/session.ts";
import { startAgain } from "../routes.ts";

export type Session = Schemas["Session"];

const SESSION = ["session"];
/** Between the windows of this browser: that somebody has signed out in one of them. */
const windows = new BroadcastChannel(`molbox ${baseUrl}`);

/** Nothing of what was shown may be left, in other windows neither. */
export function leave(): void {
  windows.postMessage("signed out");
  startAgain();
}

/** The session of this browser; an error with status 401 when there is none. */
export function useSession() {
  return useQuery({
    queryKey: SESSION,
    queryFn: () => expectData(molbox.GET("/session")),
    staleTime: Infinity,
  });
}

/** Learns whether the session has ended, and whether another window of this browser has signed in somebody else, for whom this page is not. */
export function useSameAccount(account: string | undefined): () => void {
  const look = useCallback(async () => {
    if (account === undefined) return;
    const { data, response } = await molbox.GET("/session").catch(() => ({ data: undefined, response: undefined }));
    if (data && data.account !== account) return startAgain();
    if (data && signedOut.read()) return signedIn();
    // Asks to sign in again, as what is asked for next would.
    if (response?.status === 401 && !signedOut.read()) void untilSignedIn(new AbortController().signal);
  }, [account]);
  useEffect(() => {
    const seen = () => void look();
    addEventListener("focus", seen);
    windows.addEventListener("message", startAgain);
    document.addEventListener("visibilitychange", seen);
    return () => {
      removeEventListener("focus", seen);
      windows.removeEventListener("message", startAgain);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [look]);
  return look;
}

/** Notes that somebody has signed in. */
export function useSignedIn(): (session: Session) => void {
  const queries = useQueryClient();
  return (session) => queries.setQueryData(SESSION, session);
}
