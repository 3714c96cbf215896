//! What the service runs on: slots, memory, disk, and what is wrong with it.
import { useQuery } from "@tanstack/react-query";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { sentence } from "../api/words.ts";
import { Failure, Notice } from "./notice.tsx";
import { bytes, counted, number } from "./number.ts";
import { Used } from "./used.tsx";
import { When } from "./when.tsx";

const REFETCH_MS = 5000;
/** Accounts whose part of the disk is shown. */
const SHOWN = 10;

export function Machine() {
  const { data: service, error, refetch } = useQuery({
    queryKey: ["service"],
    queryFn: () => expectData(molbox.GET("/admin/service")),
    refetchInterval: REFETCH_MS,
  });
  return <>
    {error && <Failure error={error} again={() => void refetch()} />}
    {service && <div className="columns">
      <Findings service={service} />
      <Room service={service} />
    </div>}
    {!service && !error && <p className="quiet">The service looks at itself…</p>}
  </>;
}

function Findings({ service }: { service: Schemas["ServiceView"] }) {
  return <section className="panel stack" aria-labelledby="findings">
    <div className="spread">
      <h2 id="findings">Service</h2>
      <span className="quiet small">{service.version}, {service.stage}; examined <When at={service.examined_at} /></span>
    </div>
    {service.held.map(({ code, message }) => <Notice key={code} kind="waiting"><p>{sentence(message)}</p></Notice>)}
    <table>
      <thead className="unseen"><tr><th scope="col">About</th><th scope="col">State</th><th scope="col">Finding</th></tr></thead>
      <tbody>{service.findings.map(({ about, state, message }) => <tr key={about}>
        <th scope="row" className="words">{about}</th>
        <td><span className={`status finding ${state}`}>{state}</span></td>
        <td className="long">{sentence(message)}</td>
      </tr>)}</tbody>
    </table>
  </section>;
}

function Room({ service: { slots, gpus, memory, disk, cpus } }: { service: Schemas["ServiceView"] }) {
  const { accounts, total_bytes: total, free_bytes: free } = disk;
  return <section className="panel stack" aria-labelledby="room">
    <h2 id="room">Room</h2>
    <Slots what={`Builds and jobs, on ${counted(cpus, "core")}`} of={slots.workers} />
    <Slots what="Analyses" of={slots.analyses} />
    {gpus.map(({ index, is_held }) => <p key={index}>GPU {index}: {is_held ? <span className="bad">does not work</span> : "works"}</p>)}
    {memory && <Used label="Memory" used={memory.total_bytes - memory.available_bytes} most={memory.total_bytes} words={bytes} />}
    <Used label="Disk" used={total - free} most={total} words={bytes} />
    {accounts.length > 0 && <>
      <h3>What accounts hold</h3>
      {accounts.slice(0, SHOWN).map(({ account, bytes: held }) =>
        <Used key={account} label={account} used={held} most={total} words={bytes} />)}
    </>}
  </section>;
}

/** How many run at a time, and how many wait for it. */
function Slots({ what, of: { running, slots, queued } }: { what: string; of: Schemas["SlotUse"] }) {
  const waiting = queued === 0 ? "" : `; ${number(queued)} ${queued === 1 ? "waits" : "wait"}`;
  return <Used label={what + waiting} used={running} most={slots} words={number} />;
}
