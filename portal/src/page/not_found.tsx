//! An address that leads nowhere, and what belongs to somebody else, which looks the same.

/** Says so; `what` is what was looked for. */
export function NotFound({ what = "page" }: { what?: string }) {
  return <section className="narrow stack">
    <title>Not found · molbox</title>
    <h1>Not found</h1>
    <p>There is no such {what}. It may have been deleted, or the address is not complete.</p>
    <p><a className="button" href=".">Back to the start</a></p>
  </section>;
}
