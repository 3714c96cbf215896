//! What waits and runs, of all accounts, for administrators: whose it is and how far, not what it is.
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { Dialog } from "./dialog.tsx";
import { useOnce } from "./mutation.ts";
import { Failure } from "./notice.tsx";
import { duration, percent } from "./number.ts";
import { Pages, usePaging } from "./pages.tsx";
import { StatusCell } from "./task.tsx";
import { When } from "./when.tsx";

type Entry = Schemas["QueueEntry"];

export const QUEUE = ["queue"];
const REFETCH_MS = 5000;
/** While something ends that was cancelled. */
const SOON_MS = 1000;

export function Queue() {
  const paging = usePaging();
  const queue = useQuery({
    queryKey: [...QUEUE, paging.token],
    queryFn: () => expectData(molbox.GET("/admin/queue", {
      params: { query: paging.token === undefined ? {} : { page_token: paging.token } },
    })),
    refetchInterval: ({ state: { data } }) => (data?.items.some(({ is_cancelled }) => is_cancelled) ? SOON_MS : REFETCH_MS),
    placeholderData: keepPreviousData,
  });
  const [asked, ask] = useState<Entry>();
  return <section className="panel stack" aria-labelledby="queue">
    <h2 id="queue">Queue</h2>
    {queue.error && <Failure error={queue.error} again={() => void queue.refetch()} />}
    {queue.data?.items.length === 0 && paging.isFirst && <p className="quiet">Nothing waits or runs.</p>}
    {queue.data && queue.data.items.length > 0 && <table>
      <thead><tr>
        <th scope="col">Account</th>
        <th scope="col" className="wide">Task</th>
        <th scope="col">Status</th>
        <th scope="col" className="wide">Submitted</th>
        <th scope="col"><span className="unseen">What can be done</span></th>
      </tr></thead>
      <tbody>{queue.data.items.map((entry) => <tr key={entry.task_id}>
        <th scope="row">{entry.account}<div className="small only-narrow quiet">{entry.kind}, <When at={entry.created_at} /></div></th>
        <td className="wide">{entry.kind} <code>{entry.task_id}</code></td>
        <td><StatusCell status={entry.status} queue={entry.queue} isCancelling={entry.is_cancelled} />
          {" "}<span className="small quiet">{progressOf(entry)}</span></td>
        <td className="wide"><When at={entry.created_at} /></td>
        <td className="actions">{!entry.is_cancelled
          && <button className="danger" aria-label={`Cancel ${entry.task_id}`} onClick={() => ask(entry)}>Cancel…</button>}</td>
      </tr>)}</tbody>
    </table>}
    <Pages paging={paging} next={queue.data?.next_page} />
    {asked && <Cancel entry={asked} onClose={() => ask(undefined)} />}
  </section>;
}

function progressOf({ progress, is_cancelled }: Entry): ReactNode {
  if (!progress || is_cancelled) return null;
  const { fraction, eta_seconds: left } = progress;
  return <>{percent(fraction)}{left !== undefined && left > 0 && `, ${duration(left)} left`}</>;
}

function Cancel({ entry: { task_id, account, kind }, onClose }: { entry: Entry; onClose: () => void }) {
  const queries = useQueryClient();
  const cancel = useOnce({
    mutationFn: () => expectData(molbox.POST("/admin/queue/{task_id}/cancel", { params: { path: { task_id } } })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: QUEUE });
      onClose();
    },
  });
  return <Dialog title={`Cancel a ${kind} of ${account}?`} onClose={onClose}>
    <p><code>{task_id}</code> ends, and keeps what it has come to. {account} can submit it once more.</p>
    {cancel.error && <Failure error={cancel.error} />}
    <div className="end">
      <button onClick={onClose}>Let it go on</button>
      <button className="danger" aria-busy={cancel.isPending} onClick={() => { if (!cancel.isPending) cancel.mutate(); }}>Cancel it</button>
    </div>
  </Dialog>;
}
