//! A molboxd with data of its own, for tests of the whole portal.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { openSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const PROGRAM = process.env["MOLBOXD"] ?? "../target/debug/molboxd";
const START_LIMIT_MS = 30_000;

export class Service {
  readonly folder: string;
  readonly baseUrl: string;
  private readonly port: number;
  private own: readonly string[];
  private child: ChildProcess | undefined;

  private constructor(folder: string, port: number, own: readonly string[]) {
    this.folder = folder;
    this.port = port;
    this.own = own;
    this.baseUrl = `http://127.0.0.1:${port}/local`;
  }

  /** `own` are settings of the test, such as `sessions.tries_per_minute=5`. */
  static async start(...own: string[]): Promise<Service> {
    const service = new Service(await mkdtemp(path.join(tmpdir(), "molboxd-")), await freePort(), own);
    // Before it starts: a service reads its market data then.
    service.command("market", "sample");
    await service.resume();
    return service;
  }

  get portal(): string {
    return `${this.baseUrl}/portal/`;
  }

  get origin(): string {
    return new URL(this.baseUrl).origin;
  }

  /** What a command of molboxd prints. */
  command(...words: string[]): string {
    return execFileSync(PROGRAM, [...this.settings(), ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
  }

  /** Starts the service, at the same address as before, perhaps with other settings. */
  async resume(...own: string[]): Promise<void> {
    if (own.length > 0) this.own = own;
    const log = openSync(path.join(this.folder, "molboxd.log"), "a");
    const child = spawn(PROGRAM, [...this.settings(), "serve"], { stdio: ["ignore", log, log] });
    this.child = child;
    const end = Date.now() + START_LIMIT_MS;
    while (!await this.answers()) {
      if (child.exitCode !== null || Date.now() > end) throw new Error(`molboxd does not start: ${this.log()}`);
      await pause(100);
    }
  }

  /** Ends the service, and leaves its data. */
  async stop(): Promise<void> {
    const child = this.child;
    this.child = undefined;
    if (!child || child.exitCode !== null) return;
    const ended = once(child, "exit");
    child.kill();
    await ended;
  }

  /** Lets the service stand still, with its connections open, or go on. */
  hang(isStill: boolean): void {
    this.child?.kill(isStill ? "SIGSTOP" : "SIGCONT");
  }

  log(): string {
    return readFileSync(path.join(this.folder, "molboxd.log"), "utf8").slice(-4000);
  }

  async close(): Promise<void> {
    await this.stop();
    await rm(this.folder, { recursive: true, force: true });
  }

  private settings(): string[] {
    const python = process.env["MOLBOX_TEST_PYTHON"];
    return [
      "--data", path.join(this.folder, "data"),
      "--set", `listen="127.0.0.1:${this.port}"`, "--set", 'margin_listen="127.0.0.1:0"',
      ...(python ? ["--set", `worker.python=${JSON.stringify(python)}`] : []),
      ...this.own.flatMap((setting) => ["--set", setting]),
    ];
  }

  private async answers(): Promise<boolean> {
    try {
      return (await fetch(`${this.baseUrl}/healthz`)).ok;
    } catch {
      return false;
    }
  }
}

/** A port that nobody listened at a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  if (address === null || typeof address === "string") throw new Error("a port is a number");
  return address.port;
}
