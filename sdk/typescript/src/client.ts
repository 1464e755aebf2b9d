import createClient, { type Client, type FetchResponse, type MaybeOptionalInit, type ParseAs } from "openapi-fetch";
import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { now } from "./clock.ts";
import { textOf } from "./json.ts";
import { listOf, type List, type Listed, type ListPath } from "./list.ts";
import type { components, paths } from "./openapi.ts";
import { resultOf, waitFor, type TaskRef, type WaitOptions } from "./outcome.ts";
import { lookedFor, traceHeaders } from "./trace.ts";

/** The server's own schemas, by their names in its description. */
export type Schemas = components["schemas"];
export type Chunk = Schemas["Chunk"];
export type Lease = Schemas["Lease"];
export type Message = Schemas["Message"];
export type Problem = Schemas["Problem"];

type Method = "get" | "put" | "post" | "delete" | "head";
type PathsOf<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never }[keyof paths];
type Operation<P extends keyof paths, M extends Method> = Extract<paths[P][M], { responses: unknown }>;
type Init<P extends keyof paths, M extends Method> = MaybeOptionalInit<paths[P], M>;

/** A call with typed path, options and answer. Members that the server does not know are refused, at every depth. */
interface Call<M extends Method> {
  /** An answer that is not read as JSON. */
  <P extends PathsOf<M>, I extends Init<P, M> & { parseAs: ParseAs }>(
    path: P,
    init: I,
  ): Promise<FetchResponse<Operation<P, M>, I, `${string}/${string}`>>;
  <P extends PathsOf<M>>(
    path: P,
    ...init: undefined extends Init<P, M> ? [init?: Init<P, M>] : [init: Init<P, M>]
  ): Promise<FetchResponse<Operation<P, M>, {}, `${string}/${string}`>>;
}

/** Every call that the server describes, by method and path. */
export interface PawlCalls extends Omit<Client<paths>, Uppercase<Method>> {
  GET: Call<"get">;
  PUT: Call<"put">;
  POST: Call<"post">;
  DELETE: Call<"delete">;
  HEAD: Call<"head">;
}

/** A client: every call of the server, and the waits for results. */
export interface Pawl extends PawlCalls {
  /**
   * Waits until a task has ended, and returns its result. It throws TaskFailed if the task came to none, and
   * TimeoutError after `timeoutSeconds`.
   *
   * @example
   * const { total } = await client.wait<{ total: number }>(task.id, { timeoutSeconds: 30 });
   */
  wait<T = unknown>(task: TaskRef, options?: WaitOptions): Promise<T>;
  /**
   * The result of a completed task. It throws TaskFailed if the task came to none, and a PawlError with the code
   * `conflict` if it has not ended.
   *
   * @example
   * const { total } = await client.result<{ total: number }>(task.id);
   */
  result<T = unknown>(task: TaskRef): Promise<T>;
  /**
   * A list of the server, by its path. Its pages are read as it is iterated; `page` reads one, `all` reads every one.
   *
   * @example
   * for await (const task of client.list("/v1/tasks", { params: { query: { state: ["failed"] } } })) console.log(task.id, task.error);
   */
  list<P extends ListPath>(path: P, ...init: undefined extends Init<P, "get"> ? [init?: Init<P, "get">] : [init: Init<P, "get">]): List<Listed<P>>;
}

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
  if (!options.fetch && !/^https?:\/\//i.test(url)) throw new TypeError(`${JSON.stringify(url)} is no http URL, such as http://127.0.0.1:7033`);
  const headers: Record<string, string> = {};
  if (options.key) headers["Authorization"] = `Bearer ${options.key}`;
  if (options.namespace) headers["Pawl-Namespace"] = encodeURIComponent(options.namespace);
  if (options.actor) headers["Pawl-Actor"] = encodeURIComponent(options.actor);
  // A redirect would take key and payload to another server.
  const calls = createClient<paths>({ baseUrl: url, headers, fetch: limited(options.fetch), bodySerializer: written, redirect: "manual" });
  const client: Pawl = Object.assign(calls, {
    wait: <T>(task: TaskRef, wait?: WaitOptions) => waitFor<T>(calls, task, wait),
    result: <T>(task: TaskRef) => resultOf<T>(calls, task),
    list: <P extends ListPath>(path: P, init?: Init<P, "get">) => listOf(calls, path, init),
  });
  if (!options.fetch) places.set(client, { url: url.replace(/\/+$/, ""), headers });
  client.use({
    async onRequest({ request }) {
      await lookedFor;
      for (const [name, value] of Object.entries(traceHeaders())) if (!request.headers.has(name)) request.headers.set(name, value);
    },
    onError({ error, request }) {
      if (!(error instanceof TypeError) || request.signal.aborted) return;
      const cause = error.cause as { code?: string; message?: string } | undefined;
      return new TypeError(`the server at ${new URL(request.url).origin} does not answer: ${cause?.code ?? cause?.message ?? error.message}`, { cause });
    },
  });
  return client;
}

