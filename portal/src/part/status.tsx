//! The state of a task or a file: a mark and the word, never colour alone.

/** `style.css` has the marks. */
export function Status({ status }: { status: string }) {
  return <span className={`status ${status}`}>{status}</span>;
}
