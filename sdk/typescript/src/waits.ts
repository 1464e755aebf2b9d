import { argsOf, type StepArgs } from "./args.ts";
import { fence, PawlError, report, type Lease, type Pawl, type Schemas } from "./client.ts";
import { hashOf } from "./canonical.ts";
import { Permanent } from "./failure.ts";
import { childrenOf } from "./resume.ts";
import { kept, replayed, type Steps } from "./step.ts";
import { costs, inSpan, traceHeaders, type Attributes } from "./trace.ts";

export type ChildWait = Omit<Schemas["ChildWait"], "name">;
export type ChildResult = Omit<Schemas["ChildResult"], "state"> & Partial<Pick<Schemas["ChildResult"], "state">>;
export type Suspension = { until?: string; signal?: string; key?: string; since?: "ever"; children?: Schemas["ChildWait"] };

/** Thrown to suspend the item: do not catch it. The next attempt runs the function from its beginning. */
export class Suspended extends Error {
  override readonly name = "Suspended";
  readonly suspension: Suspension;
  constructor(suspension: Suspension) {
    super("the item is suspended");
    this.suspension = suspension;
  }
}

/** An amount of a budget that is reserved. */
export interface Reservation {
  id: string;
  budget: string;
  amount: number;
  /** Records what was really spent, also more than was reserved. Twice with one amount is fine. */
  settle(amount: number): Promise<void>;
}

const maxResults = 2 ** 19; // bytes of children's results in one checkpoint
const budgetRetryMs = 60_000;
const maxKey = 255 - "@2147483647".length;

/** The children that one attempt makes and waits for, and the budgets that it spends. */
export class Waits {
  readonly #pawl: Pawl;
  readonly #lease: Lease;
  readonly #steps: Steps;
  readonly #left: () => number;
  readonly #cost = costs();
  readonly #settled = new Set<string>(); // budgets and keys, those that are named here

  /** `left` is how many ms the lease has: a call is tried for that long. */
  constructor(pawl: Pawl, lease: Lease, steps: Steps, left: () => number) {
    this.#left = left;
    this.#pawl = pawl;
    this.#lease = lease;
    this.#steps = steps;
  }

  /** See Job.spawn. */
  readonly spawn = (key: string, task: Schemas["NewTask"]): Promise<Schemas["Task"]> =>
    inSpan(`create ${task.type}`, "PRODUCER", this.#about({ ...creates(task.type), "pawl.child.key": key, "pawl.task.type": task.type }), async (span) => {
      const call = { params: { path: { id: this.#lease.id } }, body: { ...fence(this.#lease), key, task }, headers: traceHeaders(this.#lease) };
      const child = await report(() => this.#pawl.POST("/v1/items/{id}:spawn", call), undefined, this.#left);
      span.set({ "pawl.child.id": child.id });
      return child;
    });

  /** The attributes of a span of the item. */
  #about(more: Attributes): Attributes {
    return { ...more, "pawl.item.id": this.#lease.id };
  }

  /** See Job.awaitChildren. */
  readonly awaitChildren = (name: string, wait: ChildWait): Promise<ChildResult[]> =>
    this.#steps.alone(name, async () => {
      const args = argsOf([wait]);
      const saved = await this.#saved(name, args);
      if (saved) return saved;
      const state = this.#lease.attempt > 1 ? await childrenOf(this.#pawl, this.#lease.id) : undefined;
      const results = resultsOf(name, wait, state);
      if (!results) throw new Suspended({ children: { ...wait, name } });
      const parts = partsOf(results);
      for (const [n, part] of [...parts.entries()].reverse()) { // the first is saved last: with it, all are there
        const snapshot = parts.length === 1 ? part : { results: part, ...(n === 0 ? { parts: parts.length } : {}) };
        await this.#steps.save(partName(name, n), { type: "tool_executed", snapshot, ...kept(args, 0) });
      }
      return results;
    });

  /** The results that an earlier attempt saved. */
  async #saved(name: string, args: StepArgs): Promise<ChildResult[] | undefined> {
    const out: ChildResult[] = [];
    for (let n = 0, parts = 1; n < parts; n++) {
      const saved = await this.#steps.find(partName(name, n));
      if (!saved && n === 0) return undefined;
      if (!saved) throw new Permanent(`step "${name}": a checkpoint with a part of its results is gone`);
      const part = replayed<ChildResult[] | { results: ChildResult[]; parts?: number }>(name, saved, args);
      if (Array.isArray(part)) return part; // all of them
      out.push(...part.results);
      parts = Math.max(parts, part.parts ?? 0);
    }
    return out;
  }

