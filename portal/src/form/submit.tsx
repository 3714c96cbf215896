//! A submission: sent once however often it is tried, and never lost by an answer that did not come.
import { useEffect, useRef, useState } from "react";

import { Refused, type Violation } from "../api/client.ts";
import { newKey } from "../api/key.ts";
import { useSession } from "../part/session.ts";

const LONGEST_WAIT_S = 120;

export type Submission = {
  isBusy: boolean;
  /** What the service waits for before it is asked again; empty when it is not. */
  waits: string;
  /** The last refusal, whatever it was for. */
  error: Error | undefined;
  /** What is wrong with the body as it is: nothing of what was refused when it was another. */
  violations: readonly Violation[];
  /** A refusal for something else than the body. */
  failure: Error | undefined;
  submit: () => Promise<void>;
  /** Sends it no more: what it waits for becomes the failure. */
  stop: () => void;
};

/**
 * Sends `body` by `send`. A submission keeps its key until there is an answer, so that a second try of the same
 * body makes nothing twice; another body is another submission. What is refused as too early is sent again.
 */
export function useSubmission<Body, Answer>(
  body: Body,
  send: (body: Body, key: string) => Promise<Answer>,
  done: (answer: Answer) => void,
): Submission {
  const [isBusy, setBusy] = useState(false);
  const [waits, setWaits] = useState("");
  const [refused, refuse] = useState<{ error: Error; text: string }>();
  const kept = useRef<{ text: string; key: string }>(undefined);
  const isGone = useRef(false);
  // Two clicks may come before the page is drawn once.
  const isUnderWay = useRef(false);
  const stopping = useRef<AbortController>(undefined);
  useEffect(() => {
    isGone.current = false;
    return () => void (isGone.current = true);
  }, []);

  async function submit(): Promise<void> {
    if (isUnderWay.current) return;
    isUnderWay.current = true;
    stopping.current = new AbortController();
    const text = JSON.stringify(body);
    if (kept.current?.text !== text) kept.current = { text, key: newKey() };
    setBusy(true);
    refuse(undefined);
    try {
      const answer = await sendInTurn(() => send(body, kept.current?.key ?? ""), setWaits, isGone, stopping.current.signal);
      kept.current = undefined;
      if (!isGone.current) done(answer);
    } catch (error) {
      refuse({ error: error instanceof Error ? error : new Error(String(error)), text });
    }
    isUnderWay.current = false;
    setBusy(false);
    setWaits("");
  }

  const about = violationsOf(refused?.error);
  const isOfThis = about.length > 0 && refused?.text === JSON.stringify(body);
  return {
    isBusy, waits, error: refused?.error, violations: isOfThis ? about : [], failure: about.length > 0 ? undefined : refused?.error, submit,
    stop: () => stopping.current?.abort(),
  };
}

/** What is wrong with the body; none when it was refused for something else. */
export function violationsOf(error: unknown): readonly Violation[] {
  const isAboutBody = error instanceof Refused && error.detail.some(({ loc }) => loc[0] === "body");
  return isAboutBody ? error.detail : [];
}

/** Repeats what was refused with 429, after the seconds that the service names. */
async function sendInTurn<T>(
  send: () => Promise<T>, tell: (text: string) => void, isGone: { current: boolean }, stopped: AbortSignal,
): Promise<T> {
  for (;;) {
    try {
      return await send();
    } catch (error) {
      const seconds = error instanceof Refused && error.status === 429 ? error.retryAfter : null;
      if (!(error instanceof Refused) || seconds === null || seconds > LONGEST_WAIT_S || isGone.current) throw error;
      for (let left = Math.max(1, Math.ceil(seconds)); left > 0; left -= 1) {
        tell(`The service asks to wait: ${error.message}. It is sent again in ${left} s.`);
        await second(stopped);
        if (stopped.aborted) throw error;
      }
      tell("");
    }
  }
}

/** A second, or less if it is not waited for any longer. */
function second(stopped: AbortSignal): Promise<void> {
  return new Promise((go) => {
    const end = () => {
      clearTimeout(timer);
      stopped.removeEventListener("abort", end);
      go();
    };
    const timer = setTimeout(end, 1000);
    stopped.addEventListener("abort", end);
  });
}

/** Leads to the first control that is wrong, or to what is wrong with none of them. */
export function focusOnWrong(): void {
  const wrong = document.querySelector<HTMLElement>("main [aria-invalid='true']") ?? document.querySelector<HTMLElement>("main form .notice.bad");
  if (wrong?.matches(".notice")) wrong.tabIndex = -1;
  wrong?.focus();
}

/** The same when there is news of it. */
export function useFocusOnWrong(news: unknown): void {
  useEffect(() => {
    if (news && document.querySelector("main [aria-invalid='true']")) focusOnWrong();
  }, [news]);
}

/** A state that outlives the page and its reload, but not the window; it is the account's own. */
export function useKept<T>(of: string, initial: () => T): [T, (next: T) => void, () => void] {
  const name = `${useSession().data?.account ?? ""} ${of}`;
  const [value, set] = useState<T>(() => kept<T>(name) ?? initial());
  const keep = (next: T) => {
    set(next);
    sessionStorage.setItem(name, JSON.stringify(next));
  };
  return [value, keep, () => sessionStorage.removeItem(name)];
}

function kept<T>(name: string): T | undefined {
  const text = sessionStorage.getItem(name);
  return text === null ? undefined : (JSON.parse(text) as T);
}
