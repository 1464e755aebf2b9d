import { setTimeout as pause } from "node:timers/promises";
import { PawlError } from "./client.ts";
import { Permanent, RetryAfter } from "./failure.ts";
import { Cancelled } from "./lease.ts";
import { Suspended } from "./waits.ts";
import { Stopped } from "./writer.ts";

/** How often a step tries its function within one attempt of the item. */
export interface Tries {
  /** Calls of the function, with the first: 1 to 100; 3 by default. */
  tries?: number;
  /** Before the second call; doubled with each further one, give or take a fifth. 1 by default. */
  baseSeconds?: number;
  /** The longest of these delays; 30 by default, or `baseSeconds` where that is longer. */
  maxSeconds?: number;
  /** Whether a call that failed with the error may be followed by another; always by default. */
  when?: (error: unknown) => boolean;
}

type Known = Required<Omit<Tries, "when">> & Pick<Tries, "when">;

const maxTries = 100;
const jitter = 0.2;
const longest = 2 ** 31 - 1; // ms of a timer
const known = new WeakMap<object, Known>();

/**
 * The function of a step, to be called again within the attempt when it fails. The lease is kept meanwhile, the
 * handler goes on afterwards, and no failure of the item is counted. The error of the last call passes. So does, at
 * once, `Permanent`, `Suspended`, a `RetryAfter` of more than `maxSeconds`, and the error of any call once
 * `abortSignal` has ended. A shorter `RetryAfter` is waited for. Calls that failed are not saved: an attempt after a
 * crash has all its calls again. What a failed call reserved of a budget and did not settle, the next one goes on
 * with; see `reserve`.
 *
 * Do not write to a message inside the step: each call writes its words again. It is for `step`; a direct call is one try. `namedStep` of a message refuses it, since what a call has written has
 * been read.
 *
 * @example
 * const page = await step("fetch", retried(() => download(url), { tries: 5 }), url);
 */
export function retried<T>(fn: () => T | Promise<T>, options: Tries = {}): () => Promise<T> {
  const { tries = 3, baseSeconds = 1, when } = options;
  const maxSeconds = options.maxSeconds ?? Math.max(30, baseSeconds);
  if (!(tries >= 1 && tries <= maxTries)) throw new RangeError(`tries must be from 1 to ${maxTries}`);
  if (!(baseSeconds >= 0 && maxSeconds >= 0)) throw new RangeError("a delay must not be negative");
  const out = async () => await fn();
  known.set(out, { tries, baseSeconds, maxSeconds, ...(when ? { when } : {}) });
  return out;
}

export const isRetried = (fn: object): boolean => known.has(fn);

/** Calls the function of a step, again as often as it may be tried, until `over` ends; before each call, `begin`. */
export async function tried<T>(fn: () => T | Promise<T>, over: AbortSignal, begin: () => void): Promise<T> {
  for (let failed = 1; ; failed++) {
    begin();
    try {
      return await fn();
    } catch (error) {
      const wait = delayAfter(fn, failed, error);
      if (wait === undefined) throw error;
      await pause(Math.min(wait * 1000, longest), undefined, { signal: over }).catch(() => {});
      if (over.aborted) throw error;
    }
  }
}

/** Seconds until the next call, after some that failed; undefined = there is none. */
export function delayAfter(fn: object, failed: number, error: unknown): number | undefined {
  const by = known.get(fn);
  if (!by || failed >= by.tries || endsAttempt(error) || (by.when && !by.when(error))) return undefined;
  const wait = Math.min(by.baseSeconds * 2 ** (failed - 1), by.maxSeconds) * (1 + jitter * (2 * Math.random() - 1));
  if (!(error instanceof RetryAfter)) return wait;
  return error.seconds <= by.maxSeconds ? Math.max(wait, error.seconds) : undefined;
}

function endsAttempt(error: unknown): boolean {
  return [Permanent, Suspended, Cancelled, Stopped].some((end) => error instanceof end) || (error instanceof PawlError && error.code === "lease_lost");
}
