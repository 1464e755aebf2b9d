import { fence, PawlError, report, type Lease, type Pawl } from "./client.ts";
import { Permanent, RetryAfter, wordsOf } from "./failure.ts";
import { plain } from "./json.ts";
import { Suspended, type Suspension } from "./waits.ts";

/** What an item came to. */
export type Outcome =
  | { verb: "complete" | "submit"; result: unknown }
  | { verb: "fail"; error: { code?: string; message: string; detail?: unknown }; retryable: boolean; retry_after_ms?: number }
  | ({ verb: "suspend" } & Suspension)
  | { verb: "release" };

/** A call about an item that the server refused, or that could not be sent to it. */
export interface Refusal {
  lease: Lease;
  verb: Outcome["verb"] | "heartbeat";
  /** A PawlError says what the server said. */
  error: unknown;
}

/** What an error of a handler makes of its item. */
export function failureOf(error: unknown): Outcome {
  if (error instanceof Suspended) return { verb: "suspend", ...error.suspension };
  const code = error instanceof Permanent ? error.code : error instanceof PawlError ? error.code : "";
  const said = { ...(code ? { code } : {}), message: wordsOf(error) };
  if (error instanceof RetryAfter) return { verb: "fail", error: said, retryable: true, retry_after_ms: Math.round(Math.min(Math.max(error.seconds, 0), 365 * 86400) * 1000) };
  return { verb: "fail", error: said, retryable: !(error instanceof Permanent) };
}

/** What a handler's result makes of its item. */
export function resultOf(result: unknown): Outcome {
  try {
    return { verb: "complete", result: plain(result) };
  } catch (error) {
    return unfit(`the result cannot be written as JSON: ${wordsOf(error)}`);
  }
}

function unfit(message: string, detail?: unknown): Outcome {
  return { verb: "fail", error: { code: "invalid_result", message, ...(detail ? { detail } : {}) }, retryable: false };
}

/**
 * Hands in what an item came to, for as long as its lease has something `left`; `refused` is told of every call
 * that was refused. A result is submitted where the item's type wants it accepted; one
 * that the server does not take fails the item for good, and says why. A suspension that it
 * does not take fails the attempt. It answers with what the server took, if it took something.
 */
export async function handIn(pawl: Pawl, lease: Lease, outcome: Outcome, left: () => number, refused: (verb: Outcome["verb"], error: unknown) => void): Promise<Outcome | undefined> {
  for (;;) {
    try {
      await report(() => post(pawl, lease, outcome), undefined, left);
      return outcome;
    } catch (error) {
      const next = insteadOf(outcome, error);
      if (outcome.verb !== "complete" || next?.verb !== "submit") refused(outcome.verb, error);
      if (!next) return undefined;
      outcome = next;
    }
  }
}

function post(pawl: Pawl, lease: Lease, { verb, ...said }: Outcome): Promise<{ data?: unknown; error?: unknown; response: Response }> {
  const header = { "Idempotency-Key": `${lease.id}:${lease.attempt}:${verb}` }; // a call whose answer was lost is not a conflict
  const params = { path: { id: lease.id }, header };
  const body = { ...fence(lease), ...said };
  switch (verb) {
    case "complete":
      return pawl.POST("/v1/items/{id}:complete", { params, body });
    case "submit":
      return pawl.POST("/v1/items/{id}:submit", { params, body: body as typeof body & { result: unknown } });
    case "fail":
      return pawl.POST("/v1/items/{id}:fail", { params, body: body as typeof body & { error: string } });
    case "suspend":
      return pawl.POST("/v1/items/{id}:suspend", { params, body });
    case "release":
      return pawl.POST("/v1/items/{id}:release", { params, body });
  }
}

/** What to hand in when an outcome was refused. */
function insteadOf(outcome: Outcome, error: unknown): Outcome | undefined {
  if (outcome.verb === "suspend" && error instanceof PawlError && error.code !== "lease_lost") return failureOf(error);
  if (!(error instanceof PawlError) || (outcome.verb !== "complete" && outcome.verb !== "submit")) return undefined;
  const { code, problem } = error;
  if (outcome.verb === "complete" && code === "conflict" && problem.allowed?.includes("submit")) return { ...outcome, verb: "submit" };
  if (problem.reason === "effect_open") return failureOf(error); // the next attempt decides about the effect
  if (code !== "invalid" && code !== "too_large") return undefined;
  // The errors quote the result, and all who read the item see the message: the detail has them.
  const places = new Set(problem.errors?.map((e) => e.pointer.split("/").slice(0, 2).join("/")));
  const where = [...places].map((place) => `${place}: does not fit`).join("; ");
  return unfit(`the result was refused: ${where || problem.detail}`, where ? { errors: problem.errors } : undefined);
}
