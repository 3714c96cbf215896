//! Parts of the portal that come when they are shown, also when the service is away at that moment.
import { type ComponentType, lazy, type LazyExoticComponent } from "react";

import { baseUrl } from "./client.ts";

const LOOK_AGAIN_MS = 2000;

/**
 * What `load` imports. While the service is away it is waited for. What does not come although the service is there
 * belongs to another build of the portal; that is the failure.
 */
export async function whenThere<T>(load: () => Promise<T>): Promise<T> {
  for (let isBack = false; ;) {
    try {
      return await load();
    } catch (error) {
      if (isBack) throw error;
      while (!await isThere()) await new Promise((go) => setTimeout(go, LOOK_AGAIN_MS));
      isBack = true;
      loadSheetsAgain();
    }
  }
}

/** A server before the service answers in its place, too. */
async function isThere(): Promise<boolean> {
  try {
    return ![502, 503, 504].includes((await fetch(`${baseUrl}/healthz`)).status);
  } catch {
    return false;
  }
}

/** A part is imported again; the sheet that belongs to it is not, by itself. */
function loadSheetsAgain(): void {
  for (const link of document.querySelectorAll<HTMLLinkElement>('link[rel="stylesheet"]')) {
    if (!link.sheet) link.replaceWith(link.cloneNode());
  }
}

/** A part of a page that is imported when it is shown first. */
export function later<Properties>(
  load: () => Promise<{ default: ComponentType<Properties> }>,
): LazyExoticComponent<ComponentType<Properties>> {
  return lazy(() => whenThere(load));
}
