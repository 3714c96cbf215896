//! What the account uses and may, for whatever depends on it.
import { queryOptions, useQuery } from "@tanstack/react-query";

import { expectData, molbox } from "../api/client.ts";

export const USAGE = queryOptions({ queryKey: ["usage"], queryFn: () => expectData(molbox.GET("/info/usage")) });

/** Whether the service has a mirror of public entries; undefined as long as it is not known. */
export function useHasEntries(): boolean | undefined {
  const { data } = useQuery(USAGE);
  return data && data.public_entries === true;
}
