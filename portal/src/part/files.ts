//! The files of the account, for what refers to them.
import { useQuery } from "@tanstack/react-query";

import { expectData, molbox } from "../api/client.ts";

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
