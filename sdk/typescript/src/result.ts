import { again, type PawlCalls, type Schemas } from "./client.ts";

/** The result of a task; `partial` = of its completed items alone, as the task itself did not complete. */
export type TaskResult<T = unknown> = Omit<Schemas["TaskResult"], "payload"> & { payload: T };

/** Reads the result of a completed task. Of any other task it throws a PawlError with the code `conflict`. */
export function taskResult<T = unknown>(pawl: PawlCalls, taskId: string): Promise<TaskResult<T>> {
  return read(pawl, taskId, false);
}

/**
 * Reads the result of a completed task, or, of one that is failed, dead-lettered or cancelled,
 * the results of those of its items that completed. Of an open task it throws a PawlError with
 * the code `conflict`.
 */
export function partialResult<T = unknown>(pawl: PawlCalls, taskId: string): Promise<TaskResult<T>> {
  return read(pawl, taskId, true);
}

async function read<T>(pawl: PawlCalls, id: string, partial: boolean): Promise<TaskResult<T>> {
  const params = { path: { id }, ...(partial ? { query: { partial } } : {}) };
  return (await again(() => pawl.GET("/v1/tasks/{id}/result", { params }))) as TaskResult<T>;
}
