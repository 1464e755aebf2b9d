import { fence, PawlError, report, type Chunk, type Lease, type Pawl, type Schemas } from "./client.ts";

/** Thrown into a generation whose message somebody has stopped. */
export class Stopped extends Error {
  override readonly name = "Stopped";
  constructor() {
    super("the message was stopped");
  }
}

const most = 64 * 1024; // characters that are gathered before they are sent at once

/** Says chunks in an open message, in order, gathered by time. */
export class Writer {
  readonly #pawl: Pawl;
  readonly #lease: Lease;
  readonly #id: string;
  readonly #every: number;
  readonly #lost: AbortController;
  #offset: number;
  #queue: Chunk[] = [];
  #size = 0;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> = Promise.resolve();

  /** `lost` is aborted with the reason when nothing more can be said. */
  constructor(pawl: Pawl, lease: Lease, open: { id: string; offset: number }, every: number, lost: AbortController) {
    this.#pawl = pawl;
    this.#lease = lease;
    this.#id = open.id;
    this.#offset = open.offset;
    this.#every = every;
    this.#lost = lost;
  }

  /** Takes a chunk; it waits only when much is waiting to be sent. */
  async say({ ...chunk }: Chunk): Promise<void> {
    if (chunk.text) chunk.text = chunk.text.replaceAll("\0", "\ufffd"); // the server takes halves of characters, and no NUL
    const last = this.#queue.at(-1);
    const size = JSON.stringify(chunk).length;
    if (last?.text !== undefined && chunk.text !== undefined && last.type === chunk.type && last.text.length < most) {
      last.text += chunk.text;
    } else {
      this.#queue.push(chunk);
    }
    this.#size += size;
    if (this.#size > most) return this.flush();
    this.#timer ??= setTimeout(() => void this.flush(), this.#every);
  }

  /** Comes back when all that was said is saved, or nothing more can be. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sending = this.#sending.then(() => this.#send());
    return this.#sending;
  }

  async #send(): Promise<void> {
    if (this.#lost.signal.aborted || this.#queue.length === 0) return;
    const chunks = this.#queue;
    this.#queue = [];
    this.#size = 0;
    const saved = await this.try(async () => {
      const body = { ...fence(this.#lease), offset: this.#offset, chunks };
      const said = await report(() => this.#pawl.POST("/v1/messages/{id}:append", { params: { path: { id: this.#id } }, body }), this.#lost.signal);
      this.#offset = said.offset;
      return true;
    });
    if (!saved) this.#queue.unshift(...chunks);
  }

  /** Something that was said is not saved; after flush it never will be. */
  get unsaved(): boolean {
    return this.#queue.length > 0;
  }

  /** Saves a step, by its number, after all that was said in it. */
  async step(number: number, snapshot: unknown, named: Pick<Schemas["StepBody"], "name" | "args_hash" | "metadata"> = {}): Promise<void> {
    await this.flush();
    if (this.#lost.signal.aborted) return;
    await this.try(async () => {
      const body = { ...fence(this.#lease), snapshot, ...named };
      const once = { "Idempotency-Key": `${this.#id}:step:${number}:${this.#lease.attempt}` }; // a step counts, so it is not to be saved twice
      await report(() => this.#pawl.POST("/v1/messages/{id}:step", { params: { path: { id: this.#id }, header: once }, body }), this.#lost.signal);
    });
  }

  /** Runs a write; a refusal ends the generation. */
  async try<T>(write: () => Promise<T>): Promise<T | undefined> {
    try {
      return await write();
    } catch (error) {
      const stopped = error instanceof PawlError && error.problem.state === "stopped";
      this.#lost.abort(stopped ? new Stopped() : error);
      return undefined;
    }
  }
}
