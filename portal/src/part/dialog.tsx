//! A dialog over the page, open as long as it is rendered.
import { type ReactNode, type SyntheticEvent, useEffect, useId, useRef } from "react";

import { focusAt, spotOf } from "./focus.ts";

/** Without `onClose` only what is in it closes it. */
export function Dialog({ title, onClose, children }: { title: string; onClose?: () => void; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    const before = document.activeElement;
    const spot = before instanceof HTMLElement && before !== document.body ? spotOf(before) : undefined;
    shown?.showModal();
    // What should have the focus asked for it before the dialog could give it.
    shown?.querySelector<HTMLElement>("[data-first]")?.focus();
    return () => {
      shown?.close();
      // It has left the page already, so that the browser does not put the focus back.
      if (spot) focusAt(spot);
    };
  }, []);
  const cancel = (event: SyntheticEvent) => {
    event.preventDefault();
    onClose?.();
  };
  return <dialog ref={dialog} aria-labelledby={id} closedby={onClose ? "closerequest" : "none"} onCancel={cancel}>
    <div className="stack">
      <h2 id={id}>{title}</h2>
      {children}
    </div>
  </dialog>;
}
