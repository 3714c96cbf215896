//! Who has signed in.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { startAgain } from "../routes.ts";

export type Session = Schemas["Session"];

const SESSION = ["session"];

/** The session of this browser; an error with status 401 when there is none. */
export function useSession() {
  return useQuery({
    queryKey: SESSION,
    queryFn: () => expectData(molbox.GET("/session")),
    staleTime: Infinity,
  });
}

/** Learns whether another window of this browser has signed in somebody else, for whom this page is not. */
export function useSameAccount(account: string | undefined): () => void {
  const look = useCallback(async () => {
    if (account === undefined) return;
    const now = await molbox.GET("/session").then(({ data }) => data?.account, () => undefined);
    if (now !== undefined && now !== account) startAgain();
  }, [account]);
  useEffect(() => {
    const seen = () => void look();
    addEventListener("focus", seen);
    document.addEventListener("visibilitychange", seen);
    return () => {
      removeEventListener("focus", seen);
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
