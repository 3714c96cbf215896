//! Lists of records, as what they contain changes.
import type { QueryClient, QueryKey } from "@tanstack/react-query";

import type { AnyRecord, Noun } from "../api/task.ts";

/** The first words of the keys of lists. */
export const LISTS = { file: "files", system: "systems", job: "jobs", analysis: "analyses" } as const;
/** A list is not asked for more often: a batch that ends has an event for each of its jobs. */
const BETWEEN_MS = 1000;

export class Lists {
  readonly #queries: QueryClient;
  /** What was told last of each record: as long as it stays, the record is in the lists in which it was. */
  readonly #statuses = new Map<unknown, string>();
  readonly #stale = new Map<string, QueryKey>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asked = -Infinity;

  constructor(queries: QueryClient) {
    this.#queries = queries;
  }

  /** Puts a record into the lists that have it, and asks again for those that it may have joined or left. */
  tell(noun: Noun, record: AnyRecord): void {
    const idOf = (of: object) => (of as Record<string, unknown>)[`${noun}_id`];
    const id = idOf(record);
    const isNews = this.#statuses.get(id) !== record.status;
    this.#statuses.set(id, record.status);
    this.#queries.setQueryData([noun, id], record);
    for (const { queryKey, queryHash, state } of this.#queries.getQueryCache().findAll({ queryKey: [LISTS[noun]] })) {
      const shown = state.data as AnyRecord[] | { items: AnyRecord[] } | undefined;
      const items = Array.isArray(shown) ? shown : shown?.items;
      const before = items?.find((item) => idOf(item) === id);
      if (isNews && before?.status !== record.status) this.#stale.set(queryHash, queryKey);
      if (items === undefined || before === undefined || before.status !== record.status) continue;
      const after = items.map((item) => (item === before ? record : item));
      this.#queries.setQueryData(queryKey, Array.isArray(shown) ? after : { ...shown, items: after });
    }
    this.#askSoon();
  }

  #askSoon(): void {
    if (this.#stale.size === 0 || this.#timer !== undefined) return;
    const wait = Math.max(0, this.#asked + BETWEEN_MS - Date.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#asked = Date.now();
      const keys = [...this.#stale];
      this.#stale.clear();
      for (const [hash, queryKey] of keys) {
        // What is on its way may have been read before; to begin anew each time could take for ever.
        if (this.#queries.isFetching({ queryKey, exact: true }) > 0) this.#stale.set(hash, queryKey);
        else void this.#queries.invalidateQueries({ queryKey, exact: true });
      }
      this.#askSoon();
    }, wait);
  }
}
