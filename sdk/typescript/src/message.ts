import { again, fence, PawlError, report, type Chunk, type Lease, type Message, type Pawl, type Schemas } from "./client.ts";
import { argsOf } from "./args.ts";
import { Permanent } from "./failure.ts";
import { plain } from "./json.ts";
import { messagesOf } from "./resume.ts";
import { isRetried } from "./retried.ts";
import { kept, replayed, type Steps } from "./step.ts";
import { replayedStep } from "./trace.ts";
import { Stopped, Writer } from "./writer.ts";

export interface MessageOptions {
  /** Of the message; "assistant" by default. */
  role?: string;
  /** The conversation; by default the task's. */
  thread?: string;
  model?: string;
  /** How many steps it may have; 10 by default. */
  maxSteps?: number;
  metadata?: { [name: string]: unknown };
  /** How long text is gathered before it is saved: 100 ms by default, 1000 at most. */
  flushMs?: number;
}

/** What the message used, such as `{ input_tokens, output_tokens }`. */
export type Usage = { [name: string]: unknown };

/**
 * A message that is written piece by piece. What is written is saved at most `flushMs` late;
 * `step`, `finish` and the end of the handler wait until all is saved. A message that is not
 * finished is finished with its item. One that an earlier attempt finished ignores what is
 * written again: see `ended`.
 */
export interface MessageWriter {
  readonly id: string;
  /** The number of the last step that ended; 0 = none. Go on behind it. */
  readonly stepNumber: number;
  readonly maxSteps: number;
  /** The message is finished. */
  readonly ended: boolean;
  text(text: string): Promise<void>;
  reasoning(text: string): Promise<void>;
  toolCall(id: string, name: string, input: unknown): Promise<void>;
  toolResult(id: string, name: string, output: unknown, isError?: boolean): Promise<void>;
  /** Appends chunks as they are. */
  write(...chunks: Chunk[]): Promise<void>;
  /**
   * Writes a step once for the item, with the methods of the message: what `fn` returns is saved as
   * JSON under the name, with the end of the step. A later attempt gets it without running `fn`. A
   * step that an earlier attempt began and did not end is written again: readers see what
   * was written of it as abandoned. Names and `args` are as in `Job.step`.
   *
   * Write inside of steps only: a step after chunks that no step has ended is refused, since a later
   * attempt would write them again. If a step fails, let the error pass: the next attempt writes it again.
   */
  namedStep<T>(name: string, fn: (message: MessageWriter) => T | Promise<T>, ...args: unknown[]): Promise<T>;
  /**
   * Ends a step with one checkpoint; without a snapshot it is the content so far. `namedStep` is a
   * step that a later attempt skips by itself.
   */
  step(snapshot?: unknown): Promise<void>;
  /** Ends the message; the item goes on. */
  finish(usage?: Usage): Promise<void>;
}

/** The messages that one attempt writes. */
export class Messages {
  readonly #pawl: Pawl;
  readonly #lease: Lease;
  readonly #over: AbortSignal;
  readonly #steps: Steps;
  readonly #open: Writing[] = [];
  #earlier: Promise<Schemas["MessageRef"][]> | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #begun = 0;

  constructor(pawl: Pawl, lease: Lease, over: AbortSignal, steps: Steps) {
    this.#pawl = pawl;
    this.#lease = lease;
    this.#over = over;
    this.#steps = steps;
  }

  /** See Job.message. Calls come one after the other. */
  readonly message = (options: MessageOptions = {}): Promise<MessageWriter> => {
    const begun = this.#turn.then(() => this.#begin(options));
    this.#turn = begun.catch(() => {});
    return begun;
  };

