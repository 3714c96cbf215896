//! Server-sent events over `fetch`: `EventSource` would hide the status and the body of a refusal.

export type ServerEvent = { name: string; data: string };

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** The events of a stream, however its bytes are cut. An event that was not ended is none. */
export async function* eventsIn(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  let name = "message";
  let data: string[] = [];
  for await (const line of linesIn(chunks)) {
    if (line === "") {
      if (data.length > 0) yield { name, data: data.join("\n") };
      name = "message";
      data = [];
      continue;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") name = value;
    if (field === "data") data.push(value);
  }
}

/** Lines end with a line feed, a carriage return, or both, which may come in two chunks. */
async function* linesIn(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  let endedByReturn = false;
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    if (text === "") continue;
    rest += endedByReturn && text.startsWith("\n") ? text.slice(1) : text;
    endedByReturn = text.endsWith("\r");
    const lines = rest.split(/\r\n|\r|\n/);
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

/** The chunks of an answer's body; leaving the loop ends the request. Safari's streams are not iterable. */
export async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/**
 * Calls `follow` until it says that all has been seen, again after it failed or its connection ended: after
 * half a second, then twice as long each time. `follow` calls what it is given when something has arrived.
 */
export async function persist(
  follow: (arrived: () => void) => Promise<"seen" | "cut">,
  failed: (error: unknown) => void,
  signal: AbortSignal,
): Promise<void> {
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    try {
      if ((await follow(() => (wait = FIRST_WAIT_MS))) === "seen") return;
    } catch (error) {
      if (signal.aborted) return;
      failed(error);
    }
    await pause(wait, signal);
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
