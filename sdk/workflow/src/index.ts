import { again, pawl, PawlError, type Pawl, type PawlOptions } from "@pawl-work/sdk";
import { HookNotFoundError, RunExpiredError, WorkflowWorldError } from "@workflow/errors";
import { isTerminalRunEventType, isTerminalStepEventType, SPEC_VERSION_CURRENT, stripEventDataRefs, type CreateEventParams, type CreateEventRequest, type Event, type EventResult, type Hook, type ResolveData, type RunCreatedEventRequest, type Step, type World, type WorkflowRun } from "@workflow/world";
import { decode, encode } from "./codec.ts";
import { page } from "./page.ts";
import { Deliveries, MESSAGE_TYPE, type QueueConfig, type RunEnd } from "./queue.ts";
import { END_SIGNAL, RUN_TYPE, Runs, type Log } from "./runs.ts";
import { Streams } from "./streams.ts";
import { TOKEN_TYPE, Tokens } from "./tokens.ts";

export { MESSAGE_TYPE, RUN_TYPE, TOKEN_TYPE };

export interface PawlWorldOptions extends PawlOptions, QueueConfig {
  /** The server; by default the environment variable PAWL_URL, or http://127.0.0.1:7033. */
  url?: string;
}

/**
 * A World of the Workflow DevKit on Pawl: name this package in WORKFLOW_TARGET_WORLD.
 *
 * A run is a task of the type `workflow.run`; its events are the task's checkpoints, each appended
 * only where it follows what it was checked against. A message of a queue is a task of the type
 * `workflow.message`, delivered under a lease. A stream is a message that the run's task has. A
 * token of a hook is a task of the type `workflow.hook` while it is in use. `start` begins to
 * deliver; several processes may.
 */
export function createWorld(options: PawlWorldOptions = {}): World {
  const { url = process.env.PAWL_URL ?? "http://127.0.0.1:7033", key = process.env.PAWL_API_KEY, baseUrl, concurrency, leaseSeconds, graceMs, ...rest } = options;
  const client = pawl(url, { ...rest, ...(key ? { key } : {}) });
  const headers: Record<string, string> = { ...(key ? { authorization: `Bearer ${key}` } : {}),
    ...(rest.namespace ? { "pawl-namespace": encodeURIComponent(rest.namespace) } : {}) };
  const runs = new Runs(client);
  const tokens = new Tokens(client, runs);
  const deliveries = new Deliveries(client, { baseUrl, concurrency, leaseSeconds, graceMs });
  const streams = new Streams(client, runs, { url: url.replace(/\/+$/, ""), headers });
  const storage = storageOf(client, runs, tokens);
  return {
    specVersion: SPEC_VERSION_CURRENT,
    queue: deliveries.queue,
    createQueueHandler: deliveries.createQueueHandler,
    getDeploymentId: deliveries.getDeploymentId,
    ...storage,
    streams: { write: streams.write, writeMulti: streams.writeMulti, close: streams.close, get: streams.get, list: streams.list,
      getChunks: streams.getChunks, getInfo: streams.getInfo },
    async start() {
      deliveries.start();
    },
    close: () => deliveries.close(),
  } as World;
}

