import { now } from "./clock.ts";
import { PawlError, type Lease, type Schemas } from "./client.ts";
import type { Heartbeats } from "./heartbeats.ts";

type Heartbeat = Schemas["Beat"];

/** The item was cancelled while it was done. */
export class Cancelled extends Error {
  override readonly name = "Cancelled";
}

export interface Keeping {
  /** Between two heartbeats, in ms; by default a tenth of the lease. */
  every?: number;
  /** After how many heartbeats in a row that failed the lease counts as lost; 3 by default. */
  maxFailures?: number;
  /** Told of the answers to heartbeats that did not lose the lease. */
  extended?: (beat: Heartbeat) => void;
  /** Told why a heartbeat failed. */
  failed?: (error: unknown) => void;
  /** Told once that the lease is lost. */
  lost: (reason: Error) => void;
}

const longest = 2 ** 31 - 1; // of a timer

/**
 * Keeps a lease by heartbeats, until `stop` or until it is lost: the server says so, it has ended, or `maxFailures`
 * heartbeats in a row have failed. `left` is how many ms it has, by the last answer.
 */
export function keepLease(beats: Heartbeats, lease: Lease, keeping: Keeping): { left: () => number; stop: () => void } {
  const { every = lease.lease_seconds * 100, maxFailures = 3 } = keeping;
  let end = endOf(lease, now()) ?? Infinity;
  let newest = -Infinity;
  let failures = 0;
  let over = false;
  let timer: NodeJS.Timeout | undefined;
  const left = () => end - now();
  const stop = () => {
    over = true;
    clearTimeout(timer);
    rest();
  };
  const lose = (reason: Error) => {
    stop();
    keeping.lost(reason);
  };
  const watch = () => {
    clearTimeout(timer);
    timer = setTimeout(() => setImmediate(look), Math.min(Math.max(left(), 1), longest)).unref(); // answers that are there are read first
  };
  const look = () => {
    if (over) return;
    if (left() > 0) watch();
    else lose(gone("the lease has ended, and no heartbeat was answered"));
  };
  const rest = beats.keep(lease, every, async (at, said) => {
    let beat: Heartbeat | undefined;
    let error: unknown;
    try {
      beat = await said;
    } catch (e) {
      error = e;
    }
    if (over || at < newest) return;
    newest = at;
    if (!beat) {
      keeping.failed?.(error);
      const reason = lossOf(error) ?? (++failures >= maxFailures ? gone(`${failures} heartbeats in a row failed`) : undefined);
      if (reason) lose(reason);
    } else if (beat.cancelled) {
      lose(new Cancelled("the item was cancelled"));
    } else {
      failures = 0;
      end = endOf(beat, at) ?? end;
      watch();
      keeping.extended?.(beat);
    }
  });
  watch();
  return { left, stop };
}

/** When a lease ends, by an answer to what was sent at a time of this process. */
function endOf({ lease_expires_at, server_time }: Pick<Heartbeat, "lease_expires_at" | "server_time">, at: number): number | undefined {
  return lease_expires_at === undefined ? undefined : at + Date.parse(lease_expires_at) - Date.parse(server_time);
}

/** Why a lease is over, if the refusal of a heartbeat means that. */
function lossOf(error: unknown): Error | undefined {
  if (!(error instanceof PawlError)) return undefined;
  if (error.code === "lease_lost") return error;
  if (error.code === "conflict" && error.problem.state === "cancelled") return new Cancelled("the item was cancelled");
  return error.code === "conflict" || error.code === "not_found" ? gone(error.message) : undefined;
}

function gone(detail: string): PawlError {
  return new PawlError({ type: "about:blank", title: "lease lost", detail, status: 409, code: "lease_lost" });
}
