import { setTimeout as pause } from "node:timers/promises";
import { fence, must, PawlError, type Lease, type Pawl, type Schemas } from "./client.ts";
import { failureOf, handIn, resultOf, type Outcome, type Refusal } from "./handin.ts";
import { wordsOf } from "./failure.ts";
import { Steps } from "./step.ts";
import { attempt } from "./trace.ts";
import { Waits, type ChildResult, type ChildWait, type Reservation } from "./waits.ts";
import { Stopped } from "./writer.ts";

export interface WorkOptions {
  /** Who claims: one per process. */
  workerId: string;
  /** The types of items that are claimed. */
  types: string[];
  /** How long a claim lasts without a heartbeat; by default the lease of the types, or 300 s if they differ or have none. */
  leaseSeconds?: number;
  /** How many items are done at once; 1 by default. */
  concurrency?: number;
  /** Ends the work: what is under way has graceMs to end, then it is given back. */
  signal?: AbortSignal;
  /** 30 s by default. */
  graceMs?: number;
  /** What the list of workers shows. */
  name?: string;
  version?: string;
  /** Where the worker logs: the console by default; false = nowhere. */
  log?: Log | false;
  /** Told of every call about an item that the server refused or could not be asked. */
  onRefused?: (refusal: Refusal) => void;
}

/** Where a worker logs, such as the console or pino. */
export interface Log {
  info(message: string, about: object): void;
  warn(message: string, about: object): void;
  error(message: string, about: object): void;
}

export interface Job {
  pawl: Pawl;
  lease: Lease;
  /** Ends when the lease is lost, the item cancelled or its message stopped: pass it on as abortSignal. */
  abortSignal: AbortSignal;
  /**
   * Runs `fn` once for the item: its result is saved as JSON under the name, and a later
   * attempt gets it without running `fn`. What `fn` throws is not saved. `args` are what the
   * result depends on: a result that was saved with others is an error. If the process dies
   * after `fn` and before its result is saved, `fn` runs again; see `once`.
   */
  step<T>(name: string, fn: () => T | Promise<T>, ...args: unknown[]): Promise<T>;
  /** Creates a child of the item's task. A later call with the key, also in a later attempt, answers with the same child. */
  spawn(key: string, task: Schemas["NewTask"]): Promise<Schemas["Task"]>;
  /**
   * Waits until enough children have ended, without a lease: it throws `Suspended`, and the next
   * attempt runs the function from its beginning and gets the results, in the order of `ids`.
   * They are saved under the name like the result of a step. A child that had not ended has no `state`.
   */
  awaitChildren(name: string, wait: ChildWait): Promise<ChildResult[]>;
  /**
   * Reserves an amount of a budget before it is spent; `settle` records what was spent. A later
   * attempt goes on with an unsettled reservation of its name: `key`, or else the step that the
   * call is in and the number of earlier calls there. Concurrent calls need keys. If the budget
   * is exhausted, it throws `Permanent`, or `Suspended` where the budget suspends or asks.
   */
  reserve(budget: string, amount: number, key?: string): Promise<Reservation>;
}

/** The item was cancelled while it was done. */
export class Cancelled extends Error {
  override readonly name = "Cancelled";
}

/** The item is to be given back: the worker ends. */
class Ending extends Error {}

const silent: Log = { info() {}, warn() {}, error() {} };
const passing = ["unavailable", "limit", "internal"];

/**
 * Claims items and does them until `signal` ends: each under heartbeats, handed in with
 * what `handle` comes to, failed with what it throws (see `Permanent` and `RetryAfter`). A
 * result is submitted where the item's type wants it accepted. It throws when the server
 * refuses to let this worker claim.
 */
export async function work(pawl: Pawl, options: WorkOptions, handle: (job: Job) => Promise<unknown>): Promise<void> {
  const { workerId, types, leaseSeconds, concurrency = 1, graceMs = 30_000 } = options;
  const log = options.log === false ? silent : (options.log ?? console);
  const refused = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, refused.signal]) : refused.signal;
  const ending = new AbortController();
  let grace: NodeJS.Timeout | undefined;
  signal.addEventListener("abort", () => (grace = setTimeout(() => ending.abort(new Ending()), graceMs).unref()), { once: true });
  const one = async () => {
    while (!signal.aborted) {
      try {
        const body = { worker_id: workerId, types, lease_seconds: leaseSeconds, wait_seconds: 20 };
        const { items } = await must(pawl.POST("/v1/claims", { body, signal }));
        for (const lease of items) await hold({ pawl, log, onRefused: options.onRefused }, lease, ending.signal, handle);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof PawlError && !passing.includes(error.code)) {
          refused.abort(error); // the others end too
          throw error;
        }
        log.warn("pawl: nothing can be claimed for now", { worker_id: workerId, error: wordsOf(error) });
        await pause(Math.max(500, error instanceof PawlError ? error.retryAfter * 1000 : 0), undefined, { signal }).catch(() => {});
      }
    }
  };
  const over = new AbortController();
  const registering = register(pawl, options, log, over.signal);
  const ended = await Promise.allSettled(Array.from({ length: concurrency }, one));
  clearTimeout(grace);
  over.abort();
  await registering;
  for (const e of ended) if (e.status === "rejected") throw e.reason;
}

