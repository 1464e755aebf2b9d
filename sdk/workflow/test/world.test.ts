// What the suite of the Workflow DevKit does not ask: several processes, tokens, streams, deliveries.
import { pawl, type Pawl } from "@pawl-work/sdk";
import { EntityConflictError, HookNotFoundError, RunExpiredError, WorkflowRunNotFoundError } from "@workflow/errors";
import { SPEC_VERSION_CURRENT, type World } from "@workflow/world";
import { spawn } from "node:child_process";
import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createWorld, RUN_TYPE, TOKEN_TYPE } from "../src/index.ts";
import { databases, Server } from "../../langgraph/test/servers.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const textOf = (b: Uint8Array) => new TextDecoder().decode(b);

for (const database of databases) {
  describe(database, () => {
    let server: Server;
    let client: Pawl;
    const worlds = () => [createWorld({ url: server.url }), createWorld({ url: server.url })] as [World, World];
    const run = async (world: World): Promise<string> => {
      const { event } = await world.events.create(null, { eventType: "run_created", specVersion: SPEC_VERSION_CURRENT,
        eventData: { deploymentId: "d", workflowName: "w", input: bytes("in") } });
      return event!.runId;
    };
    beforeAll(async () => {
      server = await Server.start(database);
      client = pawl(server.url);
    });
    afterAll(() => server.stop());

    test("of two processes that start a step, one does", async () => {
      const [a, b] = worlds();
      const runId = await run(a);
      const start = (w: World) => w.events.create(runId, { eventType: "step_started", correlationId: "s1", eventData: { stepName: "s", input: bytes("x") } });
      const outcomes = await Promise.allSettled([start(a), start(b), start(a), start(b)]);
      const done = outcomes.filter((o) => o.status === "fulfilled");
      expect(done.map((o) => o.value.stepCreated)).toEqual([true]);
      for (const o of outcomes) if (o.status === "rejected") expect(o.reason).toBeInstanceOf(EntityConflictError);
      for (const w of [a, b]) {
        const { data } = await w.events.list({ runId });
        expect(data.map((e) => e.eventType)).toEqual(["run_created", "step_created", "step_started"]);
        expect(await w.steps.get(runId, "s1")).toMatchObject({ status: "running", attempt: 1, input: bytes("x") });
      }
    });

    test("events that come at once are each checked against those before them", async () => {
      const [a, b] = worlds();
      const runId = await run(a);
      a.start!(); // its delivery of the run's item saves a checkpoint between the events
      const create = (w: World, n: number) => w.events.create(runId, { eventType: "step_created", correlationId: `s${n}`, eventData: { stepName: "s", input: n } });
      const outcomes = await Promise.allSettled(Array.from({ length: 40 }, (_, n) => create(n % 2 ? a : b, n % 10)));
      expect(outcomes.filter((o) => o.status === "fulfilled").length).toBe(10);
      for (const w of [a, b, createWorld({ url: server.url })]) {
        const ids = (await w.events.list({ runId })).data.map((e) => e.correlationId ?? "");
        expect(ids.toSorted()).toEqual(["", ...Array.from({ length: 10 }, (_, n) => `s${n}`)]);
      }
      await a.close!();
    });

    test("a run that has ended takes no more, and its task has its result", async () => {
      const [a, b] = worlds();
      const runId = await run(a);
      a.start!();
      await a.events.create(runId, { eventType: "run_started" });
      await b.events.create(runId, { eventType: "run_completed", eventData: { output: bytes("out") } });
      expect(await a.runs.get(runId)).toMatchObject({ status: "completed", output: bytes("out") });
      await expect(a.events.create(runId, { eventType: "run_started" })).rejects.toThrow(RunExpiredError);
      await expect(a.events.create(runId, { eventType: "run_failed", eventData: { error: bytes("e") } })).rejects.toThrow(EntityConflictError);
      const query = { type: [RUN_TYPE], metadata: { workflow: "w" }, state: ["completed" as const] };
      await vi.waitFor(async () => {
        const { data } = await client.GET("/v1/tasks", { params: { query } });
        expect(data!.items.map((t) => (t.payload as { runId: string }).runId)).toContain(runId);
      }, { timeout: 20_000 });
      expect((await b.runs.list({ status: "completed" })).data.map((r) => r.runId)).toContain(runId);
      await client.POST("/v1/sweeps", {}); // which frees the keys of tasks that have ended
      const late = createWorld({ url: server.url });
      expect(await late.runs.get(runId)).toMatchObject({ status: "completed", output: bytes("out") });
      expect(await late.streams.getInfo(runId, "none")).toEqual({ tailIndex: -1, done: true });
      expect(await (await late.streams.get(runId, "none")).getReader().read()).toMatchObject({ done: true });
      await expect(late.events.create(runId, { eventType: "run_created", eventData: { deploymentId: "d", workflowName: "w", input: 1 } })).rejects.toThrow(EntityConflictError);
      await a.close!();
      await expect(a.runs.get("wrun_none")).rejects.toThrow(WorkflowRunNotFoundError);
    });

    test("what the process that ended a run left undone is done by the next delivery", async () => {
      let broken = true;
      const fetched: typeof fetch = async (...args) => {
        if (broken && (args[0] as Request).url.endsWith("/v1/signals")) throw new Error("killed");
        return fetch(...args);
      };
      const [a, b] = [createWorld({ url: server.url, fetch: fetched }), createWorld({ url: server.url })];
      const runId = await run(a);
      await a.events.create(runId, { eventType: "hook_created", correlationId: "h1", eventData: { token: `left ${runId}` } });
      await a.events.create(runId, { eventType: "run_started" });
      await expect(a.events.create(runId, { eventType: "run_completed", eventData: { output: bytes("out") } })).rejects.toThrow("killed");
      broken = false;
      b.start!();
      await expect(b.events.create(runId, { eventType: "run_started" })).rejects.toThrow(RunExpiredError);
      await vi.waitFor(async () => {
        const { data } = await client.GET("/v1/tasks", { params: { query: { type: [RUN_TYPE], state: ["completed" as const], limit: 1000 } } });
        expect(data!.items.map((t) => (t.payload as { runId: string }).runId)).toContain(runId);
      }, { timeout: 20_000 });
      const { data } = await client.GET("/v1/tasks", { params: { query: { type: [TOKEN_TYPE], metadata: { run: runId } } } });
      expect(data!.items.map((t) => t.state)).toEqual(["cancelled"]);
      await b.close!();
    });

    test("a token belongs to one hook, until its run ends", async () => {
      const [a, b] = worlds();
      const [first, second] = [await run(a), await run(b)];
      const token = `token ${first}`;
      const hook = (w: World, runId: string, id: string) => w.events.create(runId, { eventType: "hook_created", correlationId: id, eventData: { token } });
      await hook(a, first, "h1");
      expect(await b.hooks.getByToken(token)).toMatchObject({ runId: first, hookId: "h1" });
      expect(await b.hooks.get("h1")).toMatchObject({ token });
      expect((await hook(b, second, "h2")).event).toMatchObject({ eventType: "hook_conflict", eventData: { conflictingRunId: first } });
      await createWorld({ url: server.url }).events.create(first, { eventType: "run_cancelled" }); // a process that knows nothing of the hook
      await expect(b.hooks.getByToken(token)).rejects.toThrow(HookNotFoundError);
      expect((await hook(b, second, "h3")).hook).toMatchObject({ runId: second, token });
      await b.events.create(second, { eventType: "hook_disposed", correlationId: "h3" });
      await expect(b.events.create(second, { eventType: "hook_received", correlationId: "h3", eventData: { payload: 1 } })).rejects.toThrow(HookNotFoundError);
    });

    test("a stream has the chunks of all its writers, and is read from anywhere", async () => {
      const [a, b] = worlds();
      const runId = await run(a);
      const reader = (await b.streams.get(runId, "out")).getReader(); // before anything is written
      await Promise.all([a.streams.writeMulti!(runId, "out", ["a1", "a2"]), b.streams.write(runId, "out", bytes("b1"))]);
      await a.streams.write(runId, "out", "\0");
      expect(await b.streams.getInfo(runId, "out")).toEqual({ tailIndex: 3, done: false });
      await b.streams.close(runId, "out");
      await a.streams.close(runId, "out");
      const read: string[] = [];
      for (let r = await reader.read(); !r.done; r = await reader.read()) read.push(textOf(r.value));
      expect(read.toSorted()).toEqual(["\0", "a1", "a2", "b1"]);
      expect(read.indexOf("a1")).toBeLessThan(read.indexOf("a2"));
      const last: string[] = [];
      for await (const chunk of (await a.streams.get(runId, "out", -2)) as unknown as AsyncIterable<Uint8Array>) last.push(textOf(chunk));
      expect(last).toEqual(read.slice(-2));
      const page = await a.streams.getChunks(runId, "out", { limit: 3 });
      expect(page).toMatchObject({ hasMore: true, done: true });
      const rest = await a.streams.getChunks(runId, "out", { limit: 3, cursor: page.cursor! });
      expect([...page.data, ...rest.data].map((c) => [c.index, textOf(c.data)])).toEqual(read.map((t, n) => [n, t]));
      expect(rest).toMatchObject({ hasMore: false, cursor: null });
      expect(await b.streams.list(runId)).toEqual(["out"]);
    });

    test("a message is delivered until it is handled, by the process that is left", async () => {
      const app = await application();
      const [a, b] = [0, 1].map(() => createWorld({ url: server.url, baseUrl: app.url, graceMs: 500 })) as [World, World];
      a.start!();
      const { messageId } = await a.queue("__wkf_workflow_x" as never, { runId: "wrun_x" } as never, { idempotencyKey: "k" });
      expect((await b.queue("__wkf_workflow_x" as never, { runId: "wrun_x" } as never, { idempotencyKey: "k" })).messageId).toBe(messageId);
      await vi.waitFor(() => expect(app.asked.length).toBe(1), { timeout: 20_000 }); // it does not answer
      const closing = a.close!();
      b.start!();
      app.answers = true;
      await vi.waitFor(() => expect(app.asked.length).toBe(2), { timeout: 60_000 });
      await closing;
      expect(app.asked.map((m) => [m.id, m.body])).toEqual([[messageId, { runId: "wrun_x" }], [messageId, { runId: "wrun_x" }]]);
      await b.close!();
      app.http.close();
    }, 120_000);

    test("a message of a process that was killed is delivered by another one", async () => {
      const app = await application();
      const options = { url: server.url, baseUrl: app.url, leaseSeconds: 2, graceMs: 500 };
      const script = `import { createWorld } from "./dist/index.js"; createWorld(${JSON.stringify(options)}).start();`;
      const killed = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "inherit" });
      const world = createWorld(options);
      await world.queue("__wkf_step_x" as never, { runId: "wrun_x" } as never);
      await vi.waitFor(() => expect(app.asked.length).toBe(1), { timeout: 20_000 });
      killed.kill("SIGKILL");
      world.start!();
      app.answers = true;
      await vi.waitFor(() => expect(app.asked.length).toBe(2), { timeout: 60_000 });
      expect(app.asked[1]!.id).toBe(app.asked[0]!.id);
      await world.close!();
      app.http.close();
    }, 120_000);
  });
}

interface App {
  url: string;
  http: HttpServer;
  answers: boolean;
  asked: { id: string; body: unknown }[];
}

/** An application that gets messages. */
async function application(): Promise<App> {
  const app: Omit<App, "url"> = { answers: false, asked: [], http: createServer((request, response) => {
    let text = "";
    request.on("data", (d) => (text += d)).on("end", () => {
      app.asked.push({ id: String(request.headers["x-pawl-message"]), body: JSON.parse(text) });
      if (app.answers) response.setHeader("content-type", "application/json").end('{"ok":true}');
    });
  }) };
  await new Promise<void>((resolve) => app.http.listen(0, "127.0.0.1", resolve));
  return Object.assign(app, { url: `http://127.0.0.1:${(app.http.address() as AddressInfo).port}` });
}
