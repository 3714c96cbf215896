//! Several jobs of one request: how many of them have been submitted, and under which keys.
import { newKey } from "../api/key.ts";

export type Batch = {
  /** The request, and whether it is one of several. */
  text: string;
  /** What the keys of all begin with. */
  key: string;
  sent: number;
  of: number;
};

/** What is left of what was begun, if it is of the very same request; else a batch from its beginning. */
export function batchOf(body: unknown, of: number, begun: Batch | undefined): Batch {
  const text = JSON.stringify([body, of > 1]);
  return begun?.text === text ? { ...begun, of } : { text, key: newKey(), sent: 0, of };
}