/** Keeps the worker in the list of workers. */
async function register(pawl: Pawl, { workerId, types, name, version }: WorkOptions, log: Log, over: AbortSignal): Promise<void> {
  const body = { worker_id: workerId, types, ...(name ? { name } : {}), ...(version ? { version } : {}) };
  while (!over.aborted) {
    try {
      await must(pawl.POST("/v1/workers", { body, signal: over }));
    } catch (error) {
      if (!over.aborted) log.warn("pawl: the list of workers did not take this one", { worker_id: workerId, error: wordsOf(error) });
    }
    await pause(30_000, undefined, { signal: over, ref: false }).catch(() => {});
  }
}

interface Worker {
  pawl: Pawl;
  log: Log;
  onRefused: ((refusal: Refusal) => void) | undefined;
}

/** Does one item under heartbeats. */
async function hold({ pawl, log, onRefused }: Worker, lease: Lease, ending: AbortSignal, handle: (job: Job) => Promise<unknown>): Promise<void> {
  const span = attempt(lease);
  const about = { item_id: lease.id, task_id: lease.task_id, type: lease.type, attempt: lease.attempt, ...span.about };
  const refused = (verb: Refusal["verb"], error: unknown) => {
    log.warn(`pawl: ${verb} was refused`, { ...about, error: wordsOf(error), ...(error instanceof PawlError ? { code: error.code } : {}) });
    onRefused?.({ lease, verb, error });
  };
  const over = new AbortController();
  const stop = () => over.abort(ending.reason);
  if (ending.aborted) stop();
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
      if (over.signal.aborted) return; // it was handed in meanwhile
      const lost = error instanceof PawlError && error.code === "lease_lost";
      refused("heartbeat", error);
      if (lost || performance.now() > until) over.abort(error); // nobody can say that it is still ours
    }
    if (over.signal.aborted) clearInterval(beat);
  }, ms / 10);
  const began = performance.now();
  log.info("pawl: an item is begun", about);
  const steps = new Steps(pawl, lease);
  const { spawn, awaitChildren, reserve } = new Waits(pawl, lease, steps);
  try {
    const job = { pawl, lease, abortSignal: over.signal, step: steps.run, spawn, awaitChildren, reserve };
    const outcome = await span.within(() => outcomeOf(job, handle));
    span.end(outcome, over.signal.reason instanceof Cancelled);
    if (!outcome) {
      log.warn("pawl: an item was lost", { ...about, error: wordsOf(over.signal.reason) });
      return;
    }
    const limit = AbortSignal.timeout(Math.max(Math.ceil(until - performance.now()), 1000));
    const taken = await span.within(() => handIn(pawl, lease, outcome, limit, refused));
    const duration_ms = Math.round(performance.now() - began);
    if (taken?.verb === "fail") log.warn("pawl: an item has failed", { ...about, duration_ms, error: taken.error.message, retryable: taken.retryable });
    else if (taken) log.info(`pawl: an item is done: ${taken.verb}`, { ...about, duration_ms });
    else log.error("pawl: what an item came to was not taken", { ...about, duration_ms, verb: outcome.verb });
  } finally {
    over.abort();
    clearInterval(beat);
    ending.removeEventListener("abort", stop);
  }
}

/** What the item came to; undefined when it is no longer ours. */
async function outcomeOf(job: Job, handle: (job: Job) => Promise<unknown>): Promise<Outcome | undefined> {
  const over = job.abortSignal;
  try {
    return resultOf(await handle(job));
  } catch (error) {
    if (over.reason instanceof Ending) return { verb: "release" };
    if (over.reason instanceof Stopped) return resultOf(null);
    if (over.aborted || (error instanceof PawlError && error.code === "lease_lost")) return undefined;
    return failureOf(error);
  }
}
