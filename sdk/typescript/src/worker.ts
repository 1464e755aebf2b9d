import { setTimeout as pause } from "node:timers/promises";
import { again, fence, must, PawlError, type Lease, type Pawl } from "./client.ts";
import { Stopped } from "./writer.ts";

export interface WorkOptions {
  /** Who claims: one per process. */
  workerId: string;
  /** The types of items that are claimed. */
  types: string[];
  /** How long a claim lasts without a heartbeat; 300 s by default. */
  leaseSeconds?: number;
  /** How many items are done at once; 1 by default. */
  concurrency?: number;
  /** Ends the work: what is under way has graceMs to end, then it is given back. */
  signal?: AbortSignal;
  /** 30 s by default. */
  graceMs?: number;
}

export interface Job {
  pawl: Pawl;
  lease: Lease;
  /** Ends when the lease is lost, the item cancelled or its message stopped: pass it on as abortSignal. */
  abortSignal: AbortSignal;
}

/** The item was cancelled while it was done. */
export class Cancelled extends Error {
  override readonly name = "Cancelled";
}

/** The item is to be given back: the worker ends. */
class Ending extends Error {}

/**
 * Claims items and does them until `signal` ends: each under heartbeats, completed with
 * what `handle` comes to, failed with what it throws.
 */
export async function work(pawl: Pawl, options: WorkOptions, handle: (job: Job) => Promise<unknown>): Promise<void> {
  const { workerId, types, leaseSeconds = 300, concurrency = 1, signal = new AbortController().signal, graceMs = 30_000 } = options;
  const ending = new AbortController();
  signal.addEventListener("abort", () => setTimeout(() => ending.abort(new Ending()), graceMs).unref(), { once: true });
  const one = async () => {
    while (!signal.aborted) {
      try {
        const body = { worker_id: workerId, types, lease_seconds: leaseSeconds, wait_seconds: 20 };
        const { items } = await must(pawl.POST("/v1/claims", { body, signal }));
        for (const lease of items) await hold(pawl, lease, ending.signal, handle);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof PawlError && !["unavailable", "limit", "internal"].includes(error.code)) throw error;
        await pause(500, undefined, { signal }).catch(() => {});
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, one));
}

/** Does one item under heartbeats. */
async function hold(pawl: Pawl, lease: Lease, ending: AbortSignal, handle: (job: Job) => Promise<unknown>): Promise<void> {
  const over = new AbortController();
  const stop = () => over.abort(ending.reason);
  ending.addEventListener("abort", stop, { once: true });
  const ms = lease.lease_seconds * 1000;
  let until = performance.now() + ms;
  const params = { path: { id: lease.id } };
  const beat = setInterval(async () => {
    const at = performance.now();
    try {
      const h = await must(pawl.POST("/v1/items/{id}:heartbeat", { params, body: fence(lease) }));
      until = at + ms;
      if (h.cancelled) over.abort(new Cancelled("the item was cancelled"));
      if (h.stopped.length > 0) over.abort(new Stopped());
    } catch (error) {
      if (error instanceof PawlError && error.code === "lease_lost") over.abort(error);
      else if (performance.now() > until) over.abort(error); // nobody can say that it is still ours
    }
  }, ms / 10);
  try {
    const end = await outcome(pawl, lease, over.signal, handle);
    if (end) await again(end, AbortSignal.timeout(ms));
  } catch (error) {
    if (!(error instanceof PawlError)) throw error; // a refusal: somebody else has the item, or it has ended
  } finally {
    clearInterval(beat);
    ending.removeEventListener("abort", stop);
  }
}

type Call = () => Promise<{ data?: unknown; error?: unknown; response: Response }>;

/** The call that ends the claim, if it is still ours. */
async function outcome(pawl: Pawl, lease: Lease, over: AbortSignal, handle: (job: Job) => Promise<unknown>): Promise<Call | undefined> {
  const params = { path: { id: lease.id } };
  try {
    const result = await handle({ pawl, lease, abortSignal: over });
    return () => pawl.POST("/v1/items/{id}:complete", { params, body: { ...fence(lease), result: result ?? null } });
  } catch (error) {
    if (over.aborted && over.reason instanceof Ending) return () => pawl.POST("/v1/items/{id}:release", { params, body: fence(lease) });
    if (over.aborted && over.reason instanceof Stopped) return () => pawl.POST("/v1/items/{id}:complete", { params, body: { ...fence(lease), result: null } });
    if (over.aborted || (error instanceof PawlError && error.code === "lease_lost")) return undefined;
    return () => pawl.POST("/v1/items/{id}:fail", { params, body: { ...fence(lease), error: error instanceof Error ? error.message : String(error) } });
  }
}
