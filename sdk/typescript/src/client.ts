import createClient, { type Client } from "openapi-fetch";
import { setTimeout as pause } from "node:timers/promises";
import type { components, paths } from "./openapi.ts";

/** The server's own schemas, by their names in its description. */
export type Schemas = components["schemas"];
export type Chunk = Schemas["Chunk"];
export type Lease = Schemas["Lease"];
export type Message = Schemas["Message"];
export type Problem = Schemas["Problem"];

/** Every call that the server describes, by method and path. */
export type Pawl = Client<paths>;

export interface PawlOptions {
  /** An API key's token; none is needed on a loopback address. */
  key?: string;
  /** The namespace to work in; "default" without it. */
  namespace?: string;
  /** Whom events name, as "user/ana". */
  actor?: string;
  fetch?: typeof fetch;
}

/** A client of the server at a URL, such as http://127.0.0.1:7033. */
export function pawl(url: string, options: PawlOptions = {}): Pawl {
  const headers: Record<string, string> = {};
  if (options.key) headers["Authorization"] = `Bearer ${options.key}`;
  if (options.namespace) headers["Pawl-Namespace"] = encodeURIComponent(options.namespace);
  if (options.actor) headers["Pawl-Actor"] = encodeURIComponent(options.actor);
  return createClient<paths>({ baseUrl: url, headers, fetch: options.fetch });
}

/** A refusal: match on `code`. */
export class PawlError extends Error {
  override readonly name = "PawlError";
  readonly problem: Problem;
  constructor(problem: Problem) {
    super(problem.detail ?? problem.title);
    this.problem = problem;
  }
  get code(): Problem["code"] {
    return this.problem.code;
  }
}

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** The body of an answer; a refusal is thrown as PawlError. */
export async function must<T>(call: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await call;
  if (response.ok) return data as T;
  if (error && typeof error === "object" && "code" in error) throw new PawlError(error as Problem);
  const code = response.status >= 502 ? "unavailable" : "internal"; // of something before the server
  throw new PawlError({ type: "about:blank", title: `${response.status} ${response.statusText}`, status: response.status, code });
}

/**
 * `must`, tried again while the server cannot be reached or asks for patience: for
 * calls that may be repeated. It ends with `signal`, or after about 10 s without one.
 */
export async function again<T>(call: () => Promise<Answer<T>>, signal?: AbortSignal): Promise<T> {
  for (let n = 0; ; n++) {
    try {
      return await must(call());
    } catch (error) {
      const passing = error instanceof TypeError || (error instanceof PawlError && (error.code === "unavailable" || error.code === "limit"));
      if (!passing || signal?.aborted || (!signal && n === 9)) throw error;
    }
    await pause(Math.min(50 * 2 ** n, 2000), undefined, signal ? { signal } : {});
  }
}

/** What a verb of a worker carries. */
export function fence(lease: Lease): { worker_id: string; attempt: number } {
  return { worker_id: lease.worker_id, attempt: lease.attempt };
}
