import { AsyncLocalStorage } from "node:async_hooks";
import { hashOf } from "./canonical.ts";
import { again, fence, type Lease, type Pawl, type Schemas } from "./client.ts";
import { savedSteps } from "./resume.ts";
import { inSpan, replayedStep, stepSpan } from "./trace.ts";

/** The steps of one attempt. */
export class Steps {
  readonly #pawl: Pawl;
  readonly #lease: Lease;
  readonly #inside = new AsyncLocalStorage<string[]>();
  readonly #turns = new Map<string, Promise<void>>();
  readonly #saved = new Map<string, Saved>();
  #earlier: Promise<{ [name: string]: Schemas["Checkpoint"] }> | undefined;

  constructor(pawl: Pawl, lease: Lease) {
    this.#pawl = pawl;
    this.#lease = lease;
  }

  /** The name of the innermost step that the caller is in; "" = none. */
  current(): string {
    return this.#inside.getStore()?.at(-1) ?? "";
  }

  /** See Job.step. Calls of one name come one after the other. */
  readonly run = async <T>(name: string, fn: () => T | Promise<T>, ...args: unknown[]): Promise<T> => {
    const around = this.#inside.getStore() ?? [];
    if (around.includes(name)) throw new Error(`step "${name}" is started inside itself; give the inner step another name`);
    const before = this.#turns.get(name);
    const turn = Promise.withResolvers<void>();
    this.#turns.set(name, turn.promise);
    await before;
    try {
      const hash = hashOf(args);
      const known = this.#saved.get(name) ?? (await this.#left())[name];
      if (known) {
        replayedStep(name);
        return replayed<T>(name, known, hash);
      }
      return await inSpan(stepSpan(name), "INTERNAL", { "pawl.step.name": name, "pawl.item.id": this.#lease.id }, async () => {
        const result = await this.#inside.run([...around, name], fn);
        const snapshot: unknown = JSON.parse(JSON.stringify(result ?? null)); // what a later attempt gets
        const saved = { type: "tool_executed" as const, args_hash: hash, attempt: this.#lease.attempt, snapshot };
        const call = { params: { path: { id: this.#lease.id } }, body: { ...fence(this.#lease), type: "tool_executed" as const, name, args_hash: hash, snapshot } };
        await again(() => this.#pawl.POST("/v1/items/{id}:checkpoint", call)); // also when the lease is in doubt: the server decides
        this.#saved.set(name, saved);
        return snapshot as T;
      });
    } finally {
      turn.resolve();
    }
  };

  /** What earlier attempts saved, by name; the first has nothing to resume. */
  async #left(): Promise<{ [name: string]: Saved }> {
    if (this.#lease.attempt === 1) return {};
    this.#earlier ??= savedSteps(this.#pawl, this.#lease.id);
    try {
      return await this.#earlier;
    } catch (error) {
      this.#earlier = undefined; // the next step asks again
      throw error;
    }
  }
}

type Saved = Pick<Schemas["Checkpoint"], "type" | "args_hash" | "attempt" | "snapshot">;

function replayed<T>(name: string, saved: Saved, hash: string): T {
  if (saved.type !== "tool_executed") throw new Error(`step "${name}": its name is taken by a checkpoint of type ${saved.type}; give the step another name`);
  if (saved.args_hash && saved.args_hash !== hash) {
    throw new Error(`step "${name}": attempt ${saved.attempt} saved its result for other arguments; give the step another name, or pass the same arguments in every attempt`);
  }
  return saved.snapshot as T;
}
