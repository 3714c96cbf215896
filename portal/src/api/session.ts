//! Whether the browser has been signed out in the middle of something, and who waits for that to end.

type Waiting = () => void;

let waiting: Waiting[] = [];
const watchers = new Set<() => void>();

function changed(next: Waiting[]): void {
  waiting = next;
  for (const watcher of watchers) watcher();
}

/** Resolves when somebody has signed in again; rejects when the request is given up before. */
export function untilSignedIn(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const go = () => {
      signal.removeEventListener("abort", stop);
      resolve();
    };
    const stop = () => {
      changed(waiting.filter((other) => other !== go));
      reject(signal.reason);
    };
    signal.addEventListener("abort", stop, { once: true });
    changed([...waiting, go]);
  });
}

/** Lets all go on that wait. */
export function signedIn(): void {
  const released = waiting;
  changed([]);
  for (const go of released) go();
}

export const signedOut = {
  subscribe(watcher: () => void): () => void {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  },
  /** Whether a request waits for somebody to sign in. */
  read: (): boolean => waiting.length > 0,
};