  async #begin({ role = "assistant", maxSteps, flushMs = 100, ...more }: MessageOptions): Promise<MessageWriter> {
    this.#earlier ??= messagesOf(this.#pawl, this.#lease.id); // in the first attempt too: the task may have come with one
    const earlier = await this.#earlier;
    let ref = earlier[this.#begun];
    if (!ref) {
      const params = { path: { id: this.#lease.id }, header: { "Idempotency-Key": `${this.#lease.id}:${this.#lease.attempt}:message:${this.#begun}` } };
      const body = { ...fence(this.#lease), role, ...more, ...(maxSteps === undefined ? {} : { max_steps: maxSteps }) };
      const made = await again(() => this.#pawl.POST("/v1/items/{id}/messages", { params, body }));
      ref = { id: made.id, status: "streaming", offset: 0, step_number: made.step_number, max_steps: made.max_steps };
    }
    this.#begun++;
    if (ref.status === "stopped") throw new Stopped();
    const writing = new Writing(this.#pawl, this.#lease, ref, Math.min(flushMs, 1000), this.#over, this.#steps);
    this.#open.push(writing);
    return writing;
  }

  /** Saves what is written and not saved. It throws why that was refused, unless the message was stopped. */
  async flush(): Promise<void> {
    for (const m of this.#open) await m.flush();
    for (const m of this.#open) m.check();
  }
}

class Writing implements MessageWriter {
  readonly id: string;
  readonly maxSteps: number;
  readonly #pawl: Pawl;
  readonly #lease: Lease;
  readonly #writer: Writer;
  readonly #lost = new AbortController();
  readonly #steps: Steps;
  #step: number;
  #ended: boolean;
  #running = ""; // the name of the running step
  #wrote = false; // chunks that no step has ended

  constructor(pawl: Pawl, lease: Lease, ref: Schemas["MessageRef"], every: number, over: AbortSignal, steps: Steps) {
    this.#steps = steps;
    this.id = ref.id;
    this.maxSteps = ref.max_steps;
    this.#pawl = pawl;
    this.#lease = lease;
    this.#step = ref.step_number;
    this.#ended = ref.status !== "streaming";
    if (over.aborted) this.#lost.abort(over.reason);
    over.addEventListener("abort", () => this.#lost.abort(over.reason), { once: true });
    this.#writer = new Writer(pawl, lease, ref, every, this.#lost);
  }

  get stepNumber(): number {
    return this.#step;
  }

  get ended(): boolean {
    return this.#ended;
  }

  text(text: string): Promise<void> {
    return text ? this.write({ type: "text", text }) : Promise.resolve();
  }

  reasoning(text: string): Promise<void> {
    return text ? this.write({ type: "reasoning", text }) : Promise.resolve();
  }

  toolCall(id: string, name: string, input: unknown): Promise<void> {
    return this.write({ type: "tool_call", tool_call_id: id, tool_name: name, input: plain(input) });
  }

  toolResult(id: string, name: string, output: unknown, isError = false): Promise<void> {
    return this.write({ type: "tool_result", tool_call_id: id, tool_name: name, output: plain(output), ...(isError ? { is_error: true } : {}) });
  }

  async write(...chunks: Chunk[]): Promise<void> {
    if (this.#ended) return;
    this.#lost.signal.throwIfAborted();
    this.#wrote ||= chunks.length > 0;
    for (const chunk of chunks) await this.#writer.say(chunk);
  }

  namedStep<T>(name: string, fn: (message: MessageWriter) => T | Promise<T>, ...args: unknown[]): Promise<T> {
    if (isRetried(fn)) throw new Permanent(`step "${name}": a step of a message cannot be tried again within the attempt; let its error pass`);
    return this.#steps.alone(name, async () => {
      const hashed = argsOf(args);
      const known = await this.#steps.find(name);
      if (known) {
        replayedStep(name);
        return replayed<T>(name, known, hashed, this.id);
      }
      this.#enter(name);
      try {
        return await this.#steps.inside(name, () => fn(this), async (snapshot, took) => {
          await this.#endStep(snapshot, { name, ...kept(hashed, took) });
          const metadata = { args: hashed.parts, message_id: this.id };
          if (!this.#ended) this.#steps.remember(name, { type: "iteration_end", args_hash: hashed.hash, snapshot, metadata });
        });
      } finally {
        this.#running = "";
      }
    });
  }

  #enter(name: string): void {
    if (this.#running) throw new Error(`step "${name}": step "${this.#running}" of the message is running; the steps of a message come one after the other`);
    if (this.#wrote) {
      throw new Error(`step "${name}": the message has words that no step has ended, and a later attempt would write them again: write inside of steps, and let the error of a step pass`);
    }
    this.#running = name;
  }

  #outside(call: string): void {
    if (this.#running) throw new Error(`step "${this.#running}": ${call} is called before the step has ended; it ends by itself`);
  }

  async step(snapshot?: unknown): Promise<void> {
    this.#outside("step");
    await this.#endStep(snapshot === undefined ? undefined : plain(snapshot));
  }

  async #endStep(snapshot: unknown, named?: Parameters<Writer["step"]>[2]): Promise<void> {
    if (this.#ended) return;
    this.#lost.signal.throwIfAborted();
    await this.#writer.step(this.#step + 1, snapshot, named);
    this.#lost.signal.throwIfAborted();
    this.#step++;
    this.#wrote = false;
  }

  async finish(usage?: Usage): Promise<void> {
    if (this.#ended) return;
    this.#outside("finish");
    await this.flush();
    this.#lost.signal.throwIfAborted();
    await this.#writer.try(() => finish(this.#pawl, this.#lease, this.id, usage, this.#lost.signal));
    this.#lost.signal.throwIfAborted();
    this.#ended = true;
  }

  async flush(): Promise<void> {
    if (!this.#ended) await this.#writer.flush();
  }

  check(): void {
    const { aborted, reason } = this.#lost.signal;
    if (this.#writer.unsaved && aborted && !(reason instanceof Stopped)) throw reason;
  }
}

/** Ends a message; one that has ended meanwhile is as it is. */
export async function finish(pawl: Pawl, lease: Lease, id: string, usage: Usage | undefined, signal: AbortSignal): Promise<Message> {
  const params = { path: { id } };
  try {
    return await report(() => pawl.POST("/v1/messages/{id}:finish", { params, body: { ...fence(lease), ...(usage ? { usage } : {}) } }), signal);
  } catch (error) {
    if (!(error instanceof PawlError) || error.code !== "conflict") throw error;
    return again(() => pawl.GET("/v1/messages/{id}", { params }), signal);
  }
}
