//! That the service answers again.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

/** Calls `back` when the service answers again after it did not: what failed meanwhile is no news any more. */
export function useBack(back: () => void): void {
  // The shell asks; this only looks at what came of it.
  const isGone = useQuery({ queryKey: ["health"], enabled: false }).error !== null;
  const was = useRef({ isGone, back });
  was.current.back = back;
  useEffect(() => {
    if (was.current.isGone && !isGone) was.current.back();
    was.current.isGone = isGone;
  }, [isGone]);
}
