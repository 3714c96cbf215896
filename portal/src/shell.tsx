//! What is around every page: the bar at the top, and which page is shown.
import { type ComponentType, lazy, Suspense, useEffect, useRef, useSyncExternalStore } from "react";

import { address, type Given, go, goInstead, isOurs, isStart, type Page, placeAt } from "./routes.ts";
import { NotFound } from "./page/not_found.tsx";

/** What a page gets: what its address contains. */
export type PageProps<P extends Page> = { given: Given<P>; search: URLSearchParams };

const PAGES: { [P in Page]: ComponentType<PageProps<P>> } = {
  jobs: lazy(() => import("./page/jobs.tsx")),
  job_new: lazy(() => import("./page/job_new.tsx")),
  job: lazy(() => import("./page/job.tsx")),
  analysis: lazy(() => import("./page/analysis.tsx")),
  systems: lazy(() => import("./page/systems.tsx")),
  system_new: lazy(() => import("./page/system_new.tsx")),
  system: lazy(() => import("./page/system.tsx")),
  files: lazy(() => import("./page/files.tsx")),
  margin: lazy(() => import("./page/margin.tsx")),
  account: lazy(() => import("./page/account.tsx")),
  invitation: lazy(() => import("./page/invitation.tsx")),
};

/** In the bar, from the left; the first is what the portal begins with. */
const BAR = [
  ["jobs", "Jobs"], ["systems", "Systems"], ["files", "Files"], ["margin", "Margin"], ["account", "Account"],
] as const satisfies readonly [page: Page, name: string][];

export function Shell() {
  const url = useUrl();
  const place = placeAt(url);
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useFollowedLinks();
  useEffect(() => {
    // A reader of the screen hears of the new page; what was focused before is gone with the old.
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
    scrollTo(0, 0);
  }, [url.pathname]);
  useEffect(() => {
    if (isStart(url)) goInstead(address(BAR[0][0]));
  }, [url]);
  return <>
    <header className="bar">
      <b>molbox</b>
      <nav aria-label="Pages">
        {BAR.map(([page, name]) => {
          const to = address(page);
          return <a key={page} href={to} aria-current={place?.page === page ? "page" : undefined}>{name}</a>;
        })}
      </nav>
    </header>
    <main ref={main} tabIndex={-1}>
      <Suspense fallback={<p className="quiet">Loading…</p>}>
        {place ? <Shown key={url.pathname} {...place} /> : <NotFound />}
      </Suspense>
    </main>
  </>;
}

/** A page with what its address contains; the pattern of the address has seen to the names. */
function Shown({ page, given, search }: { page: Page; given: Record<string, string>; search: URLSearchParams }) {
  const Content = PAGES[page] as ComponentType<{ given: Record<string, string>; search: URLSearchParams }>;
  return <Content given={given} search={search} />;
}

/** The address of the window, followed. */
function useUrl(): URL {
  return new URL(useSyncExternalStore(watchAddress, () => location.href));
}

function watchAddress(watcher: () => void): () => void {
  addEventListener("popstate", watcher);
  return () => removeEventListener("popstate", watcher);
}

/** Links within the portal change the page without loading the portal again. */
function useFollowedLinks(): void {
  useEffect(() => {
    const follow = (event: MouseEvent) => {
      const link = event.target instanceof Element ? event.target.closest("a") : null;
      const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
      if (!link || !isPlain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
      const url = new URL(link.href);
      if (!isOurs(url)) return;
      event.preventDefault();
      if (url.href !== location.href) go(url.href);
    };
    addEventListener("click", follow);
    return () => removeEventListener("click", follow);
  }, []);
}
