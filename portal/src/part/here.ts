//! What belongs to this entry of the window's history: there again after going on and back, and after a reload.
import { useState } from "react";

import { keepHere, keptHere } from "../routes.ts";

/** A state that goes with the entry, by its name on the page. */
export function useHere<T>(name: string, initial: T): [T, (next: T) => void] {
  const [value, set] = useState<T>(() => (keptHere()[name] as T | undefined) ?? initial);
  return [value, (next) => {
    set(next);
    keepHere({ ...keptHere(), [name]: next });
  }];
}
