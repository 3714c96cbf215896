//! What is around every page: the bar at the top, who has signed in, and which page is shown.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ComponentType, type MouseEvent as Clicked, type ReactNode, Suspense, useEffect, useRef, useState, useSyncExternalStore } from "react";

import { baseUrl, expectData, molbox, Refused, type Schemas } from "./api/client.ts";
import { later } from "./api/later.ts";
import { signedIn, signedOut } from "./api/session.ts";
import { SignIn } from "./page/sign_in.tsx";
import { Boundary } from "./part/boundary.tsx";
import { Dialog } from "./part/dialog.tsx";
import { useEvents } from "./part/events.ts";
import { useKeptFocus } from "./part/focus.ts";
import { useOnce } from "./part/mutation.ts";
import { Failure, NotFound } from "./part/notice.tsx";
import { leave, type Session, useSession, useSignedIn } from "./part/session.ts";
import { SignInForm } from "./part/sign_in.tsx";
import { KeepUploads } from "./part/uploads.tsx";
import {
  address, go, goToStart, isOurs, isStart, LICENSES, type Page, type PageProps, type Place, placeAt, properAddress, reload, startAgain,
} from "./routes.ts";

const PAGES: { [P in Page]: ComponentType<PageProps<P>> } = {
  jobs: later(() => import("./page/jobs.tsx")),
  job_new: later(() => import("./page/job_new.tsx")),
  job: later(() => import("./page/job.tsx")),
  analysis: later(() => import("./page/analysis.tsx")),
  systems: later(() => import("./page/systems.tsx")),
  system_new: later(() => import("./page/system_new.tsx")),
  system: later(() => import("./page/system.tsx")),
  files: later(() => import("./page/files.tsx")),
  file: later(() => import("./page/file.tsx")),
  margin: later(() => import("./page/margin.tsx")),
  account: later(() => import("./page/account.tsx")),
  admin: later(() => import("./page/admin.tsx")),
  invitation: later(() => import("./page/invitation.tsx")),
};

/** In the bar, from the left, with the pages that lie below each. */
const BAR: [page: "jobs" | "systems" | "files" | "margin", name: string, below: Page[]][] = [
  ["jobs", "Jobs", ["job", "job_new", "analysis"]],
  ["systems", "Systems", ["system", "system_new"]],
  ["files", "Files", ["file"]],
  ["margin", "Margin", []],
];

export function Shell() {
  const url = useUrl();
  const place = placeAt(url);
  const session = useSession();
  const isCut = useEvents(session.data?.account);
  useFollowedLinks();
  useKeptFocus();
  useEffect(() => {
    if (isStart(url)) goToStart();
  }, [url]);
  return <>
    <header className="bar">
      <b>molbox</b>
      {session.data && <Bar page={place?.page} session={session.data} />}
    </header>
    <Notices isCut={isCut} />
    <KeepUploads><Main path={url.pathname} isStale={isCut}>
      {place?.page === "invitation" ? <Shown {...place} />
        : session.data ? place ? <Shown {...place} /> : !isStart(url) && <NotFound />
          : session.error instanceof Refused && session.error.status === 401 ? <SignIn />
            : session.error ? <Failure error={session.error} again={() => void session.refetch()} />
              : <p className="quiet">Loading…</p>}
    </Main></KeepUploads>
    {session.data && <SignedOut before={session.data} />}
  </>;
}

function Bar({ page, session }: { page: Page | undefined; session: Session }) {
  const signOut = useOnce({
    mutationFn: () => expectData(molbox.DELETE("/session")),
    // Also when the session had ended before; a service that does not answer has ended none.
    onSettled: (_, error) => (!error || error instanceof Refused ? leave() : startAgain()),
  });
  const close = ({ currentTarget }: Clicked<HTMLElement>) => currentTarget.hidePopover();
  return <>
    <nav aria-label="Pages">
      {BAR.map(([of, name, below]) => {
        const isHere = page === of || (page !== undefined && below.includes(page));
        return <a key={of} href={address(of)} aria-current={isHere ? "page" : undefined}>{name}</a>;
      })}
      {session.role === "admin" && <a href={address("admin")} aria-current={page === "admin" ? "page" : undefined}>Admin</a>}
    </nav>
    <button popoverTarget="new">New ▾</button>
    <div id="new" popover="auto" onClick={close}>
      <a href={address("system_new")}>System</a>
      <a href={address("job_new")}>Job</a>
      <a href={address("files")}>File</a>
    </div>
    <button className="plain" popoverTarget="who">{session.account} ▾</button>
    <div id="who" popover="auto" onClick={close}>
      <a href={address("account")}>Account and keys</a>
      <a href={`${baseUrl}/docs`} target="_blank" rel="noreferrer">Reference</a>
      <a href={LICENSES} target="_blank" rel="noreferrer">Licences</a>
      <button onClick={() => signOut.mutate()}>Sign out</button>
    </div>
  </>;
}

