//! A status with its mark: never colour alone. `style.css` has the marks.

/** `isCancelling` from when it is cancelled until it has ended. */
export function Status({ status, isCancelling = false }: { status: string; isCancelling?: boolean | undefined }) {
  return <span className={`status ${status}`}>{isCancelling ? "being cancelled" : status}</span>;
}
