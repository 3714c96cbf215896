//! Where the account has signed in, and how that is ended.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { expectData, molbox, Refused, type Schemas } from "../api/client.ts";
import { browserOf } from "./browser.ts";
import { Dialog } from "./dialog.tsx";
import { useOnce } from "./mutation.ts";
import { Failure } from "./notice.tsx";
import { When } from "./when.tsx";

type Session = Schemas["SessionSummary"];

export const SESSIONS = ["sessions"];

export function Sessions() {
  const list = useQuery({ queryKey: SESSIONS, queryFn: () => expectData(molbox.GET("/info/sessions")) });
  const [asked, ask] = useState<readonly Session[]>();
  const others = list.data?.sessions.filter(({ is_current }) => !is_current) ?? [];
  return <section className="panel stack" aria-labelledby="sessions">
    <div className="spread">
      <h2 id="sessions">Signed in</h2>
      {others.length > 1 && <button className="danger" onClick={() => ask(others)}>End all others…</button>}
    </div>
    {list.error && <Failure error={list.error} again={() => void list.refetch()} />}
    {list.data && <table>
      <thead><tr>
        <th scope="col">Browser</th>
        <th scope="col" className="wide">Address</th>
        <th scope="col" className="wide">Since</th>
        <th scope="col">Last seen</th>
        <th scope="col"><span className="unseen">What can be done</span></th>
      </tr></thead>
      <tbody>{list.data.sessions.map((session) => <tr key={session.session_id}>
        <th scope="row" title={session.browser}>{browserOf(session.browser)}</th>
        <td className="mono wide">{session.address}</td>
        <td className="wide"><When at={session.created_at} /></td>
        <td><When at={session.seen_at} /></td>
        <td className="actions">{session.is_current ? <span className="quiet">this browser</span>
          : <button className="danger" aria-label={`End the session of ${browserOf(session.browser)}`}
              onClick={() => ask([session])}>End…</button>}</td>
      </tr>)}</tbody>
    </table>}
    {asked && <End sessions={asked} onClose={() => ask(undefined)} />}
  </section>;
}

function End({ sessions, onClose }: { sessions: readonly Session[]; onClose: () => void }) {
  const queries = useQueryClient();
  const end = useOnce({
    mutationFn: () => Promise.all(sessions.map(({ session_id }) => ended(session_id))),
    onSuccess: onClose,
    onSettled: () => queries.invalidateQueries({ queryKey: SESSIONS }),
  });
  const [first] = sessions;
  const title = sessions.length === 1 && first ? `End the session of ${browserOf(first.browser)}?`
    : `End ${sessions.length} sessions?`;
  return <Dialog title={title} onClose={onClose}>
    <p>Whoever sits there has to sign in again. What was submitted goes on.</p>
    {end.error && <Failure error={end.error} />}
    <div className="end">
      <button onClick={onClose}>Close</button>
      <button className="danger" aria-busy={end.isPending} onClick={() => { if (!end.isPending) end.mutate(); }}>
        {sessions.length === 1 ? "End it" : "End them"}
      </button>
    </div>
  </Dialog>;
}

/** Ends a session; one that has ended meanwhile is as good. */
async function ended(session_id: string): Promise<void> {
  try {
    await expectData(molbox.DELETE("/info/session/{session_id}", { params: { path: { session_id } } }));
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 404) throw error;
  }
}
