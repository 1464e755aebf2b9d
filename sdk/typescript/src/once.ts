import { again, must, PawlError, type Pawl } from "./client.ts";
import { hashOf } from "./canonical.ts";
import { wordsOf } from "./failure.ts";

/**
 * Runs `fn` once for a key and a request: whoever comes later with the same request gets
 * the first result, as JSON. With another request it throws a PawlError with the code
 * `key_reused`, and `key_in_flight` while the first runs. What `fn` throws is kept to be
 * read, and the next call runs again.
 *
 * The key is renewed while `fn` runs. If the process dies inside `fn`, or cannot reach the
 * server for 60 s, another may run it again; `signal` ends when another has done so. Keys
 * are shared with `pawl.Once` in Go.
 */
export async function once<T>(pawl: Pawl, key: string, request: unknown, fn: (signal: AbortSignal) => T | Promise<T>): Promise<T> {
  const scope = "once";
  const params = { path: { id: key } };
  const begun = await must(pawl.POST("/v1/idempotency-keys/{id}:begin", { params, body: { scope, request_hash: hashOf(request) } }));
  if (!begun.run) return (begun.key.response ?? null) as T;
  const { token = "", lock_seconds = 60 } = begun;
  const lost = new AbortController();
  const renewing = setInterval(async () => {
    try {
      await must(pawl.POST("/v1/idempotency-keys/{id}:renew", { params, body: { scope, token, lock_seconds } }));
    } catch (error) {
      if (error instanceof PawlError && (error.code === "conflict" || error.code === "not_found")) lost.abort(error);
    }
  }, (lock_seconds * 1000) / 3);
  let result: T;
  try {
    result = await fn(lost.signal);
    JSON.stringify(result);
  } catch (error) {
    clearInterval(renewing);
    await again(() => pawl.POST("/v1/idempotency-keys/{id}:fail", { params, body: { scope, token, response: { message: wordsOf(error) } } })).catch(() => {}); // the error of fn says more
    throw error;
  }
  clearInterval(renewing);
  await again(() => pawl.POST("/v1/idempotency-keys/{id}:complete", { params, body: { scope, token, response: result ?? null } }));
  return result;
}
