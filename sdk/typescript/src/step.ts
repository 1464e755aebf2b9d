import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { argsOf, differing, type StepArgs } from "./args.ts";
import { now } from "./clock.ts";
import { fence, PawlError, report, type Lease, type Pawl, type Schemas } from "./client.ts";
import { Permanent, wordsOf } from "./failure.ts";
import { plain } from "./json.ts";
import { savedSteps } from "./resume.ts";
import { tried } from "./retried.ts";
import { inSpan, replayedStep, stepSpan } from "./trace.ts";

/** What is kept of a saved checkpoint. */
export type Saved = Pick<Schemas["Checkpoint"], "type" | "args_hash" | "attempt" | "snapshot" | "metadata">;

const maxName = 1024; // bytes

/** The steps of one attempt. */
export class Steps {
  readonly pawl: Pawl;
  readonly #lease: Lease;
  readonly #patience: () => number;
  readonly #began = now();
  readonly #over: AbortSignal;
  readonly #inside = new AsyncLocalStorage<string[]>();
  readonly #turns = new Map<string, Promise<void>>();
  readonly #saved = new Map<string, Saved>();
  /** The number of reservations by budget, for each step: in its present run. */
  readonly reserved = new Map<string, Map<string, number>>();
  #earlier: Promise<{ [name: string]: Schemas["Checkpoint"] }> | undefined;

  /** `left` is how many ms the lease has: a checkpoint is tried for that long. Once `over` has ended, no step is tried again. */
  constructor(pawl: Pawl, lease: Lease, left: () => number, over: AbortSignal) {
    this.pawl = pawl;
    this.#lease = lease;
    this.#patience = left;
    this.#over = over;
  }

  /** The database's clock, estimated, in ms. */
  time(): number {
    return Date.parse(this.#lease.server_time) + now() - this.#began;
  }

  /** The name of the innermost step that the caller is in; "" = none. */
  current(): string {
    return this.#inside.getStore()?.at(-1) ?? "";
  }

  /** Runs `fn` while no other call of the name does. */
  async alone<T>(name: string, fn: () => Promise<T>): Promise<T> {
    if (!name || Buffer.byteLength(name) > maxName || /[\0\ud800-\udfff]/u.test(name)) throw new RangeError(`the name of a step has 1 to ${maxName} bytes of UTF-8 without NUL`);
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
      const hashed = argsOf(args);
      const known = await this.find(name);
      if (known) {
        replayedStep(name);
        return replayed<T>(name, known, hashed);
      }
      return await this.inside(name, fn, (snapshot, took) => this.save(name, { type: "tool_executed", snapshot, ...kept(hashed, took) }));
    });

  /** Runs the function of a step and saves its result. */
  inside<T>(name: string, fn: () => T | Promise<T>, save: (snapshot: unknown, took: number) => Promise<unknown>): Promise<T> {
    return inSpan(stepSpan(name), "INTERNAL", { "pawl.step.name": name, "pawl.item.id": this.#lease.id }, async () => {
      const began = performance.now();
      const result = await this.#inside.run([...(this.#inside.getStore() ?? []), name], () => tried(fn, this.#over, () => this.reserved.delete(name)));
      const took = Math.floor(performance.now() - began);
      let snapshot: unknown; // what a later attempt gets
      try {
        snapshot = plain(result);
      } catch (error) {
        throw unfit(name, "invalid", error);
      }
      try {
        await save(snapshot, took);
      } catch (error) {
        throw error instanceof PawlError && ["invalid", "too_large"].includes(error.code) ? unfit(name, error.code, error) : error;
      }
      return snapshot as T;
    });
  }

  /** Keeps what was saved under a name for later calls. */
  remember(name: string, said: Omit<Saved, "attempt">): void {
    this.#saved.set(name, { ...said, attempt: this.#lease.attempt });
  }

  /** What this attempt or an earlier one saved under a name. */
  async find(name: string): Promise<Saved | undefined> {
    return this.#saved.get(name) ?? (await this.#left())[name];
  }

  /** Saves a checkpoint under a name. */
  async save(name: string, said: Omit<Saved, "attempt">): Promise<Schemas["CheckpointRef"]> {
    const header = { "Idempotency-Key": randomUUID() }; // a call whose answer was lost saves nothing twice
    const call = { params: { path: { id: this.#lease.id }, header }, body: { ...fence(this.#lease), ...said, name } };
    const ref = await report(() => this.pawl.POST("/v1/items/{id}:checkpoint", call), undefined, this.#patience); // also when the lease is in doubt: the server decides
    this.remember(name, said);
    return ref;
  }

  /** What earlier attempts saved, by name; the first has nothing to resume, unless its task is a fork. */
  async #left(): Promise<{ [name: string]: Saved }> {
    if (this.#lease.attempt === 1 && !this.#lease.forked) return {};
    this.#earlier ??= savedSteps(this.pawl, this.#lease.id);
    try {
      return await this.#earlier;
    } catch (error) {
      this.#earlier = undefined; // the next step asks again
      throw error;
    }
  }
}

/** The error of a result that no attempt can save: the function has run, and would run again in each. */
const unfit = (name: string, code: string, cause: unknown) => new Permanent(`step "${name}": its result cannot be saved: ${wordsOf(cause)}`, { code, cause });

/** What a checkpoint keeps of a step's arguments, and how long its function ran, in milliseconds. */
export function kept({ hash, parts }: StepArgs, took: number): { args_hash: string; metadata?: { args?: StepArgs["parts"]; took_ms?: number } } {
  const metadata = { ...(Object.keys(parts).length > 0 ? { args: parts } : {}), ...(took > 0 ? { took_ms: took } : {}) };
  return { args_hash: hash, ...(Object.keys(metadata).length > 0 ? { metadata } : {}) };
}

/** The saved result of a step, of the item or of a message. What does not fit the step is an error for good. */
export function replayed<T>(name: string, saved: Saved, args: StepArgs, messageId = ""): T {
  const { args: before, message_id: of } = (saved.metadata ?? {}) as { args?: unknown; message_id?: string };
  if (saved.type !== (messageId ? "iteration_end" : "tool_executed")) throw new Permanent(`step "${name}": its name is taken by a checkpoint of type ${saved.type}; give the step another name`);
  if (messageId && of !== messageId) throw new Permanent(`step "${name}": its name is taken by a step of message ${of}; give the step another name`);
  if (saved.args_hash && saved.args_hash !== args.hash) {
    const by = saved.attempt ? `attempt ${saved.attempt}` : "the task that this task is a fork of";
    throw new Permanent(`step "${name}": ${by} saved its result for other arguments${differing(args, before)}; give the step another name, or pass the same arguments in every attempt`);
  }
  return saved.snapshot as T;
}
