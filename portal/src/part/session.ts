//! Who has signed in.
import { useQuery, useQueryClient } from "@tanstack/react-query";

import { expectData, molbox, type Schemas } from "../api/client.ts";

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

/** Notes that somebody has signed in. */
export function useSignedIn(): (session: Session) => void {
  const queries = useQueryClient();
  return (session) => queries.setQueryData(SESSION, session);
}
