import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { hashOf } from "./canonical.ts";
import { again, fence, type Lease, type Pawl, type Schemas } from "./client.ts";
import { Permanent } from "./failure.ts";
import { plain } from "./json.ts";
import { savedSteps } from "./resume.ts";
import { inSpan, replayedStep, stepSpan } from "./trace.ts";

/** What is kept of a saved checkpoint. */
export type Saved = Pick<Schemas["Checkpoint"], "type" | "args_hash" | "attempt" | "snapshot" | "metadata">;

/** The steps of one attempt. */
export class Steps {
  readonly pawl: Pawl;
  readonly #lease: Lease;
  readonly #inside = new AsyncLocalStorage<string[]>();
  readonly #turns = new Map<string, Promise<void>>();
  readonly #saved = new Map<string, Saved>();
  #earlier: Promise<{ [name: string]: Schemas["Checkpoint"] }> | undefined;

  constructor(pawl: Pawl, lease: Lease) {
    this.pawl = pawl;
    this.#lease = lease;
  }

  /** The name of the innermost step that the caller is in; "" = none. */
  current(): string {
    return this.#inside.getStore()?.at(-1) ?? "";
  }

  /** Runs `fn` while no other call of the name does. */
  async alone<T>(name: string, fn: () => Promise<T>): Promise<T> {
    if ((this.#inside.getStore() ?? []).includes(name)) throw new Error(`step "${name}" is started inside itself; give the inner step another name`);
    const before = this.#turns.get(name);
    let end = () => {};
    this.#turns.set(name, new Promise((resolve) => (end = resolve)));
    await before;
    try {
      return await fn();
    } finally {
      end();
    }
  }

  /** See Job.step. Calls of one name come one after the other. */
  readonly run = <T>(name: string, fn: () => T | Promise<T>, ...args: unknown[]): Promise<T> =>
    this.alone(name, async () => {
      const hash = hashOf(args);
      const known = await this.find(name);
      if (known) {
        replayedStep(name);
        return replayed<T>(name, known, hash);
      }
      return await inSpan(stepSpan(name), "INTERNAL", { "pawl.step.name": name, "pawl.item.id": this.#lease.id }, async () => {
        const result = await this.#inside.run([...(this.#inside.getStore() ?? []), name], fn);
        const snapshot = plain(result); // what a later attempt gets
        await this.save(name, { type: "tool_executed", args_hash: hash, snapshot });
        return snapshot as T;
      });
    });

  /** What this attempt or an earlier one saved under a name. */
  async find(name: string): Promise<Saved | undefined> {
    return this.#saved.get(name) ?? (await this.#left())[name];
  }

  /** Saves a checkpoint under a name. */
  async save(name: string, said: Omit<Saved, "attempt">): Promise<Schemas["CheckpointRef"]> {
    const header = { "Idempotency-Key": randomUUID() }; // a call whose answer was lost saves nothing twice
    const call = { params: { path: { id: this.#lease.id }, header }, body: { ...fence(this.#lease), ...said, name } };
    const ref = await again(() => this.pawl.POST("/v1/items/{id}:checkpoint", call)); // also when the lease is in doubt: the server decides
    this.#saved.set(name, { ...said, attempt: this.#lease.attempt });
    return ref;
  }

  /** What earlier attempts saved, by name; the first has nothing to resume. */
  async #left(): Promise<{ [name: string]: Saved }> {
    if (this.#lease.attempt === 1) return {};
    this.#earlier ??= savedSteps(this.pawl, this.#lease.id);
    try {
      return await this.#earlier;
    } catch (error) {
      this.#earlier = undefined; // the next step asks again
      throw error;
    }
  }
}

function replayed<T>(name: string, saved: Saved, hash: string): T {
  if (saved.type !== "tool_executed") throw new Permanent(`step "${name}": its name is taken by a checkpoint of type ${saved.type}; give the step another name`);
  if (saved.args_hash && saved.args_hash !== hash) {
    throw new Permanent(`step "${name}": attempt ${saved.attempt} saved its result for other arguments; give the step another name, or pass the same arguments in every attempt`);
  }
  return saved.snapshot as T;
}
