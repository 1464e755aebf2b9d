import { setTimeout as pause } from "node:timers/promises";
import { again, must, PawlError, within, type PawlCalls, type Schemas } from "./client.ts";
import { now } from "./clock.ts";
import { taskResult } from "./result.ts";

const maxWait = 60; // seconds of one request
const ended = ["completed", "failed", "dead_lettered", "rejected", "cancelled"];

export interface WaitOptions {
  /** How long to wait, in seconds; without it there is no limit. */
  timeoutSeconds?: number;
  /** Ends the wait with its reason. */
  signal?: AbortSignal;
}

/** A task, or its id. */
export type TaskRef = string | { id: string };

/** Thrown by `wait` and `result`: the task failed, or was dead-lettered, rejected or cancelled. */
export class TaskFailed extends Error {
  override readonly name = "TaskFailed";
  readonly task: Schemas["Task"];
  /** The error of the task; undefined = it has none, as when it was cancelled. */
  readonly error: { code?: string; message: string } | undefined;
  constructor(task: Schemas["Task"]) {
    const error = typeof task.error === "string" ? { message: task.error } : task.error;
    const why = error ? `: ${error.message}${error.code ? ` (${error.code})` : ""}` : "";
    super(`task ${task.id} of type ${task.type} is ${task.state}${why}`);
    this.task = task;
    this.error = error;
  }
}

/** Thrown by `wait`: the task has not ended in the time. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}

/**
 * Waits until a task has ended, and returns its result. The server answers when the task ends; nothing is polled. A
 * task that waits for approval has not ended. While the server is away or has too many calls that wait, the wait goes
 * on; only its first request is given up.
 */
export async function waitFor<T>(pawl: PawlCalls, task: TaskRef, { timeoutSeconds, signal }: WaitOptions = {}): Promise<T> {
  const id = idOf(task);
  const end = timeoutSeconds === undefined ? Infinity : now() + Math.max(timeoutSeconds, 0) * 1000;
  let state = "";
  for (let rest = 0; ; ) {
    // The first request finds out whether the server and the task are there.
    const seconds = state ? Math.max(Math.min(Math.floor((end - now()) / 1000), maxWait), 0) : 0;
    try {
      const query = { fields: ["state" as const], include: ["result" as const], ...(seconds ? { wait_seconds: seconds } : {}) };
      const call = () => pawl.GET("/v1/tasks/{id}", { params: { path: { id }, query }, ...(signal ? { signal } : {}) });
      const seen = await (state ? within((seconds + 15) * 1000, () => must(call())) : again(call, signal));
      [state, rest] = [seen.state!, 0];
      const result = seen.included?.result as { payload?: T } | null | undefined;
      if (state === "completed" && result && "payload" in result) return result.payload as T;
      if (ended.includes(state)) return await resultOf<T>(pawl, id);
    } catch (error) {
      signal?.throwIfAborted();
      const passing = error instanceof TypeError || (error instanceof PawlError && ["unavailable", "limit"].includes(error.code));
      if (!state || !passing) throw error;
      rest = Math.max(Math.min(2 * rest + 100, 5000), error instanceof PawlError ? error.retryAfter * 1000 : 0);
    }
    const left = end - now();
    if (left <= 0) throw new TimeoutError(`task ${id} is ${state} after ${timeoutSeconds} s`);
    if (left < 1000 || rest) await pause(Math.min(Math.max(rest, 50), left), undefined, signal ? { signal } : {});
  }
}

/** The result of a completed task. Of one that has not ended it throws a PawlError with the code `conflict`. */
export async function resultOf<T>(pawl: PawlCalls, task: TaskRef): Promise<T> {
  const id = idOf(task);
  try {
    return (await taskResult<T>(pawl, id)).payload;
  } catch (error) {
    if (!(error instanceof PawlError) || error.code !== "conflict") throw error;
    const found = await again(() => pawl.GET("/v1/tasks/{id}", { params: { path: { id } } }));
    if (found.state !== "completed" && ended.includes(found.state!)) throw new TaskFailed(found as Schemas["Task"]); // all of it was read
    throw error;
  }
}

function idOf(task: TaskRef): string {
  const id: unknown = typeof task === "string" ? task : (task as { id?: unknown } | undefined)?.id;
  if (typeof id !== "string") throw new Error("neither a task nor the id of one: `must(client.POST(...))` returns the task that was made");
  return id;
}
