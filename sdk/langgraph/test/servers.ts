// Real servers for the tests here and of sdk/workflow: one for each database.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const bin = join(import.meta.dirname, "../../../.work/sdk/pawl");

/** SQLite, and PostgreSQL where PAWL_TEST_POSTGRES names one. */
export const databases = ["sqlite", ...(process.env.PAWL_TEST_POSTGRES ? ["postgres"] : [])];

export class Server {
  readonly url: string;
  readonly db: string;
  readonly #child: ChildProcess;
  readonly #dir: string;

  private constructor(url: string, db: string, child: ChildProcess, dir: string) {
    this.url = url;
    this.db = db;
    this.#child = child;
    this.#dir = dir;
  }

  static async start(database: string): Promise<Server> {
    const dir = await mkdtemp(join(tmpdir(), "pawl-sdk-"));
    let db = `sqlite:${dir}/work.db`;
    if (database === "postgres") {
      const url = new URL(process.env.PAWL_TEST_POSTGRES!);
      url.searchParams.set("schema", `pawl_sdk_${process.pid}_${Date.now()}`);
      db = url.href;
    }
    const addr = `127.0.0.1:${await freePort()}`;
    const { PAWL_URL: _, ...env } = process.env; // which is for what is tested
    const child = spawn(bin, ["serve", "--db", db, "--addr", addr], { env, stdio: ["ignore", "inherit", "ignore"] });
    for (let n = 0; n < 1200; n++) {
      if ((await fetch(`http://${addr}/readyz`).catch(() => undefined))?.ok) return new Server(`http://${addr}`, db, child, dir);
      await pause(50);
    }
    throw new Error("the server does not get ready");
  }

  async stop(): Promise<void> {
    const gone = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill("SIGKILL");
    await gone;
    await rm(this.#dir, { recursive: true, force: true });
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const s = createServer();
    s.listen(0, "127.0.0.1", () => {
      const { port } = s.address() as AddressInfo;
      s.close(() => resolve(port));
    });
  });
}
