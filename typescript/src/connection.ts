// How a request travels: with the key, past transient errors and redirects, to an answer or an error.

import { ConnectionError, MolboxError, RefusedError, type Violation } from "./errors.js";

export interface ConnectionOptions {
  /** Base address, with the deployment stage: `https://md.example.org/prod`. */
  baseUrl: string;
  /** API key. A page that a browser shows should have none of a person: see docs/typescript.md. */
  apiKey: string;
  /** How often a request is repeated after a transient error. Default: 4. */
  retries?: number;
  /** How long the head of an answer is waited for, in milliseconds. Default: 60 000, of margins 420 000. */
  timeout?: number;
  /** In the place of the global `fetch`. */
  fetch?: typeof fetch;
}

export interface Call {
  method: string;
  path: string;
  query?: Record<string, unknown>;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  body?: unknown;
  signal?: AbortSignal;
}

const FIRST_DELAY_MS = 250;
/** Longer than this is not waited for: the error has it. */
const LONGEST_DELAY_MS = 60_000;
const MAX_REDIRECTS = 5;
const MAX_ERROR_CHARS = 1 << 20;
/** So much of a text that is no answer of the service is shown. */
const MAX_WORDS = 200;
const TRANSIENT = [429, 502, 503, 504];
/** What may be asked for again when nobody knows whether it was done: an idempotency key goes with it. */
const REPEATABLE = /^\/(submit\/(file|system|job|analysis)|extend|retry|cancel|check|margin)\b/;

/** Another address, to which the request is not taken: it is the same when asked again. */
class Redirected extends ConnectionError {}

export class Connection {
  readonly baseUrl: string;
  readonly retries: number;
  readonly #key: string;
  readonly #timeout: number;
  readonly #fetch: typeof fetch;

  constructor({ baseUrl, apiKey, retries = 4, timeout = 60_000, fetch: own }: ConnectionOptions) {
    const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
    if (!url || !["http:", "https:"].includes(url.protocol) || url.search || url.hash) {
      throw new MolboxError(`baseUrl: must be http(s)://host/path, got ${JSON.stringify(baseUrl)}`);
    }
    // That of a variable which is not set is none, whatever its type says.
    if (typeof apiKey !== "string" || !apiKey.trim()) throw new MolboxError("apiKey: is empty");
    this.baseUrl = baseUrl.replace(/\/+$/, "");
    this.retries = retries;
    this.#key = apiKey.trim();
    this.#timeout = timeout;
    // A browser's fetch wants to be called as a function of the page.
    this.#fetch = own ?? ((...request) => fetch(...request));
  }

  /** The answer to a call of the service, repeated after transient errors. */
  async send(call: Call): Promise<Response> {
    const headers: Record<string, string> = { accept: "application/json", ...call.headers };
    const canRepeat = call.method === "GET" || (call.method === "POST" && REPEATABLE.test(call.path));
    if (call.method === "POST" && canRepeat) headers["idempotency-key"] ??= randomKey();
    const request: RequestInit = { method: call.method, headers };
    if (call.body !== undefined) {
      headers["content-type"] = "application/json";
      request.body = JSON.stringify(call.body);
    }
    const url = `${this.baseUrl}${call.path}${queryOf(call.query)}`;
    return this.repeated(canRepeat, call.signal, () => this.#once(url, request, call));
  }

  /** An answer of another address, which gets no key. */
  async sendWithoutKey(url: string, request: RequestInit, signal?: AbortSignal): Promise<Response> {
    return this.repeated(true, signal, async () => {
      const answer = await this.#answered(url, { ...request, redirect: "manual" }, signal);
      if (answer.ok) return answer;
      throw new Redirected(`${new URL(url).origin}: redirects, which the link of an upload must not`);
    });
  }

  /** Tries again after errors that pass, as far as it may be done twice. */
  async repeated<T>(canRepeat: boolean, signal: AbortSignal | undefined, attempt: () => Promise<T>): Promise<T> {
    for (let nth = 0; ; nth += 1) {
      try {
        return await attempt();
      } catch (error) {
        const delay = delayAfter(error, nth, canRepeat);
        if (delay === undefined || nth >= this.retries || signal?.aborted) throw error;
        await sleep(delay, signal);
      }
    }
  }

  /** A request with the key, which is taken to no other origin. */
  async #once(url: string, request: RequestInit, call: Call): Promise<Response> {
    const { origin } = new URL(url);
    for (let hop = 0; hop <= MAX_REDIRECTS; hop += 1) {
      const headers = { ...(request.headers as Record<string, string>) };
      if (new URL(url).origin === origin) headers["x-api-key"] = this.#key;
      const answer = await this.#answered(url, { ...request, headers, redirect: "manual" }, call.signal);
      if (answer.type === "opaqueredirect") {
        throw new Redirected(`${this.baseUrl}: redirects, and browsers hide where to; give that address`);
      }
      const to = answer.headers.get("location");
      if (answer.status < 300 || answer.status >= 400 || answer.status === 304 || !to) return answer;
      if (request.method !== "GET") throw new Redirected(`${url}: redirects to ${to}; give that address`);
      url = new URL(to, url).href;
    }
    throw new Redirected(`${this.baseUrl}: more than ${MAX_REDIRECTS} redirects`);
  }

