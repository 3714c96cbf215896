//! Asks before something is deleted for good, or stopped.
import { Dialog } from "./dialog.tsx";
import { Failure } from "./notice.tsx";

type Removal = { error: Error | null; isPending: boolean; mutate: () => void };

export function Deletion({ what, loss, remove, onClose }: { what: string; loss: string; remove: Removal; onClose: () => void }) {
  return <Dialog title={`Delete ${what}?`} onClose={onClose}>
    <p>{loss}</p>
    {remove.error && <Failure error={remove.error} />}
    <div className="end">
      <button type="button" onClick={onClose}>Keep it</button>
      <Sure deed={remove}>Delete</Sure>
    </div>
  </Dialog>;
}

/** `rest` is what stays of it, and how it is taken up again. */
export function Cancellation({ what, rest, cancel, onClose }: { what: string; rest: string; cancel: Removal; onClose: () => void }) {
  return <Dialog title={`Cancel ${what}?`} onClose={onClose}>
    <p>{rest}</p>
    {cancel.error && <Failure error={cancel.error} />}
    <div className="end">
      <button type="button" onClick={onClose}>Let it go on</button>
      <Sure deed={cancel}>Cancel it</Sure>
    </div>
  </Dialog>;
}

/** It keeps the focus while it works: one that is disabled would lose it. */
function Sure({ deed, children }: { deed: Removal; children: string }) {
  return <button type="button" className="danger" aria-busy={deed.isPending} onClick={() => { if (!deed.isPending) deed.mutate(); }}>{children}</button>;
}
