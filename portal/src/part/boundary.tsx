//! What is shown in the place of a page that has broken.
import { Component, type ErrorInfo, type ReactNode } from "react";

import { Refused } from "../api/client.ts";
import { reload } from "../routes.ts";

type Props = { children: ReactNode };
type State = { error: Error | undefined };

/** Catches what its children throw, until it gets another `key`. */
export class Boundary extends Component<Props, State> {
  override state: State = { error: undefined };

  static getDerivedStateFromError(error: unknown): State {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override componentDidCatch(error: unknown, info: ErrorInfo): void {
    console.error(error, info.componentStack);
  }

  override render(): ReactNode {
    const { error } = this.state;
    return error ? <Broken error={error} /> : this.props.children;
  }
}

function Broken({ error }: { error: Error }) {
  return <section className="narrow stack" role="alert">
    <title>Broken · molbox</title>
    <h1>This page does not work</h1>
    {isOfAnotherBuild(error)
      ? <p>It is older than the service, or a part of it did not arrive. Reload it.</p>
      : <p>{error.message}</p>}
    {error instanceof Refused && error.requestId !== null
      && <p className="small quiet">Request <code>{error.requestId}</code></p>}
    <p><button className="main" onClick={reload}>Reload</button></p>
  </section>;
}

/** Whether a part of the portal is not there any more; each browser has its own words for that. */
function isOfAnotherBuild(error: Error): boolean {
  return /dynamically imported module|module script|preload/i.test(error.message);
}
