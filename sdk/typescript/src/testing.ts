import { spawn, type ChildProcess } from "node:child_process";
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pawl, type Pawl, type PawlOptions } from "./client.ts";
import { freePort } from "./port.ts";

export { crashAfter, eachCrash, runOne, type Crash, type CrashOptions, type Handlers, type Item } from "./crashes.ts";

/** Where a clock that stands begins, without another time. */
export const start = new Date("2026-01-29T10:00:00Z");

export interface ServeOptions {
  /** The program; without it PAWL_BINARY, that of the package of this platform, or `pawl` on PATH. */
  binary?: string;
  /** Another database than a temporary SQLite file: sqlite:PATH, or the URL of PostgreSQL. */
  db?: string;
  /** More flags of `pawl serve`. */
  args?: string[];
  /** More environment variables of it. */
  env?: Record<string, string>;
  /** Until it must take calls; 60 s by default. */
  timeoutMs?: number;
  /** Whether the clock of the database stands until `advance` moves it; at a time, or at `start`. It is for new SQLite databases. */
  clock?: boolean | Date;
}

/**
 * Starts `pawl serve` on a temporary SQLite database, or on `db`; it takes calls when this comes back.
 *
 * @example
 * await using server = await serve();
 * const task = await must(server.client().POST("/v1/tasks", { body: { type: "double", payload: 21 } }));
 */
export async function serve(options: ServeOptions = {}): Promise<TestServer> {
  const server = new TestServer(options, await freePort());
  await server.start();
  return server;
}

/** A server that runs. Use it with `await using`, or call `close`. */
export class TestServer implements AsyncDisposable {
  readonly url: string;
  /** The database: sqlite:PATH, or the URL of PostgreSQL. */
  readonly db: string;
  readonly #dir: string;
  readonly #command: [string, string[]];
  readonly #options: ServeOptions;
  #child: ChildProcess | undefined;
  #said = "";

  /** See `serve`. */
  constructor(options: ServeOptions, port: number) {
    const { binary, db, args = [], clock } = options;
    const program = findBinary(binary);
    this.#dir = mkdtempSync(join(tmpdir(), "pawl-test-"));
    this.db = db ?? `sqlite:${this.#dir}/work.db`;
    this.url = `http://127.0.0.1:${port}`;
    this.#options = options;
    const stands = clock ? ["--test-clock", (clock instanceof Date ? clock : start).toISOString()] : [];
    this.#command = [program, ["serve", "--db", this.db, "--addr", `127.0.0.1:${port}`, ...stands, ...args]];
  }

  /** Starts the server, at the port it had; comes back when it takes calls. */
  async start(): Promise<void> {
    const { PAWL_BINARY: _, ...env } = process.env; // the program refuses settings that it does not know
    const child = spawn(...this.#command, { stdio: ["ignore", "ignore", "pipe"], env: { ...env, ...this.#options.env } });
    this.#child = child;
    let failed: Error | undefined;
    child.on("error", (error) => (failed = error));
    child.stderr?.on("data", (text) => (this.#said = (this.#said + text).slice(-4000)));
    const end = performance.now() + (this.#options.timeoutMs ?? 60_000);
    while (performance.now() < end && !failed && child.exitCode === null && child.signalCode === null) {
      const ready = await fetch(`${this.url}/readyz`).catch(() => undefined);
      await ready?.body?.cancel();
      if (ready?.ok) return;
      await pause(20);
    }
    await this.close();
    throw new Error(`\`${this.#command.flat().join(" ")}\` does not get ready:\n${failed?.message ?? this.#said}`);
  }

  /** The end of what the server has logged. */
  log(): string {
    return this.#said;
  }

  /** A client of the server. */
  client(options: PawlOptions = {}): Pawl {
    return pawl(this.url, options);
  }

  /** The time of a clock that stands (`clock: true`). */
  async now(): Promise<Date> {
    return await this.advance(0);
  }

  /**
   * Moves a clock that stands (`clock: true`) forward; comes back with where it stands then. What falls due on the way
   * happens at its time, in order: ends of sleeps, back-offs and leases, deadlines, ticks of schedules. What falls due
   * up to a second later happens too, and the clock then stands there: a worker adds the time that its function took
   * to the end of a sleep. Workers that run do not notice the time that has passed: an item that they hold is
   * lost if its lease has run out on the way.
   *
   * @example
   * await server.advance(3 * 86400);
   */
  async advance(seconds: number): Promise<Date> {
    if (!this.#options.clock) throw new Error("the clock of this server is not for tests: start it with serve({ clock: true })");
    const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ seconds }) };
    const response = await fetch(`${this.url}/v1/test/advance`, request);
    const said = await response.text();
    if (!response.ok) throw new RangeError(`the clock was not moved: ${said}`);
    return new Date((JSON.parse(said) as { now: string }).now);
  }

  /** Ends the server at once, as a power failure does. `start` starts it again with its database. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** Ends the server and removes its files. */
  async close(): Promise<void> {
    await this.#end("SIGTERM");
    rmSync(this.#dir, { recursive: true, force: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    const late = setTimeout(() => child.kill("SIGKILL"), 10_000);
    child.kill(signal);
    await gone;
    clearTimeout(late);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** The path of the program: the one given, or that of PAWL_BINARY, of the package of this platform, or `pawl` on PATH. */
export function findBinary(binary?: string): string {
  const given = binary ?? process.env.PAWL_BINARY;
  const name = process.platform === "win32" ? "pawl.exe" : "pawl";
  const places = given ? [given] : [packaged(name), ...(process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, name))];
  const found = places.find((place) => place && runs(place));
  if (found) return found;
  throw new Error(given ? `${given} is no program that can be run` : "there is no `pawl` on PATH; put it there, name it in PAWL_BINARY, or pass binary (`make build` in Pawl's repository makes it)");
}

function packaged(name: string): string {
  try {
    return createRequire(import.meta.url).resolve(`@pawl-work/server-${process.platform}-${process.arch}/bin/${name}`);
  } catch {
    return "";
  }
}

function runs(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
