//! Lists of any length: one page at a time is held, as the service gives them.
import { useHere } from "./here.ts";

/** Where one is in a list: the token of the page that is shown, and those of the pages before it. */
export type Paging = {
  token: string | undefined;
  /** Whether it is the first page. */
  isFirst: boolean;
  next: (token: string) => void;
  back: () => void;
  restart: () => void;
};

export function usePaging(): Paging {
  const [tokens, set] = useHere<string[]>("pages", []);
  return {
    token: tokens.at(-1),
    isFirst: tokens.length === 0,
    next: (token) => set([...tokens, token]),
    back: () => set(tokens.slice(0, -1)),
    restart: () => set([]),
  };
}

/** Newer and older; nothing when all fits on one page. */
export function Pages({ paging, next }: { paging: Paging; next: string | null | undefined }) {
  if (paging.isFirst && !next) return null;
  return <nav className="end" aria-label="Pages of the list">
    <button disabled={paging.isFirst} onClick={paging.back}>Newer</button>
    <button disabled={!next} onClick={() => next && paging.next(next)}>Older</button>
  </nav>;
}