/** When the present try of a call is given up. */
const tryEnds = new AsyncLocalStorage<AbortSignal>();

/** `fetch`, or one in its place, that ends with the present try. */
function limited(given?: typeof fetch): (request: Request) => Promise<Response> {
  return (request) => {
    const end = tryEnds.getStore();
    return (given ?? fetch)(request, end ? { signal: AbortSignal.any([request.signal, end]) } : undefined);
  };
}

/** Makes a call that is given up after a time, in ms, as one to a server that does not answer. */
export async function within<T>(ms: number, call: () => Promise<T>): Promise<T> {
  const end = new AbortController();
  const timer = setTimeout(() => setImmediate(() => end.abort(new Error("no answer in time"))), ms); // one that is there is read first
  try {
    return await tryEnds.run(end.signal, call);
  } catch (error) {
    if (!end.signal.aborted || error instanceof PawlError) throw error;
    throw new TypeError(`the server does not answer within ${ms / 1000} s`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** The body of a call. Its error is no TypeError, which would mean that the server cannot be reached. */
function written(body: unknown): unknown {
  try {
    return textOf(body);
  } catch (error) {
    throw new Error(`the body of the call cannot be written as JSON: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

const places = new WeakMap<Pawl, { url: string; headers: Record<string, string> }>();

/** Where a client's server is, and what its calls carry; undefined for one that was given a `fetch`. */
export function placeOf(pawl: Pawl): { url: string; headers: Record<string, string> } | undefined {
  return places.get(pawl);
}

/** A refusal: match on `code`. */
export class PawlError extends Error {
  override readonly name = "PawlError";
  readonly problem: Problem;
  /** Seconds that the server asks to wait; 0 = it says nothing. */
  readonly retryAfter: number;
  constructor(problem: Problem, retryAfter = 0) {
    super(problem.detail);
    this.problem = problem;
    this.retryAfter = retryAfter;
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
  const after = Math.max(Number(response.headers.get("Retry-After")) || 0, 0); // a date is not sent by the server
  if (error && typeof error === "object" && "code" in error) throw new PawlError(error as Problem, after);
  const code = response.status >= 502 ? "unavailable" : response.status === 429 ? "limit" : "internal"; // of something before the server
  const title = `${response.status} ${response.statusText}`;
  throw new PawlError({ type: "about:blank", title, detail: title, status: response.status, code }, after);
}

const longestWait = 120_000; // ms that a call without a signal waits for at once
const tryMs = 10_000; // of one try
const manyTries = 3; // of which none is answered: no further one without a signal

const passing = ["unavailable", "limit", "key_in_flight"]; // an earlier try may be the call that has the key

/**
 * `must`, tried again while the server cannot be reached, asks for patience or is still in an
 * earlier call with the idempotency key: for calls that may be repeated. It waits as long as the
 * server says, and ends with `signal`, or without one after ten tries, about 10 s, or when the server asks for more than 2 min.
 * A try that is not answered within `ms`, 10 s by default, has failed.
 */
export function again<T>(call: () => Promise<Answer<T>>, signal?: AbortSignal, ms?: number): Promise<T> {
  return repeat(passing, call, signal, undefined, ms);
}

/**
 * `again` for what a worker reports, which is lost otherwise: also after an internal error of the server. Without a
 * signal it is tried for as long as there is something `left` of the lease, and then as `again` is.
 */
export function report<T>(call: () => Promise<Answer<T>>, signal?: AbortSignal, left?: () => number): Promise<T> {
  return repeat([...passing, "internal"], call, signal, left);
}

async function repeat<T>(codes: string[], call: () => Promise<Answer<T>>, signal?: AbortSignal, left = () => 0, ms = tryMs): Promise<T> {
  let silent = 0; // ms that tries without an answer took
  for (let n = 0; ; n++) {
    let asked = 0;
    const began = now();
    try {
      return await within(ms, () => must(call()));
    } catch (error) {
      if (error instanceof PawlError) asked = error.retryAfter * 1000;
      else silent += now() - began;
      const passes = error instanceof TypeError || (error instanceof PawlError && codes.includes(error.code));
      // A bound of counts, and an answer of something before the server, may never pass.
      const stays = error instanceof PawlError && asked === 0 && (error.code === "limit" || (error.code === "internal" && error.problem.status < 500));
      const last = ((stays || left() <= 0) && (n >= 9 || silent > (manyTries - 0.5) * ms)) || asked > Math.max(longestWait, left());
      if (!passes || signal?.aborted || (!signal && last)) throw error;
    }
    await pause(Math.max(Math.min(50 * 2 ** n, 2000), asked), undefined, signal ? { signal } : {});
  }
}

/** What a verb of a worker carries. */
export function fence(lease: Lease): { worker_id: string; attempt: number } {
  return { worker_id: lease.worker_id, attempt: lease.attempt };
}
