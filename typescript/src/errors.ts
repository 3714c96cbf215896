// Errors by what a caller can do about them.

import type { components } from "./workflow.js";

/** One thing that is wrong with a request. */
export type Violation = components["schemas"]["ValidationError"];

type Ended = { status: string; error?: components["schemas"]["Failure"] };

/** Any error of this package. */
export class MolboxError extends Error {
  override name = "MolboxError";
}

/** The service answered, and did not do what it was asked for. */
export class RefusedError extends MolboxError {
  override name = "RefusedError";

  constructor(
    readonly status: number,
    /** What is wrong, each at its field. */
    readonly violations: readonly Violation[],
    /** What to give to whoever runs the service. */
    readonly requestId: string | undefined,
    /** How many seconds the service wants to have waited before the request is sent again. */
    readonly retryAfter?: number,
    /** What was answered by a proxy on the way, which knows no violations. */
    text?: string,
  ) {
    const shown = violations.map(({ loc, msg }) => {
      const place = loc.filter((step, at) => at > 0 || step !== "body").join(".");
      return place ? `${place}: ${msg}` : msg;
    });
    if (text) shown.push(text);
    super(`refused with ${status}${shown.length ? `: ${shown.join("; ")}` : ""}`);
  }
}

/** No answer came, or a part of one; `cause` has why. The request may have been carried out. */
export class ConnectionError extends MolboxError {
  override name = "ConnectionError";
}

/** The bytes are not those that were sent. */
export class DamagedError extends MolboxError {
  override name = "DamagedError";
}

/** The time of a wait is over; the task still runs. */
export class TimedOutError extends MolboxError {
  override name = "TimedOutError";
}

/** What was waited for failed or was cancelled. */
export class TaskFailedError<T extends Ended = Ended> extends MolboxError {
  override name = "TaskFailedError";

  constructor(
    readonly id: string,
    readonly record: T,
  ) {
    const reason = record.error ? `: ${record.error.message}` : "";
    super(`${id} ${record.status}${reason}`);
  }

  /** What helps, if that is known. */
  get remedy(): string | undefined {
    return this.record.error?.remedy ?? undefined;
  }
}
