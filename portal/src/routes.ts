//! The addresses of the portal. No other file knows one.

/** Where each page is below the portal's base; `:name` stands for what a page is given. */
const PATTERNS = {
  jobs: "/jobs",
  job_new: "/job/new",
  job: "/job/:job_id",
  analysis: "/job/:job_id/analysis",
  systems: "/systems",
  system_new: "/system/new",
  system: "/system/:system_id",
  files: "/files",
  file: "/file/:file_id",
  margin: "/margin",
  account: "/account",
  admin: "/admin",
  invitation: "/invitation",
} as const;

/** What the portal begins with. */
const START = "jobs";

export type Page = keyof typeof PATTERNS;
type Names<P extends string> = P extends `${string}/:${infer Name}/${infer Rest}`
  ? Name | Names<`/${Rest}`>
  : P extends `${string}/:${infer Name}`
    ? Name
    : never;
/** What the address of a page contains: of a job, `{ job_id }`. */
export type Given<P extends Page> = Record<Names<(typeof PATTERNS)[P]>, string>;

/** What a page gets: what its address contains. */
export type PageProps<P extends Page> = { given: Given<P>; search: URLSearchParams };

/** A page as it was asked for. */
export type Place = { page: Page; given: Record<string, string>; search: URLSearchParams };

const root = new URL(document.baseURI).pathname.replace(/\/$/, "");

/** The address of a page, with what its pattern names, and the rest behind a question mark. */
export function address<P extends Page>(
  page: P,
  ...[given]: [Names<(typeof PATTERNS)[P]>] extends [never]
    ? [given?: Record<string, string>]
    : [given: Given<P> & Record<string, string>]
): string {
  const search = new URLSearchParams(given);
  const path = PATTERNS[page].replace(/:(\w+)/g, (_, name: string) => {
    const value = search.get(name) ?? "";
    search.delete(name);
    return encodeURIComponent(value);
  });
  return root + path + (search.size > 0 ? `?${search}` : "");
}

/** The page at an address; undefined when there is none. */
export function placeAt(url: URL): Place | undefined {
  const steps = url.pathname.slice(root.length).replace(/\/+$/, "").split("/");
  for (const page of Object.keys(PATTERNS) as Page[]) {
    const pattern = PATTERNS[page].replace(/\/$/, "").split("/");
    const fits = pattern.length === steps.length
      && pattern.every((step, i) => step.startsWith(":") ? steps[i] !== "" : step === steps[i]);
    if (!fits) continue;
    const given = pattern.flatMap((step, i) =>
      step.startsWith(":") ? [[step.slice(1), decoded(steps[i] ?? "")]] : []);
    return { page, given: Object.fromEntries(given), search: url.searchParams };
  }
  return undefined;
}

/** Whether an address is one of the portal's own. */
export function isOurs(url: URL): boolean {
  return url.origin === location.origin && `${url.pathname}/`.startsWith(`${root}/`);
}

/** Whether an address is the portal's own without a page. */
export function isStart(url: URL): boolean {
  return url.pathname.replace(/\/+$/, "") === root;
}

/** The notices of what the portal is made of. */
export const LICENSES = `${root}/licenses.md`;

/** The page that the portal begins with, in the place of this one. */
export function goToStart(): void {
  goInstead(address(START));
}

/** Another page from its top, without loading the portal again. Where one was on a page, browsers know who go back to it. */
export function go(to: string): void {
  const { pathname } = location;
  history.pushState(null, "", to);
  dispatchEvent(new PopStateEvent("popstate"));
  if (location.pathname !== pathname) scrollTo(0, 0);
}

/** The same in the place of this page, which *back* then passes over. */
export function goInstead(to: string): void {
  history.replaceState(null, "", to);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** What is kept with this entry of the window's history. */
export function keptHere(): Readonly<Record<string, unknown>> {
  return (history.state as Record<string, unknown> | null) ?? {};
}

/** Keeps other things with it. */
export function keepHere(state: Readonly<Record<string, unknown>>): void {
  history.replaceState(state, "");
}

/** The portal from its beginning, with nothing kept of what was shown before. */
export function startAgain(): void {
  sessionStorage.clear();
  location.assign(`${root}/`);
}

/** This page, loaded again. */
export function reload(): void {
  location.reload();
}

/** This page below the portal's address, as the service takes it to lead back here. */
export function here(): string {
  return (location.pathname + location.search).slice(root.length + 1);
}

/** What stands behind `#`, which browsers send to nobody. */
export function fragment(): string {
  return location.hash.slice(1);
}

/** Where the service expects the portal to be opened, if that is elsewhere. */
export function properAddress(): string | undefined {
  const link = document.querySelector("link[rel=canonical]");
  if (!(link instanceof HTMLLinkElement)) return undefined;
  return new URL(link.href).origin === location.origin ? undefined : link.href;
}

/** Whether what is sent from here can be read on its way. */
export function isReadable(): boolean {
  return !isSecureContext;
}

/** What cannot be decoded is nobody's identifier. */
function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}
