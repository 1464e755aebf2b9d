import { randomUUID } from "node:crypto";
import { must, pawl, type Lease, type Pawl, type PawlOptions, type Schemas } from "./client.ts";
import { work, type Job } from "./worker.ts";

/** Functions of a worker, by the types of their items. */
export type Handlers = Record<string, (job: Job) => Promise<unknown>>;
export type Item = Schemas["ItemView"];

/** What the helpers here need of a server of tests. */
export interface Stands {
  readonly url: string;
  now(): Promise<Date>;
  advance(seconds: number): Promise<Date>;
}

const maxRuns = 50; // looks of eachCrash at an item that does not end
const uncounted = /^\/v1\/(claims|workers|items\/[^/]+:(heartbeat|progress|release))$/;

/** Lets one item be claimed, and its worker die after some writes. */
class Dying {
  left: number;
  readonly #lost: boolean;
  dead = false;
  item = "";
  /** Comes when the worker has died. */
  readonly died: Promise<void>;
  /** Ends the worker when the item is handled. */
  readonly over = new AbortController();
  #die = () => {};

  constructor(writes: number, lost: boolean) {
    this.left = writes;
    this.#lost = lost;
    this.died = new Promise((resolve) => (this.#die = resolve));
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    const path = new URL(request.url).pathname;
    if (request.method === "POST" && path === "/v1/claims") return await this.#claim(request);
    const counted = request.method !== "GET" && !uncounted.test(path);
    if (counted && this.left <= 0) this.#end();
    if (this.dead) return await never(request.signal);
    if (counted) this.left--;
    const response = await fetch(request).catch((error: unknown) => {
      if (counted) this.left++;
      throw error;
    });
    if (counted && !response.ok) this.left++; // it has changed nothing
    if (counted && this.left <= 0 && !this.#lost) this.#end();
    return this.dead ? await never(request.signal) : response;
  };

  async #claim(request: Request): Promise<Response> {
    if (this.item || this.dead) {
      this.over.abort();
      return await never(request.signal);
    }
    const body = JSON.stringify({ ...((await request.json()) as object), wait_seconds: 0 });
    const response = await fetch(new Request(request.url, { method: "POST", headers: request.headers, body }));
    if (!response.ok) return response;
    const { items } = (await response.clone().json()) as { items: Lease[] };
    this.item = items[0]?.id ?? "";
    if (!this.item) this.over.abort();
    return response;
  }

  #end(): void {
    this.dead = true;
    this.#die();
  }
}

/** What a call of a dead worker comes to: nothing, until it is given up. */
function never(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** Lets the handlers run one claimable item, until so many writes have arrived, or with `lost` until the next. */
async function run(url: string, options: PawlOptions, handlers: Handlers, writes: number, lost: boolean): Promise<Dying> {
  const dying = new Dying(writes, lost);
  const client = pawl(url, { ...options, fetch: dying.fetch });
  const types = Object.keys(handlers);
  const worker = { workerId: `test-${randomUUID()}`, types, signal: dying.over.signal, graceMs: 0, log: false as const };
  const working = work(client, worker, async (job) => await handlers[job.lease.type]!(job));
  await Promise.race([working, dying.died]);
  if (dying.dead) {
    working.catch(() => {}); // it stays where it died
    dying.over.abort();
  }
  return dying;
}

const itemOf = (p: Pawl, id: string): Promise<Item> => must(p.GET("/v1/items/{id}", { params: { path: { id } } })) as Promise<Item>;

/** Lets the lease of an item run out. */
async function endLease(server: Stands, p: Pawl, id: string): Promise<void> {
  const { lease_expires_at: ends } = await itemOf(p, id);
  if (ends) await server.advance((Date.parse(ends) - (await server.now()).getTime()) / 1000 + 0.001);
}

/**
 * Lets handlers run one claimable item once; returns the item as it is afterwards. It throws a RangeError if there is
 * no such item.
 *
 * @example
 * await using server = await serve({ clock: true });
 * await must(server.client().POST("/v1/tasks", { body: { type: "remind" } }));
 * assert.equal((await runOne(server, { remind })).state, "waiting"); // it sleeps for three days
 * await server.advance(3 * 86400);
 * assert.equal((await runOne(server, { remind })).state, "completed");
 */
export async function runOne(server: { readonly url: string }, handlers: Handlers, options: PawlOptions = {}): Promise<Item> {
  const { item } = await run(server.url, options, handlers, Infinity, false);
  if (!item) throw new RangeError("there is no item that the handlers could claim");
  return await itemOf(pawl(server.url, options), item);
}

export interface CrashOptions extends PawlOptions {
  /** The worker goes on until its next write, which does not arrive; otherwise it dies at once. */
  lost?: boolean;
}

/**
 * Lets handlers run one claimable item, and its worker die after some writes of the item have arrived: saved steps and
 * other checkpoints, waits, children, messages, effects, other calls that change something, and the call that ends the
 * attempt; heartbeats and progress are none. With 0 the first one does not arrive. The call that the worker dies in
 * does not return, and nothing that it does after that reaches the server. Then the lease runs out: the server needs
 * `clock`. It returns the item as it is then, and whether the worker died: not if there were fewer writes.
 *
 * @example
 * const { item, crashed } = await crashAfter(server, 1, { pay }); // after its first saved step
 */
export async function crashAfter(server: Stands, writes: number, handlers: Handlers, { lost = false, ...options }: CrashOptions = {}): Promise<{ item: Item; crashed: boolean }> {
  const dying = await run(server.url, options, handlers, writes, lost);
  if (!dying.item) throw new RangeError("there is no item that the handlers could claim");
  const p = pawl(server.url, options);
  if (dying.dead) await endLease(server, p, dying.item);
  return { item: await itemOf(p, dying.item), crashed: dying.dead };
}

/** One life of a task whose worker died once. */
export interface Crash {
  /** After how many writes the worker died. */
  writes: number;
  /** It went on until its next write, which did not arrive; otherwise it died at once. */
  lost: boolean;
  /** Whether it died; the last life has fewer writes. */
  crashed: boolean;
  /** The item as it ended. */
  item: Item;
  /** The task as it was created. */
  task: Schemas["Task"];
  /** A client of the namespace in which this happened. */
  pawl: Pawl;
}

/**
 * Checks that a task survives every crash of its worker. For 0, 1, 2 and so on it creates the task in a namespace of its
 * own, lets the worker die after so many writes, in whichever attempt of the item or of a child that is, and runs what
 * there is until the item has ended. It does so twice: the worker dies at once, or (`lost`) at its next write, which
 * does not arrive: then the work between the two is done again. The last life is one without a crash. The task has one
 * item. `prepare` is called with a client of each namespace first. The server needs `clock`.
 *
 * @example
 * for await (const life of eachCrash(server, { pay }, { type: "pay", payload: { eur: 20 } })) {
 *   assert.equal(life.item.state, "completed");
 * }
 */
export async function* eachCrash(server: Stands, handlers: Handlers, task: Schemas["NewTask"], prepare?: (p: Pawl) => unknown): AsyncGenerator<Crash, void, void> {
  const id = randomUUID();
  for (let n = 1; ; n++) { // 0 and lost, 1, 1 and lost, 2 and so on
    const options = { namespace: `crash-${id}-${n}` };
    const p = pawl(server.url, options);
    await prepare?.(p);
    const made = await must(p.POST("/v1/tasks", { body: task }));
    const life = await lifeOf(server, p, options, made, Math.floor(n / 2), n % 2 === 1, handlers);
    yield life;
    if (!life.crashed) return;
  }
}

async function lifeOf(server: Stands, p: Pawl, options: PawlOptions, task: Schemas["Task"], writes: number, lost: boolean, handlers: Handlers): Promise<Crash> {
  let left = writes;
  let crashed = false;
  let item = (await must(p.GET("/v1/tasks/{id}/items", { params: { path: { id: task.id } } }))).items[0] as Item;
  for (let n = 0; n < maxRuns && !item.completed_at && item.state !== "submitted"; n++) {
    const dying = await run(server.url, options, handlers, left, lost);
    if (dying.dead) {
      [crashed, left] = [true, Infinity];
      await endLease(server, p, dying.item);
    } else if (!crashed) {
      left = dying.left;
    }
    item = await itemOf(p, item.id);
    if (dying.item) continue;
    const at = item.run_at ? (Date.parse(item.run_at) - (await server.now()).getTime()) / 1000 : 59; // it sleeps, or a child waits for its next attempt
    await server.advance(Math.max(at, 0) + 1);
    item = await itemOf(p, item.id);
  }
  return { writes, lost, crashed, item, task, pawl: p };
}