  async #answered(url: string, request: RequestInit, signal?: AbortSignal): Promise<Response> {
    const timer = new AbortController();
    const limit = setTimeout(() => timer.abort(new Error("no answer in time")), this.#timeout);
    // The caller's signal ends the body, too, after the timer was cleared.
    const either = signal ? AbortSignal.any([signal, timer.signal]) : timer.signal;
    let answer: Response;
    try {
      answer = await this.#fetch(url, { ...request, signal: either });
    } catch (cause) {
      signal?.throwIfAborted();
      throw new ConnectionError(`cannot reach ${new URL(url).origin}: ${innermost(cause)}`, { cause });
    } finally {
      clearTimeout(limit);
    }
    if (answer.status < 400) return answer;
    throw await refusal(answer);
  }
}

function innermost(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message : String(cause);
}

/** How long to wait before the next attempt, in milliseconds; undefined when there must be none. */
function delayAfter(error: unknown, nth: number, canRepeat: boolean): number | undefined {
  const backoff = FIRST_DELAY_MS * 2 ** nth * (0.5 + Math.random() / 2);
  if (error instanceof RefusedError && TRANSIENT.includes(error.status)) {
    // These two say that the request was not begun.
    const isUntouched = error.status === 429 || error.status === 503;
    if (!isUntouched && !canRepeat) return undefined;
    const wanted = 1000 * (error.retryAfter ?? 0);
    return wanted > LONGEST_DELAY_MS ? undefined : Math.max(backoff, wanted);
  }
  const mayPass = error instanceof ConnectionError && !(error instanceof Redirected);
  return mayPass && canRepeat ? backoff : undefined;
}

async function refusal(answer: Response): Promise<RefusedError> {
  let violations: Violation[] = [];
  let text = "";
  try {
    text = (await answer.text()).slice(0, MAX_ERROR_CHARS);
    const body = JSON.parse(text) as { detail?: unknown };
    if (Array.isArray(body.detail)) violations = body.detail as Violation[];
  } catch {
    // A proxy's page, or no body at all.
  }
  const requestId = answer.headers.get("x-request-id") ?? undefined;
  const words = violations.length > 0 ? undefined : wordsOf(text);
  return new RefusedError(answer.status, violations, requestId, secondsOf(answer.headers.get("retry-after")), words);
}

/** What a proxy on the way answers, in a sentence. */
function wordsOf(text: string): string {
  const title = /<title[^>]*>([^<]*)<\/title>/i.exec(text)?.[1]?.replace(/\s+/g, " ").trim();
  return title ? `the answer is a web page, "${title}", of a proxy on the way or of another server` : text.trim().slice(0, MAX_WORDS);
}

/** The seconds of `retry-after`, which has a number or a date. */
function secondsOf(text: string | null): number | undefined {
  if (text === null) return undefined;
  if (/^\s*\d+\s*$/.test(text)) return Number(text);
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}

function queryOf(query: Record<string, unknown> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}

/** A name that nobody else draws. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
  });
}
