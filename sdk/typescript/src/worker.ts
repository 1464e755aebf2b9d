import { setTimeout as pause } from "node:timers/promises";
import { now } from "./clock.ts";
import { fence, must, PawlError, report, within, type Lease, type Pawl, type Schemas } from "./client.ts";
import { Effects, type EffectOptions } from "./effect.ts";
import { failureOf, handIn, resultOf, type Outcome, type Refusal } from "./handin.ts";
import { Permanent, wordsOf } from "./failure.ts";
import { Heartbeats } from "./heartbeats.ts";
import { plain } from "./json.ts";
import { Cancelled, keepLease } from "./lease.ts";
import { Messages, type MessageOptions, type MessageWriter } from "./message.ts";
import { Sleeps, type SignalWait } from "./sleeps.ts";
import { Steps } from "./step.ts";
import { attempt } from "./trace.ts";
import { Suspended, Waits, type ChildResult, type ChildWait, type Reservation } from "./waits.ts";
import { Stopped } from "./writer.ts";

export interface WorkOptions {
  /** Who claims: one per process. */
  workerId: string;
  /** The types of items that are claimed. */
  types: string[];
  /** How long a claim lasts without a heartbeat; by default that of the type of each item, or 300 s. */
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

export type CheckpointOptions = Partial<Pick<Schemas["CheckpointBody"], "type" | "metadata">>;

export type PartOptions = Pick<Schemas["PartBody"], "draft" | "evidence" | "notes" | "seq">;

export interface Job {
  pawl: Pawl;
  lease: Lease;
  /** Ends when the lease is lost, the item cancelled or its message stopped: pass it on as abortSignal. */
  abortSignal: AbortSignal;
  /**
   * Runs `fn` once for the item: its result is saved as JSON under the name, and a later
   * attempt gets it without running `fn`. What `fn` throws is not saved. `args` are what the
   * result depends on: a result that was saved with others is an error. If the process dies
   * after `fn` and before its result is saved, `fn` runs again; see `once`. With `retried(fn)` in
   * place of `fn`, it is called again when it fails, within the attempt.
   *
   * @example
   * const page = await step("fetch", retried(() => download(url), { tries: 5 }), url);
   */
  step<T>(name: string, fn: () => T | Promise<T>, ...args: unknown[]): Promise<T>;
  /**
   * Suspends the item for a time, without a lease: it throws `Suspended`, which you do not catch.
   * The attempt after that time runs the function from its beginning, and this call returns. A
   * later call with the name and another time keeps the first end.
   */
  sleep(name: string, seconds: number): Promise<void>;
  /**
   * Waits for a signal without a lease: it throws `Suspended` until the signal was sent. It
   * returns the signal's payload, also in later attempts. A signal that was sent before counts.
   * After `timeoutSeconds` it throws `SignalTimeout`, also in later attempts.
   */
  waitFor<T = unknown>(name: string, signal: string, options?: SignalWait): Promise<T>;
  /** Reports how far the item is, 0 to 100, and its stage in a few words. */
  progress(percent: number | undefined, stage?: string): Promise<void>;
  /** Saves a checkpoint. The next attempt finds the newest of each name in the item's resume state. */
  checkpoint(name: string, snapshot: unknown, options?: CheckpointOptions): Promise<Schemas["CheckpointRef"]>;
  /** Hands in a piece of the item's result. A later part of the same key and seq takes its place. */
  part(key: string, payload: unknown, options?: PartOptions): Promise<Schemas["ItemPart"]>;
  /**
   * Goes on with the open message of the item, or starts one in the task's thread. The n-th
   * message of an attempt is the n-th of its item: start them in the same order in every
   * attempt. If it was stopped, it throws `Stopped`, which you do not catch.
   */
  message(options?: MessageOptions): Promise<MessageWriter>;
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
   * call is in and the number of earlier calls there. So does the step's function when it runs
   * again in this attempt. Concurrent calls need keys. If the budget is exhausted, it throws
   * `Permanent`, or `Suspended` where the budget suspends or asks.
   */
  reserve(budget: string, amount: number, key?: string): Promise<Reservation>;
  /**
   * Runs `fn`, which changes something outside of Pawl, once, with the effect's key, and returns its
   * recorded answer. The effect is recorded before, and what came of it after. If `fn` throws
   * `NotDone`, it is known not to have happened, and the next attempt sends it; after another
   * error, or a crash, it is unknown, and `onUnknown` says what is done. Where a person must
   * decide, it throws `Suspended`, which you do not catch.
   */
  effect<T>(name: string, options: EffectOptions, fn: (key: string) => T | Promise<T>): Promise<T>;
}

/** The item is to be given back: the worker ends. */
class Ending extends Error {}

const silent: Log = { info() {}, warn() {}, error() {} };
const passing = ["unavailable", "limit", "internal"];
const claimMs = 35_000; // of a claim, which waits for 20 s
const registerMs = 10_000;
const quarantineWait = 2_000; // between two claims of a quarantined database
const quarantineLog = 60_000; // between two lines about it

/**
 * Claims items and does them until `signal` ends: each under heartbeats, handed in with
 * what `handle` comes to, failed with what it throws (see `Permanent` and `RetryAfter`). A
 * result is submitted where the item's type wants it accepted. It throws when the server
 * refuses to let this worker claim.
 */
export async function work(pawl: Pawl, options: WorkOptions, handle: (job: Job) => Promise<unknown>): Promise<void> {
  const { workerId, types, leaseSeconds, concurrency = 1, graceMs = 30_000 } = options;
  if (types.length === 0) throw new RangeError("a worker without types would take the items of all others");
  const log = options.log === false ? silent : (options.log ?? console);
  const refused = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, refused.signal]) : refused.signal;
  const ending = new AbortController();
  let grace: NodeJS.Timeout | undefined;
  signal.addEventListener("abort", () => (grace = setTimeout(() => ending.abort(new Ending()), graceMs).unref()), { once: true });
  const beats = new Heartbeats(pawl);
  let silentUntil = 0; // of a quarantine
  const one = async () => {
    while (!signal.aborted) {
      try {
        const body = { worker_id: workerId, types, lease_seconds: leaseSeconds, wait_seconds: 20 };
        const { items } = await within(claimMs, () => must(pawl.POST("/v1/claims", { body, signal })));
        for (const lease of items) await hold({ pawl, log, onRefused: options.onRefused, beats }, lease, ending.signal, handle);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof PawlError && error.code === "quarantined") {
          if (Date.now() >= silentUntil) {
            silentUntil = Date.now() + quarantineLog;
            log.warn("pawl: the database is quarantined, waiting until it is adopted", { worker_id: workerId, error: wordsOf(error) });
          }
          await pause(quarantineWait, undefined, { signal }).catch(() => {});
          continue;
        }
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
  await Promise.all([registering, beats.end()]);
  for (const e of ended) if (e.status === "rejected") throw e.reason;
}

/** Keeps the worker in the list of workers. */
async function register(pawl: Pawl, { workerId, types, name, version }: WorkOptions, log: Log, over: AbortSignal): Promise<void> {
  const body = { worker_id: workerId, types, ...(name ? { name } : {}), ...(version ? { version } : {}) };
  while (!over.aborted) {
    try {
      await within(registerMs, () => must(pawl.POST("/v1/workers", { body, signal: over })));
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
  beats: Heartbeats;
}

const cancelGrace = 1000; // ms that a handler has after the end of its abortSignal, when the worker ends

/** Does one item under heartbeats. */
async function hold({ pawl, log, onRefused, beats }: Worker, lease: Lease, ending: AbortSignal, handle: (job: Job) => Promise<unknown>): Promise<void> {
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
  const { left, stop: rest } = keepLease(beats, lease, {
    extended: ({ stopped }) => {
      if (stopped.length > 0) over.abort(new Stopped());
    },
    failed: (error) => refused("heartbeat", error),
    lost: (reason) => over.abort(reason),
  });
  let stubborn: NodeJS.Timeout | undefined;
  let abandon = () => {};
  const abandoned = new Promise<Outcome>((resolve) => {
    abandon = () => {
      stubborn = setTimeout(() => {
        log.warn("pawl: the handler ignores its abortSignal; its item is given back", about);
        resolve({ verb: "release" });
      }, cancelGrace);
    };
  });
  if (ending.aborted) abandon();
  else ending.addEventListener("abort", abandon, { once: true });
  const began = now();
  log.info("pawl: an item is begun", about);
  const patience = () => (ending.aborted ? 0 : left());
  const steps = new Steps(pawl, lease, patience, over.signal);
  const messages = new Messages(pawl, lease, over.signal, steps);
  try {
    const job = jobOf(pawl, lease, over.signal, steps, messages, patience);
    const outcome = await Promise.race([span.within(() => outcomeOf(job, messages, handle)), abandoned]);
    clearTimeout(stubborn);
    ending.removeEventListener("abort", abandon);
    span.end(outcome, over.signal.reason instanceof Cancelled);
    if (!outcome) {
      log.warn("pawl: an item was lost", { ...about, error: wordsOf(over.signal.reason) });
      return;
    }
    const end = now() + Math.max(left(), 0); // heartbeats go on meanwhile: an item whose outcome is never taken is another worker's then
    const taken = await span.within(() => handIn(pawl, lease, outcome, () => end - now(), refused));
    const duration_ms = Math.round(now() - began);
    if (taken?.verb === "fail") log.warn("pawl: an item has failed", { ...about, duration_ms, error: taken.error.message, retryable: taken.retryable });
    else if (taken) log.info(`pawl: an item is done: ${taken.verb}`, { ...about, duration_ms });
    else log.error("pawl: what an item came to was not taken", { ...about, duration_ms, verb: outcome.verb });
  } finally {
    rest();
    over.abort();
    ending.removeEventListener("abort", stop);
  }
}

/** What a handler gets. */
function jobOf(pawl: Pawl, lease: Lease, abortSignal: AbortSignal, steps: Steps, { message }: Messages, left: () => number): Job {
  const { spawn, awaitChildren, reserve } = new Waits(pawl, lease, steps, left);
  const { sleep, waitFor } = new Sleeps(lease, steps);
  const { effect } = new Effects(pawl, lease, () => steps.time(), left);
  const params = { path: { id: lease.id } };
  return {
    pawl, lease, abortSignal, step: steps.run, sleep, waitFor, message, spawn, awaitChildren, reserve, effect,
    progress: async (percent, stage) => {
      const body = { ...fence(lease), ...(percent === undefined ? {} : { progress: percent }), ...(stage === undefined ? {} : { stage }) };
      await report(() => pawl.POST("/v1/items/{id}:progress", { params, body }), undefined, left);
    },
    checkpoint: async (name, snapshot, options) => steps.save(name, { type: "custom", ...options, snapshot: plain(snapshot) }),
    part: async (key, payload, options) =>
      report(() => pawl.POST("/v1/items/{id}/parts", { params, body: { ...fence(lease), ...options, key, payload: plain(payload) } }), undefined, left),
  };
}

/** Whether an error says no more than that the message was stopped: others are reported, also after the stop. */
function isStop(error: unknown, over: AbortSignal): boolean {
  if (!(error instanceof Error)) return false;
  return error instanceof Stopped || (over.reason instanceof Stopped && error.name === "AbortError") || isStop(error.cause, over);
}

/** What the item came to; undefined when it is no longer ours, whatever the handler does then. */
async function outcomeOf(job: Job, messages: Messages, handle: (job: Job) => Promise<unknown>): Promise<Outcome | undefined> {
  const over = job.abortSignal;
  const lost = () => over.aborted && !(over.reason instanceof Ending) && !(over.reason instanceof Stopped);
  try {
    const result = await handle(job);
    await messages.flush();
    return lost() ? undefined : resultOf(result);
  } catch (error) {
    const unsaved = await messages.flush().then(() => undefined, (why: unknown) => why);
    if (over.reason instanceof Ending && !(error instanceof Permanent)) return { verb: "release" };
    if (isStop(error, over)) return resultOf(null);
    if (lost() || (error instanceof PawlError && error.code === "lease_lost")) return undefined;
    return failureOf(error instanceof Suspended ? (unsaved ?? error) : error);
  }
}
