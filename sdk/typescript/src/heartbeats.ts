import { Worker } from "node:worker_threads";
import type { Beat, Pace, Told } from "./beat.ts";
import { now } from "./clock.ts";
import { fence, must, placeOf, type Lease, type Pawl, type Schemas } from "./client.ts";

type Heartbeat = Schemas["Beat"];

/** Told when a heartbeat was sent (see now), and its answer. */
type Answered = (at: number, said: Promise<Heartbeat>) => void;

interface Kept {
  lease: Lease;
  pace: Pace;
  answered: Answered;
  timer?: NodeJS.Timeout | undefined; // of the next one; undefined = there is none any more
}

/**
 * The heartbeats of a worker. They come from a thread of their own, which a handler that keeps
 * the event loop busy cannot starve. A client with its own `fetch` has them on the event loop, as
 * has a program whose bundler left the thread's file out: a bundle in CommonJS has no `import.meta.url`.
 */
export class Heartbeats {
  readonly #pawl: Pawl;
  readonly #kept = new Map<number, Kept>();
  #thread: Worker | undefined;
  #last = 0;

  constructor(pawl: Pawl) {
    this.#pawl = pawl;
    const workerData = placeOf(pawl);
    if (!workerData) return;
    try {
      const file = import.meta.url.endsWith(".ts") ? "./beat.ts" : "./beat.js";
      this.#thread = new Worker(new URL(file, import.meta.url), { workerData });
    } catch {
      return;
    }
    this.#thread.unref();
    this.#thread.on("message", (beat: Beat) => this.#kept.get(beat.n)?.answered(beat.at, must(answerOf(beat))));
    this.#thread.on("error", () => {
      this.#thread = undefined;
      for (const kept of this.#kept.values()) this.#here(kept);
    });
  }

  /** Keeps a lease alive until the function that it returns is called. */
  keep(lease: Lease, every: number, answered: Answered): () => void {
    const n = ++this.#last;
    // The first one comes soon: it tells the server that the item was begun.
    const pace = { first: Math.min(every, 1000), every, limit: Math.min(Math.max(every, 500), 10_000) };
    const kept: Kept = { lease, pace, answered };
    this.#kept.set(n, kept);
    if (this.#thread) this.#tell({ n, id: lease.id, body: JSON.stringify(fence(lease)), pace });
    else this.#here(kept);
    return () => {
      this.#kept.delete(n);
      clearTimeout(kept.timer);
      kept.timer = undefined;
      this.#tell({ n });
    };
  }

  #tell(told: Told): void {
    this.#thread?.postMessage(told);
  }

  /** Sends the heartbeats from the event loop. */
  #here(kept: Kept): void {
    const { first, every, limit } = kept.pace;
    const params = { path: { id: kept.lease.id } };
    const beat = async () => {
      const at = now();
      const late = new AbortController();
      const timer = setTimeout(() => setImmediate(() => late.abort(new Error("no answer in time"))), limit); // one that is there is read first
      const said = must(this.#pawl.POST("/v1/items/{id}:heartbeat", { params, body: fence(kept.lease), signal: late.signal }));
      kept.answered(at, said);
      await said.catch(() => {}); // heartbeats that overlap would fail together
      clearTimeout(timer);
      if (kept.timer) kept.timer = setTimeout(beat, Math.max(at + every - now(), 0));
    };
    kept.timer = setTimeout(beat, first);
  }

  async end(): Promise<void> {
    await this.#thread?.terminate();
  }
}

/** An answer of the thread as openapi-fetch has it. */
async function answerOf({ status, retryAfter, said, error }: Beat): Promise<{ data?: Heartbeat; error?: unknown; response: Response }> {
  if (status === undefined) throw new TypeError(error);
  const response = new Response(null, { status: status === 200 ? 204 : status, headers: retryAfter ? { "Retry-After": retryAfter } : {} });
  return response.ok ? { data: said as Heartbeat, response } : { error: said, response };
}
