//! What a browser calls itself, in words. `User-Agent` says more than is true: most name several others.

/** Those that name others come before these. */
const BROWSERS: [name: string, mark: RegExp][] = [
  ["Edge", /\bEdgA?\/(\d+)/],
  ["Opera", /\bOPR\/(\d+)/],
  ["Firefox", /\b(?:Firefox|FxiOS)\/(\d+)/],
  ["Chrome", /(?:\bHeadless|\b)(?:Chrome|CriOS)\/(\d+)/],
  ["Safari", /\bVersion\/(\d+)[\d.]* (?:Mobile\/\S+ )?Safari\//],
];
const SYSTEMS: [name: string, mark: RegExp][] = [
  ["Windows", /Windows/],
  ["Android", /Android/],
  ["iPhone", /iPhone/],
  ["iPad", /iPad/],
  ["macOS", /Macintosh/],
  ["ChromeOS", /CrOS/],
  ["Linux", /Linux|X11/],
];
const MOST_CHARACTERS = 60;

/** `Firefox 150 on Linux`; what is not known as it calls itself. */
export function browserOf(userAgent: string): string {
  const system = SYSTEMS.find(([, mark]) => mark.test(userAgent))?.[0];
  for (const [name, mark] of BROWSERS) {
    const version = mark.exec(userAgent)?.[1];
    if (version !== undefined) return `${name} ${version}${system === undefined ? "" : ` on ${system}`}`;
  }
  if (userAgent === "") return "Something without a name";
  return userAgent.length > MOST_CHARACTERS ? `${userAgent.slice(0, MOST_CHARACTERS)}…` : userAgent;
}
