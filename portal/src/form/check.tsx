//! What the service makes of a request before it is submitted: what is wrong, and what it would take.
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";

import type { Schemas, Violation } from "../api/client.ts";
import { sentence } from "../api/words.ts";
import { bytes, duration, number, ROUGH, roughly } from "../part/number.ts";
import { USAGE } from "../part/usage.ts";
import { When } from "../part/when.tsx";
import type { Wrong } from "./form.ts";
import { violationsOf } from "./submit.tsx";

type Estimate = Schemas["Estimate"];
type Preview = { estimate: Estimate; warnings: readonly Schemas["Notice"][] };

/** What is accepted, and fails as soon as it begins. */
const CERTAIN = ["no_such_chain"];

const SETTLED_MS = 400;

export type Check<P> = {
  /** What was answered to this very request. */
  preview: P | undefined;
  /** Whether there is something to ask. */
  isAsked: boolean;
  violations: readonly Violation[];
  /** What should be known of it although it can be done. */
  warnings: readonly Schemas["Notice"][];
  /** Asks once more: what was missing may be there by now. */
  again: () => void;
};

/**
 * Asks when nothing has changed for a while; `body` is undefined where there is nothing to ask. What could not be read is
 * not in it: the rest is checked, and has no estimate.
 */
export function useCheck<Body, P extends Preview>(
  kind: string, body: Body | undefined, unread: readonly Violation[], send: (body: Body, signal: AbortSignal) => Promise<P>,
): Check<P> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const settled = useSettled(text);
  const { data, error, refetch } = useQuery({
    queryKey: ["check", kind, settled],
    queryFn: ({ signal }) => send(JSON.parse(settled ?? "") as Body, signal),
    enabled: settled !== undefined,
    retry: false,
    staleTime: Infinity,
    gcTime: 0,
  });
  const again = () => void refetch();
  const isAsked = text !== undefined;
  if (!isAsked || text !== settled) return { preview: undefined, isAsked, violations: unread, warnings: [], again };
  const warnings = data?.warnings ?? [];
  const fatal = warnings.filter(({ code }) => CERTAIN.includes(code));
  return {
    preview: unread.length > 0 ? undefined : data,
    isAsked,
    // What was left out may be wrong in another way for that.
    violations: [...unread, ...[...violationsOf(error), ...fatal.map(({ loc = ["body"], message: msg, code: type }) => ({ loc, msg, type }))]
      .filter(({ loc }) => !unread.some((other) => other.loc.join(".") === loc.join(".")))],
    warnings: warnings.filter((warning) => !fatal.includes(warning)),
    again,
  };
}

/** A value once it has not changed for a while. */
export function useSettled<T>(value: T): T {
  const [settled, settle] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

type EstimateProps = { check: Check<Preview>; wrong: Wrong; times?: number; until?: string };

/** `times` is how often it shall be submitted. The last estimate stays while another is worked out, so that the page does not jump. */
export function EstimatePanel({ check, wrong, times = 1, until = "the request can be read" }: EstimateProps) {
  const [last, keep] = useState<Pick<Check<Preview>, "preview" | "warnings">>();
  useEffect(() => {
    if (check.preview) keep(check);
  }, [check.preview]);
  const shown = check.preview ?? (check.isAsked ? last?.preview : undefined);
  const warnings = check.preview ? check.warnings : check.violations.length > 0 ? [] : last?.warnings;
  const left = useBytesLeft(shown?.estimate.result_bytes !== undefined);
  const rows = shown ? rowsOf(shown, left, times) : [];
  return <section className="panel stack" aria-live="polite" aria-label="Estimate">
    <h2>Estimate</h2>
    {check.violations.length > 0
      ? <p className="bad">Something has to be changed first.</p>
      : rows.length === 0
        ? <p className="quiet">Appears when {until}.</p>
        : <dl className={check.preview ? undefined : "quiet"}>
          {rows.map(([name, value]) => <div className="pair" key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
        </dl>}
    {check.isAsked && warnings?.filter((warning) => !wrong.isNoted(warning)).map(({ message }, i) => <p key={i} className="small">{sentence(message)}</p>)}
  </section>;
}

/** How many bytes the account may still hold; undefined where there is no limit, or none is asked for. */
function useBytesLeft(isAsked: boolean): number | undefined {
  const { data } = useQuery({ ...USAGE, enabled: isAsked });
  return data?.bytes.most === undefined ? undefined : Math.max(0, data.bytes.most - data.bytes.used);
}

function resultOf(size: number, left: number | undefined): ReactNode {
  const needed = `about ${bytes(size, ROUGH)}`;
  if (left === undefined) return needed;
  return <>{needed} <span className={size > left ? "bad" : "quiet"}>of {bytes(left)} that are left</span></>;
}

function rowsOf({ estimate, warnings }: Preview, left: number | undefined, times: number): [string, ReactNode][] {
  const { atoms, waters, steps, frames, memory_bytes, trajectory_bytes, result_bytes, hours, queue } = estimate;
  // Waters are told of a system that is yet to be built alone. What is built has been counted.
  const isCounted = waters === undefined && !warnings.some(({ code }) => code === "system_not_built");
  const count = (of: number) => (isCounted ? number(of) : `about ${roughly(of)}`);
  const rows: [string, ReactNode][] = [
    ["atoms", atoms === undefined ? undefined : count(atoms)],
    ["waters", waters === undefined ? undefined : count(waters)],
    ["steps", steps === undefined ? undefined : number(steps)],
    ["frames", frames === undefined ? undefined : number(frames)],
    ["memory", memory_bytes === undefined ? undefined : `about ${bytes(memory_bytes, ROUGH)}`],
    [times > 1 ? "trajectories of each" : "trajectories", trajectory_bytes === undefined ? undefined : isCounted ? bytes(trajectory_bytes) : `about ${bytes(trajectory_bytes, ROUGH)}`],
    [times > 1 ? `results of all ${times}` : "results", result_bytes === undefined ? undefined : resultOf(times * result_bytes, left)],
    [times > 1 ? "time of each" : "time", hours === undefined ? undefined : `about ${duration(hours * 3600)}`],
    ["starts", queue?.expected_start_at === undefined ? undefined : <When at={queue.expected_start_at} isAhead />],
    ["place", queue === undefined ? undefined : `${number(queue.position)} of ${number(queue.length)}`],
  ];
  return rows.filter(([, value]) => value !== undefined);
}
