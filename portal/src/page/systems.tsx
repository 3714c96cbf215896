//! The systems of the account, newest first.
import { keepPreviousData, useQuery } from "@tanstack/react-query";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { Failure } from "../part/notice.tsx";
import { number } from "../part/number.ts";
import { Pages, usePaging } from "../part/pages.tsx";
import { nameOf } from "../part/system.ts";
import { StatusCell } from "../part/task.tsx";
import { When } from "../part/when.tsx";
import { address } from "../routes.ts";

export default function Systems() {
  const paging = usePaging();
  const systems = useQuery({
    queryKey: ["systems", paging.token],
    queryFn: () => expectData(molbox.GET("/info/systems", {
      params: { query: paging.token === undefined ? {} : { page_token: paging.token } },
    })),
    placeholderData: keepPreviousData,
  });
  return <div className="stack">
    <title>Systems · molbox</title>
    <div className="spread">
      <h1>Systems</h1>
      <a className="button main" href={address("system_new")}>New system</a>
    </div>
    {systems.error && <Failure error={systems.error} again={() => void systems.refetch()} />}
    {systems.isPending && <p className="quiet">Loading…</p>}
    {systems.data?.items.length === 0 && paging.isFirst
      ? <p className="quiet">No system has been built yet. A system is a box of molecules, solvent and a force field, which jobs simulate.</p>
      : systems.data && <>
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Status</th>
              <th scope="col" className="number wide">Atoms</th>
              <th scope="col" className="wide">Force field</th>
              <th scope="col" className="wide">Submitted</th>
              <th scope="col"><span className="unseen">What to do</span></th>
            </tr>
          </thead>
          <tbody>{systems.data.items.map((system) => <SystemRow key={system.system_id} system={system} />)}</tbody>
        </table>
        <Pages paging={paging} next={systems.data.next_page} />
      </>}
  </div>;
}

function SystemRow({ system }: { system: Schemas["SystemRecord"] }) {
  const { system_id, box_name: name, status, queue, cancelling, summary, created_at } = system;
  return <tr>
    <td>
      <a href={address("system", { system_id })}>{nameOf(system)}</a>
      {name === undefined && <div className="mono small quiet">{system_id}</div>}
    </td>
    <td><StatusCell status={status} queue={queue} isCancelling={cancelling} /></td>
    <td className="number wide">{summary && number(summary.atoms)}</td>
    <td className="wide">{summary?.force_field}</td>
    <td className="wide"><When at={created_at} /></td>
    <td className="actions">{status === "succeeded" && <a href={address("job_new", { box_id: system_id })}>Simulate</a>}</td>
  </tr>;
}
