//! Asks before something is deleted for good.
import { Dialog } from "./dialog.tsx";
import { Failure } from "./notice.tsx";

type Removal = { error: Error | null; isPending: boolean; mutate: () => void };

export function Deletion({ what, loss, remove, onClose }: { what: string; loss: string; remove: Removal; onClose: () => void }) {
  return <Dialog title={`Delete ${what}?`} onClose={onClose}>
    <p>{loss}</p>
    {remove.error && <Failure error={remove.error} />}
    <div className="end">
      <button onClick={onClose}>Keep it</button>
      <button className="danger" disabled={remove.isPending} onClick={() => remove.mutate()}>Delete</button>
    </div>
  </Dialog>;
}
