//! A dialog over the page, open as long as it is rendered.
import { type ReactNode, useEffect, useId, useRef } from "react";

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return <dialog ref={dialog} aria-labelledby={id} onCancel={(event) => (event.preventDefault(), onClose())}>
    <div className="stack">
      <h2 id={id}>{title}</h2>
      {children}
    </div>
  </dialog>;
}