  /** See Job.reserve. */
  readonly reserve = async (budget: string, amount: number, key?: string): Promise<Reservation> => {
    let named: string | undefined;
    if (key === undefined) {
      const step = this.#steps.current();
      const counts = this.#steps.reserved.get(step) ?? new Map<string, number>();
      this.#steps.reserved.set(step, counts);
      do {
        const n = counts.get(budget) ?? 0;
        counts.set(budget, n + 1);
        key = `${step}#${n}`;
        named = `${budget}\0${key}`;
      } while (this.#settled.has(named));
    }
    if (Array.from(key).length > maxKey) key = hashOf(key);
    const params = { path: { id: budget } };
    const holder = { item_id: this.#lease.id, ...fence(this.#lease) };
    const spends = (verb: string, amount: number) => [`${verb} ${budget}`, "CLIENT", this.#about({ "pawl.budget.name": budget, "pawl.budget.amount": amount })] as const;
    const ask = (key: string) =>
      inSpan(...spends("reserve", amount), () => report(() => this.#pawl.POST("/v1/budgets/{id}:reserve", { params, body: { ...holder, amount, key } }), undefined, this.#left));
    try {
      let got = await ask(key);
      // Settled by an earlier attempt, which lost what it paid for: the money is spent again.
      if (typeof got.settled === "number") got = await ask(`${key}@${this.#lease.attempt}`);
      const reservation = got.reservation;
      const settle = async (amount: number) => {
        await inSpan(...spends("settle", amount), () => report(() => this.#pawl.POST("/v1/budgets/{id}:settle", { params, body: { ...holder, reservation, amount } }), undefined, this.#left));
        if (named !== undefined) this.#settled.add(named);
        this.#cost(budget, amount);
      };
      return { id: reservation, budget, amount: got.amount, settle };
    } catch (error) {
      throw exhausted(amount, error, this.#steps.time());
    }
  };
}

const partName = (name: string, n: number) => (n === 0 ? name : `${name}#${n + 1}`);

/** The results in lists, each of which a checkpoint can hold. */
function partsOf(results: ChildResult[]): ChildResult[][] {
  const parts: ChildResult[][] = [[]];
  let size = 0;
  for (const child of results) {
    const length = Buffer.byteLength(JSON.stringify(child)) + 1;
    size += length;
    if (size > maxResults && length < size) {
      parts.push([]);
      size = length;
    }
    parts.at(-1)!.push(child);
  }
  return parts;
}

/** The attributes of a span that creates a task of a type. */
const creates = (type: string): Attributes => ({
  "messaging.system": "pawl",
  "messaging.operation.name": "create",
  "messaging.operation.type": "create",
  "messaging.destination.name": type,
});

/** The error to throw when a budget refused an amount at a time of the database: what its on_exhausted asks. */
export function exhausted(amount: number, error: unknown, at: number): unknown {
  if (!(error instanceof PawlError) || error.code !== "budget_exhausted") return error;
  const { on_exhausted, limit = 0, remaining = 0, reserved = 0, period_end, signal_key, task_id } = error.problem;
  if (on_exhausted === "fail") return new Permanent(error.message, { code: error.code, cause: error });
  let until = on_exhausted === "suspend" && amount <= limit ? period_end : undefined;
  const soon = new Date(at + budgetRetryMs);
  const mayFit = remaining + reserved >= amount || (on_exhausted === "ask" && !task_id);
  if (mayFit && (!until || soon < new Date(until))) until = soon.toISOString();
  return new Suspended({ signal: "pawl.budget", ...(signal_key ? { key: signal_key } : {}), ...(until ? { until } : {}) });
}

/**
 * What became of the children of a wait, in the order of its ids; undefined while it is not
 * over. The item's last wait may have been another one: its children count if they are of this one too.
 */
function resultsOf(name: string, wait: ChildWait, last: Schemas["ChildrenState"] | undefined): ChildResult[] | undefined {
  if (!last) return undefined;
  const ended = new Map((last.items ?? []).map((c) => [c.id, c]));
  const distinct = [...new Set(wait.ids)];
  const there = distinct.map((id) => ended.get(id)).filter((c) => c !== undefined);
  const failed = there.filter((c) => c.state !== "completed").length;
  const need = wait.need === "any" ? 1 : typeof wait.need === "number" ? wait.need : distinct.length;
  const good = wait.on_failure === "continue" ? there.length : there.length - failed;
  // The other children are cancelled only if that wait was this one.
  const cancels = wait.on_failure === "cancel" && last.name === name && last.over && last.total === distinct.length;
  if (good < need && !(cancels && distinct.length - failed < need)) return undefined;
  return wait.ids.map((id) => ended.get(id) ?? { id });
}