/** The page, in a place that is the same for all of them. */
function Main({ path, isStale, children }: { path: string; isStale: boolean; children: ReactNode }) {
  const main = useRef<HTMLElement>(null);
  const before = useRef(path);
  useEffect(() => {
    if (before.current === path) return;
    before.current = path;
    // Who listens to the screen hears of the new page; what was focused went with the old.
    main.current?.focus({ preventScroll: true });
  }, [path]);
  return <main ref={main} tabIndex={-1} className={isStale ? "stale" : undefined}>
    <Boundary key={path}>
      <Suspense fallback={<Coming />}>{children}</Suspense>
    </Boundary>
  </main>;
}

/** What a page comes from takes a moment; if it takes longer, the service may be gone, and is looked at. */
const SOON_MS = 1000;

function Coming() {
  const queries = useQueryClient();
  useEffect(() => {
    const timer = setTimeout(() => void queries.invalidateQueries({ queryKey: ["health"] }), SOON_MS);
    return () => clearTimeout(timer);
  }, [queries]);
  return <p className="quiet">Loading…</p>;
}

/** A page with what its address contains; the pattern of the address has seen to the names. */
function Shown({ page, given, search }: Place) {
  const Content = PAGES[page] as ComponentType<Omit<Place, "page">>;
  // A form is another where it begins with something else; a job that shows another frame is the same.
  const isForm = page === "job_new" || page === "system_new";
  return <Content key={isForm ? String(search) : page} given={given} search={search} />;
}

/** Over the page, when a request has found that the session has ended: what was typed stays. */
function SignedOut({ before }: { before: Session }) {
  const isSignedOut = useSyncExternalStore(signedOut.subscribe, signedOut.read);
  const note = useSignedIn();
  if (!isSignedOut) return null;
  const done = (session: Session) => {
    // What is on the screen is not for somebody else.
    if (session.account !== before.account) return startAgain();
    note(session);
    signedIn();
  };
  return <Dialog title="You have been signed out">
    <p>Sign in again to go on where you were.</p>
    <SignInForm account={before.account} done={done} />
  </Dialog>;
}

const LOOK_MS = 15_000;
/** A service that hangs, or that nothing comes back from, is as good as gone. */
const SILENT_MS = 8000;
/** While the service does not answer, or starts nothing. */
const LOOK_AGAIN_MS = 3000;

/** What is known of the service at whichever page: that it is gone, full, newer, or elsewhere. */
function Notices({ isCut }: { isCut: boolean }) {
  const [first, setFirst] = useState<string>();
  const health = useQuery({
    queryKey: ["health"],
    queryFn: () => expectData(molbox.GET("/healthz", { signal: AbortSignal.timeout(SILENT_MS) })),
    retry: 1,
    refetchInterval: ({ state }) => (state.error || messagesOf(state.data?.held).length > 0 ? LOOK_AGAIN_MS : LOOK_MS),
  });
  const version = health.data?.version;
  if (version !== undefined && first === undefined) setFirst(version);
  const proper = properAddress();
  return <>
    {health.error && <div className="bar-notice" role="alert">
      {health.error instanceof Refused ? health.error.message : "The service does not answer."} Nothing that it has
      accepted is lost; the page goes on as soon as it is back.
    </div>}
    {!health.error && isCut && <div className="bar-notice" role="status">
      What is shown may be old: nothing new comes from the service at present. It is tried again.
    </div>}
    {messagesOf(health.data?.held).map((message) => <div key={message} className="bar-notice" role="status">
      Nothing is started at present: {message}. What is there can be looked at and downloaded.
    </div>)}
    {first !== undefined && version !== undefined && version !== first && <div className="bar-notice" role="status">
      The service has become version {version}; this page is older. <button onClick={reload}>Reload</button>
    </div>}
    {proper !== undefined && <div className="bar-notice" role="status">
      This service is used at <a href={proper}>{proper}</a>; from here no files can be uploaded.
    </div>}
  </>;
}

/** What holds tasks back, each once: it may hold several kinds of them. */
function messagesOf(held: readonly Schemas["Hold"][] = []): string[] {
  return [...new Set(held.map(({ message }) => message))];
}

/** The address of the window, followed. */
function useUrl(): URL {
  const href = useSyncExternalStore(watchAddress, () => document.URL);
  const [url, set] = useState(() => new URL(href));
  if (url.href === href) return url;
  const next = new URL(href);
  set(next);
  return next;
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
      if (url.href !== document.URL) go(url.href);
    };
    addEventListener("click", follow);
    return () => removeEventListener("click", follow);
  }, []);
}
