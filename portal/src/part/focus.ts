//! What has the focus when what had it is gone: its neighbour, or the heading of what it was in.
import { useEffect } from "react";

/** An element, and what it lies in: from the inside, as which child of which element. */
export type Spot = { element: HTMLElement; around: readonly { parent: Element; nth: number; tag: string }[] };

const STOPS = "a[href], button, input, select, textarea, summary, [tabindex='0']";

export function spotOf(element: HTMLElement): Spot {
  const around = [];
  for (let child: Element = element; child.parentElement && child !== document.body; child = child.parentElement) {
    around.push({ parent: child.parentElement, nth: [...child.parentElement.children].indexOf(child), tag: child.tagName });
  }
  return { element, around };
}

/** Gives the focus to what is there, or to what is nearest to where it was. */
export function focusAt({ element, around }: Spot): void {
  if (element.isConnected) {
    element.focus();
    if (document.activeElement === element) return;
  }
  for (const { parent, nth, tag } of around) {
    if (!parent.isConnected) continue;
    const { children } = parent;
    // An item of the same list is nearer than what follows the list.
    const near = [children[nth], children[nth - 1]];
    const stop = [...near.filter((it) => it?.tagName === tag), ...near].map(firstStop).find((it) => it !== undefined);
    const found = stop ?? parent.querySelector<HTMLElement>("h1, h2, h3");
    if (!found) continue;
    if (!found.matches(STOPS)) found.tabIndex = -1;
    return found.focus();
  }
  document.querySelector("main")?.focus({ preventScroll: true });
}

function firstStop(within: Element | undefined): HTMLElement | undefined {
  if (!within) return undefined;
  const all = [...(within.matches(STOPS) ? [within] : []), ...within.querySelectorAll(STOPS)];
  return all.find((it): it is HTMLElement => it instanceof HTMLElement && it.checkVisibility() && !it.matches(":disabled, [tabindex='-1']"));
}

/** Follows the focus on whole pages: whoever goes by keys is not sent back to the top by what disappears. */
export function useKeptFocus(): void {
  useEffect(() => {
    let spot: Spot | undefined;
    const isNowhere = () => document.activeElement === document.body || document.activeElement === null;
    const came = ({ target }: FocusEvent) => {
      spot = target instanceof HTMLElement ? spotOf(target) : undefined;
    };
    // Who clicks beside everything has let go of it.
    const left = () => setTimeout(() => {
      if (spot?.element.isConnected && isNowhere()) spot = undefined;
    });
    const gone = new MutationObserver(() => {
      if (!spot || spot.element.isConnected || !isNowhere()) return;
      const lost = spot;
      spot = undefined;
      // Another page, or a dialog, may be about to take it.
      setTimeout(() => isNowhere() && focusAt(lost));
    });
    document.addEventListener("focusin", came);
    document.addEventListener("focusout", left);
    gone.observe(document.body, { childList: true, subtree: true });
    return () => {
      document.removeEventListener("focusin", came);
      document.removeEventListener("focusout", left);
      gone.disconnect();
    };
  }, []);
}
