// A worker in the tests, and what it says.
import { must, PawlError, work, type Job, type Log, type Pawl, type Refusal, type Schemas, type WorkOptions } from "../src/index.ts";
import { until } from "./fixture.ts";

/** A log that keeps its lines. */
function kept(): Log & { lines: string[] } {
  const lines: string[] = [];
  const keep = (level: string) => (message: string, about: object) => void lines.push(`${level} ${message} ${JSON.stringify(about)}`);
  return { lines, info: keep("info"), warn: keep("warn"), error: keep("error") };
}

/** A worker of a type until `done` holds; what it was refused, and what it logged. */
export async function works(p: Pawl, type: string, handle: (job: Job) => Promise<unknown>, done: () => Promise<boolean>, more: Partial<WorkOptions> = {}) {
  const over = new AbortController();
  const log = kept();
  const refusals: Refusal[] = [];
  const working = work(p, { workerId: "w1", types: [type], leaseSeconds: 60, graceMs: 0, signal: over.signal, log, onRefused: (r) => refusals.push(r), ...more }, handle);
  try {
    await Promise.race([until(done, "the work is done"), working]);
  } finally {
    over.abort();
    await working.catch(() => {});
  }
  return { refusals, said: refusals.map((r) => `${r.verb} ${r.error instanceof PawlError ? r.error.code : r.error}`), log: log.lines };
}

export type Task = { id: string; state?: string };

export async function create(p: Pawl, type: string, more: Partial<Schemas["NewTask"]> = {}): Promise<() => Promise<Task>> {
  const { id } = await must(p.POST("/v1/tasks", { body: { type, payload: {}, ...more } }));
  return () => must(p.GET("/v1/tasks/{id}", { params: { path: { id } } }));
}

export const itemOf = async (p: Pawl, t: Task) => (await must(p.GET("/v1/tasks/{id}/items", { params: { path: { id: t.id } } }))).items[0]!;

/** Whether a task has ended; an attempt that failed and is to be repeated is a fault of the test. */
export const ended = (p: Pawl, task: () => Promise<Task>) => async () => {
  const now = await task();
  if (["completed", "failed"].includes(now.state!)) return true;
  const { error } = await itemOf(p, now);
  if (typeof error === "object" && error.message !== "once more") throw new Error(error.message);
  return false;
};
