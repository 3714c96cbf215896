//! What belongs to this entry of the window's history: there again after going on and back, and after a reload.
import { useState } from "react";

type Kept = Readonly<Record<string, unknown>> | null;

/** A state that goes with the entry, by its name on the page. */
export function useHere<T>(name: string, initial: T): [T, (next: T) => void] {
  const [value, set] = useState<T>(() => ((history.state as Kept)?.[name] as T | undefined) ?? initial);
  return [value, (next) => {
    set(next);
    history.replaceState({ ...(history.state as Kept), [name]: next }, "");
  }];
}
