//! What the pages of systems, jobs and analyses show alike: how far it is, why it failed, what was noticed.
import type { Schemas } from "../api/client.ts";
import { sentence } from "../api/words.ts";
import { Notice } from "./notice.tsx";
import { duration, number } from "./number.ts";
import { Status } from "./status.tsx";
import { When } from "./when.tsx";

export function ProgressPanel({ progress }: { progress: Schemas["Progress"] }) {
  const { fraction, stage, step, steps, ns_per_day: speed, eta_seconds: left } = progress;
  const place = [
    stage?.replaceAll("_", " "),
    step !== undefined && steps !== undefined && `step ${number(step)} of ${number(steps)}`,
  ].filter(Boolean).join(" · ");
  const pace = [
    speed !== undefined && `${number(speed, 3)} ns/day`,
    left !== undefined && left > 0 && `${duration(left)} left`,
  ].filter(Boolean).join(" · ");
  return <div className="panel">
    <div className="spread"><span>{place}</span><span className="quiet">{pace}</span></div>
    <progress aria-label="Progress" value={fraction} />
  </div>;
}

export function HoldNotice({ held }: { held: Schemas["Hold"] }) {
  return <Notice kind="waiting"><p><strong>It waits:</strong> {held.message}</p></Notice>;
}

/** Where it waits, and when it is expected to start. */
export function QueueNotice({ queue }: { queue: Schemas["QueuePlace"] }) {
  return <Notice kind="waiting">
    <p><strong>It waits:</strong> <Place queue={queue} /> of {number(queue.length)}
      {queue.expected_start_at !== undefined && <>, expected to start <When at={queue.expected_start_at} isAhead /></>}.</p>
  </Notice>;
}

function Place({ queue: { position } }: { queue: Schemas["QueuePlace"] }) {
  return <>place {number(position)}</>;
}

type WaitsProps = { status: string; queue?: Schemas["QueuePlace"] | undefined; isCancelling?: boolean | undefined };

/** The status in a table; of what waits, where and until when. */
export function StatusCell({ status, queue, isCancelling }: WaitsProps) {
  return <>
    <Status status={status} isCancelling={isCancelling} />
    {queue && !isCancelling && <span className="small quiet"> <Place queue={queue} />
      {queue.expected_start_at !== undefined && <>, <When at={queue.expected_start_at} isAhead /></>}</span>}
  </>;
}

/** Why it failed, what helps, and the end of its log. */
export function FailurePanel({ failure }: { failure: Schemas["Failure"] }) {
  return <section className="panel stack" role="alert">
    <h2 className="bad">{sentence(failure.message)}</h2>
    {failure.remedy !== undefined && <p>What helps: {failure.remedy}.</p>}
    <p className="small quiet">
      <code>{failure.code}</code>
      {failure.stage !== undefined && <> in {failure.stage.replaceAll("_", " ")}</>}
      {failure.step !== undefined && <> after step {number(failure.step)}</>}
    </p>
    {failure.log && failure.log.length > 0 && <details>
      <summary>Last lines of its log</summary>
      <pre className="log" role="region" tabIndex={0} aria-label="Last lines of the log">{failure.log.join("\n")}</pre>
    </details>}
  </section>;
}

type WarningsProps = {
  warnings: readonly Schemas["Notice"][];
  /** Shows the residues that a warning is about. */
  onResidues?: (residues: readonly Schemas["ResidueName"][]) => void;
};

export function Warnings({ warnings, onResidues }: WarningsProps) {
  if (warnings.length === 0) return null;
  return <section className="panel stack">
    <h2>Warnings</h2>
    <ul className="plain-list">{warnings.map(({ code, message, loc, residues }, i) => <li key={i}>
      {sentence(message)} <code className="quiet">{loc ? loc.slice(1).join(".") : code}</code>
      {onResidues && residues && residues.length > 0
        && <> <button type="button" className="small" aria-label={`Show: ${message}`} onClick={() => onResidues(residues)}>Show</button></>}
    </li>)}</ul>
  </section>;
}

export function Citations({ citations }: { citations: readonly string[] | undefined }) {
  if (!citations || citations.length === 0) return null;
  return <details className="panel told">
    <summary>What to cite</summary>
    <ul className="plain-list">{citations.map((citation) => <li key={citation}>{citation}</li>)}</ul>
  </details>;
}
