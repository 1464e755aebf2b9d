// The thread that sends heartbeats: see heartbeats.ts.
import { parentPort, workerData } from "node:worker_threads";
import { now } from "./clock.ts";

const { url, headers } = workerData as { url: string; headers: { [name: string]: string } };
const timers = new Map<number, NodeJS.Timeout>();

/**
 * When heartbeats are sent, in ms: the first, and then one `every` ms after the one before, but not before that has been
 * answered. One that is not answered within `limit` has failed.
 */
export type Pace = { first: number; every: number; limit: number };

/** What the worker says: of a lease whose heartbeats are to begin, with a pace, or to end. */
export type Told = { n: number; id?: string; body?: string; pace?: Pace };

/** What became of a heartbeat. */
export type Beat = { n: number; at: number; status?: number; retryAfter?: string; said?: unknown; error?: string };

parentPort?.on("message", ({ n, id = "", body = "", pace }: Told) => {
  clearTimeout(timers.get(n));
  timers.delete(n);
  if (!pace) return;
  const beat = async () => {
    const at = now();
    let answer: Beat = { n, at };
    try {
      const request = { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body, redirect: "manual" as const, signal: AbortSignal.timeout(pace.limit) };
      const response = await fetch(`${url}/v1/items/${encodeURIComponent(id)}:heartbeat`, request);
      const said: unknown = await response.json().catch(() => undefined);
      answer = { ...answer, status: response.status, retryAfter: response.headers.get("Retry-After") ?? "", said };
    } catch (error) {
      answer = { ...answer, error: error instanceof Error ? error.message : String(error) };
    }
    parentPort?.postMessage(answer);
    if (timers.has(n)) timers.set(n, setTimeout(beat, Math.max(at + pace.every - now(), 0)));
  };
  timers.set(n, setTimeout(beat, pace.first));
});