function storageOf(client: Pawl, runs: Runs, tokens: Tokens): Pick<World, "runs" | "steps" | "events" | "hooks"> {
  const create = async (runId: string | null, data: CreateEventRequest | RunCreatedEventRequest, params: CreateEventParams = {}): Promise<EventResult> => {
    const log = runs.log(runId || Runs.newId());
    const { state } = log;
    const id = ("correlationId" in data && data.correlationId) || "";
    let token: string | undefined;
    const events = await log.create(async () => {
      token = state.tokens.get(id);
      return data.eventType === "hook_created" ? hooked(log, data) : data;
    }).catch(async (error: unknown) => {
      if (RunExpiredError.is(error) && data.eventType === "run_started") await ended(log); // the process that ended it may have died before that
      throw error;
    });
    const event = events.at(-1);
    if (data.eventType === "hook_disposed" && token !== undefined) await tokens.free(token, { runId: log.runId, hookId: id });
    if (event && isTerminalRunEventType(event.eventType)) await ended(log);
    const resolve = params.resolveData ?? "all";
    const result: EventResult = { run: state.run! };
    if (event) result.event = stripEventDataRefs(event, resolve);
    if (data.eventType.startsWith("step_")) result.step = state.steps.get(id)!;
    if (event?.eventType === "hook_created") result.hook = state.hooks.get(id)!;
    if (data.eventType.startsWith("wait_")) result.wait = state.waits.get(id)!;
    if (events.length > 1 && data.eventType === "step_started") result.stepCreated = true;
    const since = data.eventType === "run_started" ? undefined : isTerminalStepEventType(data.eventType) ? params.sinceCursor : null;
    if (event && since !== null) {
      const { data: all, cursor, hasMore } = page(state.events, { limit: 1000, ...(since === undefined ? {} : { cursor: since }) });
      Object.assign(result, { events: all.map((e) => stripEventDataRefs(e, resolve)), cursor, hasMore });
    }
    return result;
  };

  /** Takes the token of a new hook; if another hook has it, that is what is stored. */
  const hooked = async (log: Log, data: Extract<CreateEventRequest, { eventType: "hook_created" }>): Promise<CreateEventRequest> => {
    const conflictingRunId = await tokens.take(data.eventData.token, { runId: log.runId, hookId: data.correlationId });
    if (conflictingRunId === undefined) return data;
    return { eventType: "hook_conflict", correlationId: data.correlationId, eventData: { token: data.eventData.token, conflictingRunId } } as unknown as CreateEventRequest;
  };

  /** Frees the tokens of a run and ends its task. To repeat it changes nothing. */
  const ended = async ({ runId, taskId, state }: Log): Promise<void> => {
    for (const [hookId, token] of state.tokens) await tokens.free(token, { runId, hookId });
    const run = state.run!;
    if (run.status === "cancelled") {
      await again(() => client.POST("/v1/tasks/{id}:cancel", { params: { path: { id: taskId } }, body: {} })).catch((error: unknown) => {
        if (!(error instanceof PawlError) || error.code !== "conflict") throw error; // it was cancelled before
      });
      return;
    }
    const end: RunEnd = { status: run.status === "failed" ? "failed" : "completed", value: run.status === "completed" ? encode(run.output) : null };
    const header = { "Idempotency-Key": `end ${runId}` };
    await again(() => client.POST("/v1/signals", { params: { header }, body: { name: END_SIGNAL, key: runId, payload: end } }));
  };

  const runOf = (run: WorkflowRun, resolve: ResolveData = "all") => (resolve === "none" ? { ...run, input: undefined, output: undefined } : run);
  const stepOf = (step: Step, resolve: ResolveData = "all") => (resolve === "none" ? { ...step, input: undefined, output: undefined } : step);
  const hookOf = ({ metadata, ...hook }: Hook, resolve: ResolveData = "all") => (resolve === "none" ? hook : { ...hook, metadata }) as Hook;
  const hookBy = async (owner: { runId: string; hookId: string } | undefined, name: string, resolve?: ResolveData): Promise<Hook> => {
    const log = owner && runs.log(owner.runId);
    await log?.read();
    const hook = log?.state.hooks.get(owner!.hookId);
    if (!hook) throw new HookNotFoundError(name);
    return hookOf(hook, resolve);
  };

  return {
    runs: {
      get: async (id: string, params = {}) => runOf((await runs.read(id)).state.run!, params.resolveData),
      list: async (params = {}) => {
        const { limit = 100, cursor, sortOrder } = params.pagination ?? {};
        const query = { type: [RUN_TYPE], limit, ...(params.status ? { state: taskStates[params.status] } : {}), ...(sortOrder === "asc" ? { asc: true } : {}),
          ...(params.workflowName ? { metadata: { workflow: params.workflowName } } : {}), ...(cursor ? { cursor } : {}) };
        const found = await again(() => client.GET("/v1/tasks", { params: { query: query as never } }));
        const data: WorkflowRun[] = [];
        for (const task of found.items) {
          const { runId } = task.payload as { runId: string };
          const { state } = await runs.read(runId);
          if (state.run && (!params.status || state.run.status === params.status)) data.push(runOf(state.run, params.resolveData) as WorkflowRun);
        }
        return { data, cursor: found.next ?? null, hasMore: found.next !== undefined };
      },
    },
    steps: {
      get: async (runId: string, stepId: string, params = {}) => {
        const step = (await runs.read(runId)).state.steps.get(stepId);
        if (!step) throw new WorkflowWorldError(`Step "${stepId}" not found`);
        return stepOf(step, params.resolveData);
      },
      list: async (params) => {
        const all = [...(await runs.read(params.runId)).state.steps.values()];
        const found = page(all, { sortOrder: "desc", ...params.pagination });
        return { ...found, data: found.data.map((s) => stepOf(s, params.resolveData)) };
      },
    },
    events: {
      create,
      get: async (runId: string, eventId: string, params = {}) => {
        const event = (await runs.read(runId)).state.events.find((e) => e.eventId === eventId);
        if (!event) throw new WorkflowWorldError(`Event "${eventId}" not found`);
        return stripEventDataRefs(event, params.resolveData ?? "all");
      },
      list: async (params) => {
        const found = page((await runs.read(params.runId)).state.events, { limit: 1000, ...params.pagination });
        return { ...found, data: found.data.map((e) => stripEventDataRefs(e, params.resolveData ?? "all")) };
      },
      listByCorrelationId: async (params) => {
        const { limit = 100, cursor, sortOrder } = params.pagination ?? {};
        const query = { metadata: { correlation: params.correlationId }, limit, ...(sortOrder === "desc" ? { order: "desc" as const } : {}), ...(cursor ? { cursor } : {}) };
        const found = await again(() => client.GET("/v1/checkpoints", { params: { query } }));
        const data = found.items.map((c) => stripEventDataRefs(decode(c.snapshot) as Event, params.resolveData ?? "all"));
        return { data, cursor: found.next ?? null, hasMore: found.next !== undefined };
      },
    },
    hooks: {
      get: async (hookId, params) => hookBy(await tokens.ofHook(hookId), hookId, params?.resolveData),
      getByToken: async (token, params) => hookBy(await tokens.of(token), token, params?.resolveData),
      list: async (params) => {
        const all = params.runId ? [...(await runs.read(params.runId)).state.hooks.values()] : [];
        const found = page(all, { sortOrder: "desc", ...params.pagination });
        return { ...found, data: found.data.map((h) => hookOf(h, params.resolveData)) };
      },
    },
  } as Pick<World, "runs" | "steps" | "events" | "hooks">;
}

/** The states of the task of a run of a status. */
const taskStates = {
  pending: ["queued", "checked_out", "in_progress"],
  running: ["queued", "checked_out", "in_progress"],
  completed: ["completed"],
  failed: ["failed", "dead_lettered"],
  cancelled: ["cancelled"],
};

export default createWorld;
