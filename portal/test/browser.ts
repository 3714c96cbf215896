//! A browser that looks at what every page has to be: accessible, quiet, and from one origin.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";

import { type BrowserContext, chromium, type Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SHOTS = process.env["SHOTS"];
/** Where the pictures of `docs/portal.md` are made anew, if they are. */
const PICTURES = process.env["PICTURES"];
/** Which they are, as wide pages: how high and in which colours. */
const PICTURED: Readonly<Record<string, { height: number; colorScheme: "light" | "dark" }>> = {
  jobs: { height: 320, colorScheme: "light" },
  job: { height: 760, colorScheme: "light" },
  system_new: { height: 760, colorScheme: "light" },
  analysis: { height: 760, colorScheme: "dark" },
  margin: { height: 860, colorScheme: "light" },
  admin_queue: { height: 760, colorScheme: "light" },
};
/** As narrow as a telephone, and wide. */
const NARROW = { width: 390, height: 844 };
const WIDE = { width: 1280, height: 900 };
/** What is waited for at most: the engine works, and molecules are drawn in software, on a machine that has other work. */
const MAX_WAIT_MS = 120_000;

/** Success criteria by axe's names for them. */
const EVERYTHING = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };
/** What may be another in other colours, and in another width; everything else is in the page's elements. */
const COLOURS = { type: "rule", values: ["color-contrast", "link-in-text-block"] };
const WIDTHS = { type: "rule", values: ["target-size", "scrollable-region-focusable"] };
type Rules = typeof EVERYTHING;

/** Chromium with WebGL in software, and nothing that looks for the network by itself. */
const ARGUMENTS = [
  "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist",
  "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-quic",
];

export class Browser {
  readonly page: Page;
  private readonly context: BrowserContext;
  private readonly profile: string;
  private scheme: "light" | "dark" = "light";
  private expected: RegExp | undefined;
  /** What went wrong that no test has expected. */
  private readonly wrong: string[] = [];
  /** Bytes of the portal's files as they came, compressed, by name. */
  private readonly sizes = new Map<string, number>();

  private constructor(context: BrowserContext, profile: string, page: Page, origin: string) {
    this.context = context;
    this.profile = profile;
    this.page = page;
    page.on("console", (message) => {
      // A refusal is in the log of the browser whether or not the page deals with it.
      const isRefusal = message.text().startsWith("Failed to load resource: the server responded");
      if (message.type() === "error" && !isRefusal && !this.expected?.test(message.text())) this.wrong.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => {
      if (!this.expected?.test(error.message)) this.wrong.push(`exception: ${error.message}`);
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (["http:", "https:"].includes(url.protocol) && url.origin !== origin) this.wrong.push(`asks ${url.origin}`);
    });
    page.on("response", async (response) => {
      const name = new URL(response.url()).pathname.split("/portal/assets/")[1];
      if (name === undefined || response.status() !== 200) return;
      const { responseBodySize } = await response.request().sizes();
      if (responseBodySize > 0) this.sizes.set(name, responseBodySize);
    });
  }

  static async open(origin: string, locale = "en-GB"): Promise<Browser> {
    const profile = await mkdtemp(path.join(tmpdir(), "portal-"));
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: whereIs(process.env["CHROMIUM"] ?? "chromium"),
      headless: true,
      locale,
      viewport: WIDE,
      colorScheme: "light",
      reducedMotion: "reduce",
      args: [...ARGUMENTS, `--lang=${locale}`],
    });
    context.setDefaultTimeout(MAX_WAIT_MS);
    const page = context.pages()[0] ?? await context.newPage();
    return new Browser(context, profile, page, origin);
  }

  /** Fails when anything has gone wrong since the last look. */
  look(): void {
    assert.deepEqual(this.wrong.splice(0), []);
  }

  /** Takes no offence at what a test brings about itself, from now on. */
  expect(what: RegExp | undefined): void {
    this.expected = what;
  }

  /** Bytes of the files that have been loaded whose names begin so. */
  weightOf(start: string): number {
    const found = [...this.sizes].filter(([name]) => name.startsWith(start));
    return found.reduce((sum, [, size]) => sum + size, 0);
  }

  /**
   * The page in light and dark, wide and narrow: no violation of WCAG 2.2 A and AA, nothing runs off the screen. It stays
   * in the colours that it was looked at last: a molecule is drawn anew for each change.
   */
  async check(name: string): Promise<void> {
    await this.see(name, WIDE, EVERYTHING);
    await this.turn();
    await this.see(name, WIDE, COLOURS);
    await this.page.setViewportSize(NARROW);
    await this.see(name, NARROW, WIDTHS);
    if (SHOTS) {
      await this.turn();
      await this.see(name, NARROW, COLOURS);
    }
    await this.page.setViewportSize(WIDE);
    this.look();
  }

  /** From light to dark, or back. */
  async turn(): Promise<void> {
    this.scheme = this.scheme === "light" ? "dark" : "light";
    await this.page.emulateMedia({ colorScheme: this.scheme });
  }

  private async see(name: string, { width }: typeof WIDE, rules: Rules): Promise<void> {
    const label = `${name}, ${this.scheme}, ${width} px`;
    if (SHOTS) await this.page.screenshot({ path: path.join(SHOTS, `${name}-${width}-${this.scheme}.png`), fullPage: true });
    await this.picture(name, width);
    assert.deepEqual(await this.violations(rules), [], label);
    await this.fits(label);
  }

  /** Waits until nothing runs off the screen: what is drawn has its size a moment after the window. */
  private async fits(label: string): Promise<void> {
    const over = (): number => document.documentElement.scrollWidth - innerWidth;
    const isNarrow = await this.page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth).then(() => true, () => false);
    assert.ok(isNarrow, `${label}: ${await this.page.evaluate(over)} px wider than the screen`);
  }

  /** The upper part of the page for the documentation, if it is one of those. */
  private async picture(name: string, width: number): Promise<void> {
    const wanted = PICTURED[name];
    if (!PICTURES || !wanted || width !== WIDE.width || this.scheme !== wanted.colorScheme) return;
    const clip = { x: 0, y: 0, width, height: wanted.height };
    await this.page.screenshot({ path: path.join(PICTURES, `${name}.png`), clip });
  }

  private async violations(rules: Rules): Promise<string[]> {
    // By the debugger: the page's policy lets no script in.
    if (!await this.page.evaluate(() => "axe" in globalThis)) await this.page.evaluate(AXE);
    return this.page.evaluate(async (runOnly) => {
      type Found = { id: string; nodes: { html: string; failureSummary: string }[] };
      type Axe = { run: (options: object) => Promise<{ violations: Found[] }> };
      const { axe } = globalThis as unknown as { axe: Axe };
      const { violations } = await axe.run({ runOnly, resultTypes: ["violations"] });
      return violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html}: ${failureSummary}`));
    }, rules);
  }

  async close(): Promise<void> {
    await this.context.close();
    await rm(this.profile, { recursive: true, force: true });
  }
}

/** A program by its name on the path. */
function whereIs(name: string): string {
  return execFileSync("sh", ["-c", 'command -v "$1"', "sh", name], { encoding: "utf8" }).trim();
}
