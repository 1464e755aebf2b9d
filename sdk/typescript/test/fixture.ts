// Real servers for tests: `pawl serve` on a database of its own, and the test agent.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { freePort } from "../src/port.ts";

/** Where ./run builds the programs. */
export const bin = join(import.meta.dirname, "../../../.work/sdk");

/** SQLite, and PostgreSQL where PAWL_TEST_POSTGRES names one; each in a place of its own. */
export const databases = ["sqlite", ...(process.env.PAWL_TEST_POSTGRES ? ["postgres"] : [])];

export class Fixture implements AsyncDisposable {
  readonly db: string;
  readonly dir: string;
  readonly #running = new Set<ChildProcess>();

  private constructor(db: string, dir: string) {
    this.db = db;
    this.dir = dir;
  }

  static async open(database: string): Promise<Fixture> {
    const dir = await mkdtemp(join(tmpdir(), "pawl-sdk-"));
    if (database === "sqlite") return new Fixture(`sqlite:${dir}/work.db`, dir);
    const url = new URL(process.env.PAWL_TEST_POSTGRES!);
    url.searchParams.set("schema", `pawl_sdk_${process.pid}_${Date.now()}`);
    return new Fixture(url.href, dir);
  }

  /** Starts a program and ends it with the fixture. */
  run(command: string, args: string[]): ChildProcess {
    const child = spawn(command, args, { stdio: ["ignore", "inherit", "pipe"] });
    let said = "";
    child.stderr?.on("data", (text) => (said = (said + text).slice(-4000)));
    child.on("exit", (code) => {
      this.#running.delete(child);
      if (code) console.error(`${command} ended with ${code}:\n${said}`);
    });
    this.#running.add(child);
    return child;
  }

  /** A server, ready; at a port it had before, or a free one. */
  async serve(port?: number): Promise<{ url: string; port: number; child: ChildProcess }> {
    port ??= await freePort();
    const url = `http://127.0.0.1:${port}`;
    const child = this.run(join(bin, "pawl"), ["serve", "--db", this.db, "--addr", `127.0.0.1:${port}`]);
    for (let n = 0; n < 1200; n++) {
      const ready = await fetch(`${url}/readyz`).catch(() => undefined);
      if (ready?.ok) return { url, port, child };
      await pause(50);
    }
    throw new Error("the server does not get ready");
  }

  testAgent(): ChildProcess {
    return this.run(join(bin, "testagent"), ["--db", this.db, "--hold", join(this.dir, "hold")]);
  }

  /** From now on the test agent stops in the middle of what it says, until it may go on. */
  async hold(): Promise<void> {
    await writeFile(join(this.dir, "hold"), "");
  }
  async goOn(): Promise<void> {
    await rm(join(this.dir, "hold"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#running].map(kill));
    await rm(this.dir, { recursive: true, force: true });
  }
}

/** Ends a program as the power does. */
export async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await gone;
}

/** Comes back when something holds. */
export async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (let n = 0; n < 6000; n++) {
    if (await holds()) return;
    await pause(10);
  }
  throw new Error(`it does not come to it that ${what}`);
}
