//! What people should know: a remark, or a refusal with what can be done about it.
import type { ReactNode } from "react";

import { Refused } from "../api/client.ts";
import { sentence } from "../api/words.ts";

export function Notice({ kind, children }: { kind?: "bad" | "waiting"; children: ReactNode }) {
  return <div className={`notice ${kind ?? ""}`} role={kind === "bad" ? "alert" : "status"}>{children}</div>;
}

/** A failure in words, with the request's identifier to quote where the service itself failed. */
export function Failure({ error, again }: { error: Error; again?: () => void }) {
  return <Notice kind="bad">
    <p>{wordsOf(error)}</p>
    {error instanceof Refused && error.status >= 500 && error.requestId !== null
      && <p className="small quiet">Request <code>{error.requestId}</code></p>}
    {again && <p><button onClick={again}>Try again</button></p>}
  </Notice>;
}

export function wordsOf(error: Error): string {
  // What `fetch` throws when there was no answer; browsers word it differently.
  if (error instanceof TypeError) return "The service cannot be reached. Nothing that it has accepted is lost.";
  if (error instanceof Refused && error.detail.some(({ type }) => type === "cross_origin")) {
    return "This page is older than the service, or was opened at another address. Reload it.";
  }
  return sentence(error.message);
}

/** In the place of what cannot be shown. */
export function Unreadable({ error, what, again }: { error: Error; what: string; again: () => void }) {
  if (!(error instanceof Refused) || (error.status !== 404 && error.status !== 422)) {
    return <Failure error={error} again={again} />;
  }
  return <NotFound what={what} />;
}

/** Where an address leads nowhere, or to what somebody else has, which looks the same. */
export function NotFound({ what = "page" }: { what?: string }) {
  return <Nothing title="Not found">There is no such {what}. It may have been deleted, or the address is not complete.</Nothing>;
}

/** Where an address leads to what is not for everybody. */
export function NotAllowed() {
  return <Nothing title="Not allowed">This page is for administrators. Whoever runs this service can make you one.</Nothing>;
}

function Nothing({ title, children }: { title: string; children: ReactNode }) {
  return <section className="narrow stack">
    <title>{`${title} · molbox`}</title>
    <h1>{title}</h1>
    <p>{children}</p>
    <p><a className="button" href=".">Back to the start</a></p>
  </section>;
}
