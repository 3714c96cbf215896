//! The one way to the service: the client that is generated from the document.
import createClient from "openapi-fetch";

import type { components, paths } from "./molbox.d.ts";
import { untilSignedIn } from "./session.ts";
import { inWords } from "./words.ts";

export type Schemas = components["schemas"];
export type Violation = Schemas["ValidationError"];

/** The service's address, which is one level above the portal's, without a slash at its end. */
export const baseUrl = new URL("..", document.baseURI).href.replace(/\/$/, "");

/** What answers 401 because of what was typed, or to say that nobody has signed in yet. */
const WAYS_IN = `${new URL(baseUrl).pathname}/session`;

/** A request that finds the session ended waits until somebody has signed in, and is sent again. */
async function send(request: Request): Promise<Response> {
  for (;;) {
    const again = request.clone();
    const response = await fetch(request);
    if (response.status !== 401 || new URL(request.url).pathname.startsWith(WAYS_IN)) return response;
    await untilSignedIn(request.signal);
    request = again;
  }
}

/** The cookie of the session goes along by itself: it is the same origin. */
export const molbox = createClient<paths>({ baseUrl, fetch: send });

/** A refusal as an exception; TanStack Query keeps it as the `error` of a query. */
export class Refused extends Error {
  readonly status: number;
  readonly requestId: string | null;
  readonly detail: Violation[];
  /** After how many seconds another try may succeed. */
  readonly retryAfter: number | null;

  constructor(response: Response, detail: Violation[]) {
    super(detail.map(inWords).join("; ") || `the service answered ${response.status}`);
    this.status = response.status;
    this.requestId = response.headers.get("x-request-id");
    const seconds = Number(response.headers.get("retry-after") ?? NaN);
    this.retryAfter = Number.isFinite(seconds) ? seconds : null;
    this.detail = detail;
  }
}

/** What people wait for without being told; a longer wait is said, and left to them. */
const LONGEST_WAIT_S = 30;

/** After how many seconds the same request may succeed; undefined when it need not be tried. */
export function secondsBefore(failures: number, error: unknown): number | undefined {
  if (error instanceof Refused && error.status === 429) {
    return error.retryAfter !== null && error.retryAfter <= LONGEST_WAIT_S ? error.retryAfter : undefined;
  }
  return error instanceof Refused && error.status < 500 ? undefined : 2 ** failures;
}

export type Answer<T> = { data?: T; error?: unknown; response: Response };

/** What the service answered; a `Refused` when it refused. */
export async function expectData<T>(answer: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await answer;
  if (!response.ok) throw new Refused(response, detailOf(error));
  return data as T;
}

/** The violations of a refusal; none when something before the service answered. */
function detailOf(error: unknown): Violation[] {
  if (typeof error !== "object" || error === null || !("detail" in error)) return [];
  return Array.isArray(error.detail) ? (error.detail as Violation[]) : [];
}
