//! That a submission waits, what for, and the way out.
import type { ReactNode } from "react";

import type { Submission } from "./submit.tsx";

/** `children` are told while it does not wait. */
export function Waits({ submission: { waits, stop }, children }: { submission: Submission; children?: ReactNode }) {
  return <div className="row waits">
    <p role="status" className="quiet">{waits || children}</p>
    {waits !== "" && <button type="button" onClick={stop}>Stop waiting</button>}
  </div>;
}
