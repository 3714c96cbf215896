//! For administrators: who may use the service, what waits and runs, and what the machine has left.
import { Accounts } from "../part/accounts.tsx";
import { Machine } from "../part/machine.tsx";
import { NotAllowed } from "../part/notice.tsx";
import { Queue } from "../part/queue.tsx";
import { useSession } from "../part/session.ts";

export default function Admin() {
  if (useSession().data?.role !== "admin") return <NotAllowed />;
  return <div className="stack">
    <title>Admin · molbox</title>
    <h1>Admin</h1>
    <Accounts />
    <Queue />
    <Machine />
  </div>;
}
