import type { Lease, Pawl } from "./client.ts";
import { Heartbeats } from "./heartbeats.ts";
import { keepLease } from "./lease.ts";

export interface KeepAliveOptions {
  /** Between two heartbeats; by default a tenth of the lease. */
  intervalMs?: number;
  /** After how many heartbeats in a row that failed the lease counts as lost; 3 by default. */
  maxFailures?: number;
  /** Told once that the lease is lost: a PawlError with the code lease_lost, or Cancelled. Stop the work then: its result would be refused. */
  onLost?: (reason: Error) => void;
}

/** A lease that is kept alive. */
export interface KeepAlive {
  /** It was not stopped, and the lease is not lost. */
  readonly running: boolean;
  /** Why the lease is not ours any more. */
  readonly lost: Error | undefined;
  /** Ends the heartbeats. The lease stays until it is completed, failed or released, or ends. */
  stop(): void;
}

const shared = new WeakMap<Pawl, { beats: Heartbeats; leases: number }>(); // one thread for all leases of a client

/**
 * Keeps a lease of `POST /v1/claims` alive, until `stop` or until it is lost: the server says so, it has
 * ended, or `maxFailures` heartbeats in a row have failed. Heartbeats come from a thread, as those of `work`, which
 * does all this by itself.
 */
export function keepAlive(pawl: Pawl, lease: Lease, { intervalMs, maxFailures = 3, onLost }: KeepAliveOptions = {}): KeepAlive {
  const ms = lease.lease_seconds * 1000;
  const every = intervalMs ?? ms / 10;
  if (!(every > 0 && every < ms)) throw new RangeError("intervalMs must be above 0 and below the time of the lease");
  if (!(maxFailures >= 1)) throw new RangeError("maxFailures must be at least 1");
  const own = shared.get(pawl) ?? { beats: new Heartbeats(pawl), leases: 0 };
  shared.set(pawl, own);
  own.leases++;
  let running = true;
  let lost: Error | undefined;
  const stop = () => {
    if (!running) return;
    running = false;
    kept.stop();
    if (--own.leases > 0) return;
    shared.delete(pawl);
    void own.beats.end();
  };
  const kept = keepLease(own.beats, lease, {
    ...(intervalMs === undefined ? {} : { every: intervalMs }),
    maxFailures,
    lost: (reason) => {
      stop();
      lost = reason;
      onLost?.(reason);
    },
  });
  return {
    get running() {
      return running;
    },
    get lost() {
      return lost;
    },
    stop,
  };
}
