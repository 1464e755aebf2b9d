import { now } from "./clock.ts";
import { PawlError, type Lease, type Pawl } from "./client.ts";
import { Heartbeats } from "./heartbeats.ts";
import { Cancelled } from "./worker.ts";

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
const longest = 2 ** 31 - 1; // of a timer

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
  let failures = 0;
  let until = now() + Date.parse(lease.lease_expires_at) - Date.parse(lease.server_time);
  let timer: NodeJS.Timeout | undefined;
  const stop = () => {
    if (!running) return;
    running = false;
    clearTimeout(timer);
    rest();
    if (--own.leases > 0) return;
    shared.delete(pawl);
    void own.beats.end();
  };
  const lose = (reason: Error) => {
    if (!running) return;
    stop();
    lost = reason;
    onLost?.(reason);
  };
  const watch = () => {
    clearTimeout(timer);
    timer = setTimeout(() => (now() < until ? watch() : lose(gone("the lease has ended, and no heartbeat was answered"))), Math.min(Math.max(until - now(), 1), longest));
    timer.unref();
  };
  const rest = own.beats.keep(lease, every, async (at, said) => {
    try {
      const beat = await said;
      failures = 0;
      until = at + ms;
      if (beat.cancelled) lose(new Cancelled("the item was cancelled"));
      else if (running) watch();
    } catch (error) {
      const code = error instanceof PawlError ? error.code : "";
      if (code === "lease_lost") lose(error as PawlError);
      else if (code === "not_found" || code === "conflict") lose(gone((error as PawlError).message));
      else if (++failures >= maxFailures) lose(gone(`${failures} heartbeats in a row failed`));
    }
  });
  watch();
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

function gone(detail: string): PawlError {
  return new PawlError({ type: "about:blank", title: "lease lost", detail, status: 409, code: "lease_lost" });
}
