import { again, PawlError, type Pawl, type Schemas } from "@pawl-work/sdk";
import { EntityConflictError, WorkflowRunNotFoundError } from "@workflow/errors";
import type { CreateEventRequest, Event, RunCreatedEventRequest } from "@workflow/world";
import { monotonicFactory } from "ulid";
import { decode, encode } from "./codec.ts";
import { RunState } from "./run.ts";

/** The type of the tasks that are runs. Their checkpoints are the events, in order. */
export const RUN_TYPE = "workflow.run";
/** The signal that ends a run's item. */
export const END_SIGNAL = "workflow.end";

type Request = CreateEventRequest | RunCreatedEventRequest;

const runsKept = 500;
/** How long a run is found by its id after its creation, also when it has ended: the longest that a key may be kept. */
const keySeconds = 366 * 86_400;
const ulid = monotonicFactory();

/** A run as far as this process has read it. */
export class Log {
  readonly state = new RunState();
  taskId = "";
  sequence = 0; // of the newest event that was read or stored
  #newest = 0; // of the task's newest checkpoint, up to which the state has all events: the item saves checkpoints too
  #reading: Promise<void> | undefined;
  #following: Promise<void> | undefined; // the read after that one
  readonly #pawl: Pawl;
  readonly runId: string;

  constructor(pawl: Pawl, runId: string) {
    this.#pawl = pawl;
    this.runId = runId;
  }

  /** Reads the events that this process does not have: all that are stored when it is called. */
  read(): Promise<void> {
    if (!this.#reading) return (this.#reading = this.#read().finally(() => (this.#reading = undefined)));
    const next = () => {
      this.#following = undefined;
      return this.read();
    };
    return (this.#following ??= this.#reading.then(next, next)); // the one in progress may be older than the caller's news
  }

  async #read(): Promise<void> {
    for (;;) {
      const query = { task_type: RUN_TYPE, task_key: this.runId, own: true, limit: 1000, ...(this.sequence ? { cursor: String(this.sequence) } : {}) };
      const page = await unlessMissing(again(() => this.#pawl.GET("/v1/checkpoints", { params: { query } })));
      if (!page) return;
      for (const c of page.items) {
        this.taskId = c.task_id;
        if (c.sequence > this.sequence) this.#take(c.sequence, decode(c.snapshot) as Event);
      }
      if (!page.next) return;
    }
  }

  #take(sequence: number, event: Event): void {
    this.sequence = sequence;
    this.#newest = Math.max(this.#newest, sequence);
    this.state.apply(event);
  }

  /**
   * Stores an event. What it is checked against is what it follows: if another process was faster,
   * its events are read and the event is checked again. `before` makes what is stored.
   */
  async create(before: () => Promise<Request>): Promise<Event[]> {
    const ids = [`evnt_${ulid()}`, `evnt_${ulid()}`];
    for (let fresh = false, newest = 0; ; fresh = true) {
      if (fresh || !this.state.run) await this.read();
      this.#newest = Math.max(this.#newest, newest);
      const mine = this.state.events.filter((e) => ids.includes(e.eventId));
      if (mine.length > 0) return mine; // an answer was lost
      let events: Event[];
      try {
        events = this.state.admit(this.runId, await before(), ids, new Date());
      } catch (error) {
        if (fresh) throw error;
        continue;
      }
      if (events.length === 0) return events;
      const refused = await this.#append(events);
      if (refused === undefined) return events;
      newest = refused;
    }
  }

  /** Appends events, if the task has no newer checkpoint than the state knows; else it returns that one's number. */
  async #append(events: Event[]): Promise<number | undefined> {
    const at = this.#newest;
    const checkpoints = events.map((e) => ({ type: "custom" as const, name: e.eventId, snapshot: encode(e),
      metadata: { event: e.eventType, ...(e.correlationId ? { correlation: e.correlationId } : {}) } }));
    const call: Schemas["CheckpointAppend"] = this.state.run
      ? { task_id: this.taskId, expected: at, checkpoints }
      : { create: this.#task(events[0]!), expected: at, checkpoints };
    const { results } = await again(() => this.#pawl.POST("/v1/tasks:append", { body: { items: [call] } }));
    const { value, error } = results[0]!;
    if (error) {
      if (error.code === "conflict" && error.reason === "sequence") return error.expected ?? 0;
      if (error.code === "conflict") throw new EntityConflictError(`Workflow run "${this.runId}" has ended`);
      throw new PawlError(error);
    }
    this.taskId = value!.task_id;
    if (this.#newest === at) value!.checkpoints.forEach((c, n) => this.#take(c.sequence, events[n]!));
    else await this.read();
    return undefined;
  }

  #task(created: Event): Schemas["NewTask"] {
    const { workflowName, input } = (created as { eventData: { workflowName: string; input: unknown } }).eventData;
    return { type: RUN_TYPE, title: workflowName.slice(0, 200), payload: { runId: this.runId, input: encode(input) }, metadata: { workflow: workflowName },
      unique: { by: "key", key: this.runId, window_seconds: keySeconds, on_conflict: "return" } };
  }
}

/** The runs that this process works with. */
export class Runs {
  readonly #pawl: Pawl;
  readonly #logs = new Map<string, Log>();

  constructor(pawl: Pawl) {
    this.#pawl = pawl;
  }

  log(runId: string): Log {
    const log = this.#logs.get(runId) ?? new Log(this.#pawl, runId);
    this.#logs.delete(runId);
    this.#logs.set(runId, log); // the newest is the last
    for (const id of this.#logs.keys()) {
      if (this.#logs.size <= runsKept) break;
      this.#logs.delete(id);
    }
    return log;
  }

  /** A run with all events that are stored. */
  async read(runId: string): Promise<Log> {
    const log = this.log(runId);
    await log.read();
    if (!log.state.run) throw new WorkflowRunNotFoundError(runId);
    return log;
  }

  static newId(): string {
    return `wrun_${ulid()}`;
  }
}

/** What is read, or undefined if there is no such task. */
export async function unlessMissing<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof PawlError && error.code === "not_found") return undefined;
    throw error;
  }
}
