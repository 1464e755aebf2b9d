import { randomUUID } from "node:crypto";
import { again, fence, PawlError, report, type Lease, type Pawl, type Schemas } from "./client.ts";
import { hashOf } from "./canonical.ts";
import { Permanent, wordsOf } from "./failure.ts";
import { plain } from "./json.ts";
import { exhausted, Suspended } from "./waits.ts";

const waitSeconds = 60;
const openMs = 10_000; // of a try that does not wait

/** Thrown by the function of an effect: it is known not to have happened. After any other error it is unknown. */
export class NotDone extends Error {
  override readonly name = "NotDone";
}

/** What undici, of which fetch is, says when no connection was made in time. */
const noConnection = ["UND_ERR_CONNECT_TIMEOUT"];

/**
 * Returns `NotDone` in place of an error of fetch, http or net after which no request can have left: the name of the
 * host is not known, or no connection was made. Any other error is returned as it is. Call fetch with
 * `redirect: "manual"`: the error of a request that was redirected does not say that the one before it was answered.
 */
export function notSent(error: unknown): unknown {
  return neverLeft(error) ? new NotDone(wordsOf(error), { cause: error }) : error;
}

function neverLeft(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.length > 0 && error.errors.every(neverLeft); // one for each address
  const { syscall, code } = error as NodeJS.ErrnoException;
  if (syscall === "connect" || syscall === "getaddrinfo" || noConnection.includes(code ?? "")) return true;
  return error instanceof TypeError && neverLeft(error.cause); // fetch failed
}

/** What the outside says about the key of an effect, and its answer if it happened. */
export type Probed = { happened: false } | { happened: true; answer?: unknown };

export interface EffectOptions {
  /** Its identity in the namespace; by default the item and the name. */
  key?: string;
  /** What is sent, as JSON: another request under the key is refused. Only its digest is stored. */
  request?: unknown;
  /** The budget that `amount` is reserved from before it is sent. */
  budget?: string;
  amount?: number;
  /** A person approves it first. */
  approve?: boolean;
  /** Asks the outside whether it happened. If it throws, it does not know. */
  probe?: (key: string) => Probed | Promise<Probed>;
  /** The outside recognises the key. */
  repeatable?: boolean;
  /** What an unknown effect does; by default `probe` with a probe, else `repeat` if it is repeatable, else `ask`. */
  onUnknown?: "probe" | "repeat" | "ask" | "fail";
}

type Opened = Schemas["OpenedEffect"];

/** The effects of one attempt. */
export class Effects {
  readonly #pawl: Pawl;
  readonly #lease: Lease;
  readonly #time: () => number;
  readonly #left: () => number;

  /** `time` is that of the database, and `left` is how many ms the lease has: a report is tried for that long. */
  constructor(pawl: Pawl, lease: Lease, time: () => number, left: () => number) {
    this.#pawl = pawl;
    this.#lease = lease;
    this.#time = time;
    this.#left = left;
  }

  /** See Job.effect. */
  readonly effect = async <T>(name: string, options: EffectOptions, fn: (key: string) => T | Promise<T>): Promise<T> => {
    let opened: Opened;
    try {
      opened = await this.#open(name, options, 0);
      if (opened.state === "open" && !opened.send) opened = await this.#open(name, options, waitSeconds); // another sends it
    } catch (error) {
      if (!(error instanceof PawlError) || error.code !== "effect_unknown") throw error;
      opened = await this.#reconcile(name, options, error);
    }
    if (opened.send) return (await this.#send(opened, fn)) as T;
    if (opened.state === "done") return (opened.answer ?? null) as T;
    if (opened.state === "failed") throw new Permanent(`effect ${opened.id} was rejected`);
    if (opened.state === "open") throw new Error(`effect ${opened.id} is being sent by another`);
    throw decided(opened.id);
  };

  async #open(name: string, options: EffectOptions, wait_seconds: number): Promise<Opened> {
    const { key, budget, amount, approve } = options;
    const more = { ...(key ? { key } : {}), ...(budget ? { budget } : {}), ...(amount === undefined ? {} : { amount }), ...(approve ? { approve } : {}) };
    const repeatable = options.repeatable || onUnknown(options) === "repeat";
    const body = { ...this.#held(), name, request_hash: hashOf(options.request ?? null), ...more, ...(repeatable ? { repeatable } : {}), wait_seconds };
    const header = { "Idempotency-Key": randomUUID() }; // a repetition whose answer was lost may still send
    try {
      return await again(() => this.#pawl.POST("/v1/effects:open", { params: { header }, body }), undefined, openMs + wait_seconds * 1000);
    } catch (error) {
      throw exhausted(amount ?? 0, error, this.#time());
    }
  }

  /** Calls the function and reports what came of it, also if the lease is over by then. */
  async #send<T>(opened: Opened, fn: (key: string) => T | Promise<T>): Promise<unknown> {
    const params = { path: { id: opened.id } };
    const sending = opened.sending ? { sending: opened.sending } : {}; // an older server knows none
    let answer: unknown;
    try {
      answer = plain(await fn(opened.key));
    } catch (error) {
      const body = { ...this.#held(), ...sending, error: { message: wordsOf(error) } };
      const told = () =>
        error instanceof NotDone ? this.#pawl.POST("/v1/effects/{id}:failed", { params, body }) : this.#pawl.POST("/v1/effects/{id}:unknown", { params, body });
      await report(told, undefined, this.#left).catch(() => {}); // the error of fn says more; the end of the attempt makes it unknown
      throw error;
    }
    await report(() => this.#pawl.POST("/v1/effects/{id}:done", { params, body: { ...this.#held(), ...sending, answer } }), undefined, this.#left);
    return answer;
  }

  /** Does what the options say about an unknown effect. */
  async #reconcile(name: string, options: EffectOptions, unknown: PawlError): Promise<Opened> {
    const { effect_id: id, reason } = unknown.problem;
    const on = onUnknown(options);
    if (!id || reason === "give_up" || on === "fail") throw new Permanent(unknown.message, { code: unknown.code, cause: unknown });
    if (on !== "probe" || !options.probe) throw decided(id);
    let found: Probed;
    try {
      found = await options.probe(options.key || `${this.#lease.id}/${name}`);
    } catch {
      throw decided(id); // it does not know either
    }
    await this.#probed(id, found);
    return await this.#open(name, options, 0);
  }

  async #probed(id: string, found: Probed): Promise<void> {
    const params = { path: { id } };
    const header = { "Idempotency-Key": randomUUID() }; // it names no sending: a try that comes late would be about a later one
    try {
      if (found.happened) await report(() => this.#pawl.POST("/v1/effects/{id}:done", { params, body: { ...this.#held(), answer: plain(found.answer) } }), undefined, this.#left);
      else await report(() => this.#pawl.POST("/v1/effects/{id}:failed", { params: { ...params, header }, body: { ...this.#held(), error: { code: "probe", message: "the outside does not know it" } } }), undefined, this.#left);
    } catch (error) {
      if (error instanceof PawlError && error.code === "lease_lost") throw decided(id); // this attempt may not say so, as in a fork
      throw error;
    }
  }

  #held() {
    return { item_id: this.#lease.id, ...fence(this.#lease) };
  }
}

const onUnknown = ({ onUnknown: on, probe, repeatable }: EffectOptions) => on ?? (probe ? "probe" : repeatable ? "repeat" : "ask");

/** Suspends the item until an effect is decided. */
const decided = (id: string) => new Suspended({ signal: "pawl.effect", key: id });
