import { again, must, PawlError, within, type Pawl } from "./client.ts";
import { hashOf } from "./canonical.ts";
import { wordsOf } from "./failure.ts";

const renewMs = 10_000; // of one renewal
const renewals = 3; // in the time that a key is locked

/**
 * Runs `fn` once for a key and a request: whoever comes later with the same request gets
 * the first result, as JSON. With another request it throws a PawlError with the code
 * `key_reused`, and `key_in_flight` while the first runs. What `fn` throws is kept to be
 * read, and the next call runs again.
 *
 * The key is renewed while `fn` runs. If the process dies inside `fn`, or cannot reach the
 * server for 60 s, another may run it again; `signal` ends when another has done so. A
 * result that cannot be kept at once is sent again while the key is held. Keys are shared
 * with `pawl.Once` in Go.
 */
export async function once<T>(pawl: Pawl, key: string, request: unknown, fn: (signal: AbortSignal) => T | Promise<T>): Promise<T> {
  const scope = "once";
  const params = { path: { id: key } };
  const begun = await must(pawl.POST("/v1/idempotency-keys/{id}:begin", { params, body: { scope, request_hash: hashOf(request) } }));
  if (!begun.run) return (begun.key.response ?? null) as T;
  const { token = "", lock_seconds = 60 } = begun;
  const lost = new AbortController();
  const over = new AbortController(); // the key is lost, or its lease has ended without a renewal
  let missed = 0; // renewals in a row that failed
  const renewing = setInterval(async () => {
    try {
      await within(renewMs, () => must(pawl.POST("/v1/idempotency-keys/{id}:renew", { params, body: { scope, token, lock_seconds } })));
      missed = 0;
    } catch (error) {
      if (error instanceof PawlError && (error.code === "conflict" || error.code === "not_found")) lost.abort(error);
      if (lost.signal.aborted || ++missed === renewals) over.abort();
    }
  }, (lock_seconds * 1000) / renewals);
  let result: T;
  try {
    result = await fn(lost.signal);
    JSON.stringify(result);
  } catch (error) {
    clearInterval(renewing);
    await again(() => pawl.POST("/v1/idempotency-keys/{id}:fail", { params, body: { scope, token, response: { message: wordsOf(error) } } })).catch(() => {}); // the error of fn says more
    throw error;
  }
  const complete = () => pawl.POST("/v1/idempotency-keys/{id}:complete", { params, body: { scope, token, response: result ?? null } });
  try {
    await again(complete, over.signal);
  } catch (error) {
    if (!over.signal.aborted) throw error;
    await must(complete()); // a try whose answer was lost may have kept the result: this one tells
  } finally {
    clearInterval(renewing);
  }
  return result;
}
