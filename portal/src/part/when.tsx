//! A time as people say it, exact where one points at it.
import { useEffect, useState } from "react";

import { LANGUAGE } from "./number.ts";

const relative = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: "auto" });
const date = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "short" });
const exact = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "long" });
const DAY_S = 86_400;

/** `at` is a time of the service, RFC 3339; with `isExact` it can be read without being pointed at. */
export function When({ at, isAhead = false, isExact = false }: { at: string; isAhead?: boolean; isExact?: boolean }) {
  const now = useMinute();
  // What was expected for a moment that has passed is expected now.
  const then = new Date(isAhead ? Math.max(Date.parse(at), now) : at);
  if (isExact) return <time dateTime={at}>{exact.format(then)}<span className="quiet">{isRecent(then, now) && `, ${wordsOf(then, now)}`}</span></time>;
  return <time dateTime={at} title={exact.format(then)}>{wordsOf(then, now)}</time>;
}

/** A time to the minute, as part of a name. */
export function minuteOf(at: string): string {
  return date.format(new Date(at));
}

function isRecent(then: Date, now: number): boolean {
  return Math.abs(then.getTime() - now) < 1000 * DAY_S;
}

function wordsOf(then: Date, now: number): string {
  const seconds = Math.round((then.getTime() - now) / 1000);
  const size = Math.abs(seconds);
  if (size < 60) return relative.format(0, "minute");
  if (size < 3600) return relative.format(Math.round(seconds / 60), "minute");
  if (size < DAY_S) return relative.format(Math.round(seconds / 3600), "hour");
  return date.format(then);
}

/** The present, looked at once a minute. */
function useMinute(): number {
  const [now, set] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), 60_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
