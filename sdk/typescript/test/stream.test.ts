import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { tool } from "ai";
import { z } from "zod";
import { conversation, pawlStream } from "../src/ai.ts";
import { must, pawl, PawlError, work, type Lease, type Message, type Pawl, type Schemas } from "../src/index.ts";
import { recorded } from "../src/replay.ts";
import { Writer } from "../src/writer.ts";
import { model, reference, reply, tools } from "./agent.ts";
import { databases, Fixture, kill, until } from "./fixture.ts";

type Part = { type: string; text?: string; status?: string; toolCallId?: string };

/** What stands of a message; results that come together in the order of their calls, as they run at once. */
function standing(m: Message): Part[] {
  const parts = (m.content as Part[]).filter((p) => p.status !== "abandoned");
  for (let n = 1; n < parts.length; n++) {
    const [a, b] = [parts[n - 1]!, parts[n]!];
    if (a.type === "tool-result" && b.type === a.type && a.toolCallId! > b.toolCallId!) [parts[n - 1], parts[n], n] = [b, a, 0];
  }
  return parts;
}
const textOf = (m: Message) => standing(m).map((p) => (p.type === "text" ? p.text : "")).join("");

/** Asks for a reply, and answers with its id. */
async function ask(p: Pawl, more: Partial<Schemas["NewTask"]> = {}): Promise<{ task: string; message: string }> {
  const task = await must(p.POST("/v1/tasks", {
    body: { type: "agent", messages: [{ role: "user", content: "What do they come to?" }], reply: { model: "m" }, ...more },
  }));
  const { items } = await must(p.GET("/v1/messages", { params: { query: { task_id: task.id } } }));
  return { task: task.id, message: items.at(-1)!.id };
}

const read = (p: Pawl, id: string) => must(p.GET("/v1/messages/{id}", { params: { path: { id } } }));

/** Claims the one item there is. */
async function claim(p: Pawl, lease_seconds = 60) {
  const { items } = await must(p.POST("/v1/claims", { body: { worker_id: "w", lease_seconds, wait_seconds: 20 } }));
  return items[0]!;
}

for (const database of databases) {
  test(`what streamText says is saved while it says it (${database})`, { timeout: 60_000 }, async () => {
    await using fixture = await Fixture.open(database);
    const { url } = await fixture.serve();
    const p = pawl(url, { actor: "agent/test" });
    const { task, message } = await ask(p);
    const lease = await claim(p);
    const ran: string[] = [];
    const seen: number[] = [];
    const s = await pawlStream({
      pawl: p, lease, model: model(10), tools: tools((line) => ran.push(line), 1),
      prepareStep: ({ stepNumber }) => void seen.push(stepNumber),
    });
    const partly = new Set<string>();
    let done = false;
    const watching = (async () => {
      while (!done) partly.add(textOf(await read(p, message)));
    })();
    const m = await s.message;
    done = true;
    await watching;
    assert.ok(partly.size > 3, `it was seen as ${[...partly].join(" | ")}`);
    for (const text of partly) assert.ok(reference.startsWith(text), text);
    assert.equal(m.status, "complete");
    assert.equal(textOf(m), reference);
    assert.equal(await s.result!.text, "and it is twenty-one, plus three.");
    assert.deepEqual(seen, [0, 1, 2]);
    assert.deepEqual(ran, ['["add",1,2]', '["add",3,4]', '["multiply",3,7]', '["add",5,6]']);
    assert.deepEqual(m.usage, { input_tokens: 30, output_tokens: 15 });
    assert.deepEqual(standing(m).map((x) => x.type), ["reasoning", "text", "tool-call", "tool-call", "tool-result", "tool-result", "text", "tool-call", "tool-call", "tool-result", "tool-result", "text"]);
    const saved = await must(p.GET("/v1/tasks/{id}/checkpoints", { params: { path: { id: task } } }));
    const last = saved.items.at(-1)!;
    assert.deepEqual(saved.items.filter((c) => c.type === "iteration_end").map((c) => c.name), ["step:1", "step:2", "step:3"]);
    const snapshot = last.snapshot as Record<string, unknown>;
    assert.equal(snapshot.text, reference);
    assert.equal(snapshot.finish_reason, "stop");
    assert.equal(snapshot.max_steps, 10);
  });

  test(`an agent that is killed anywhere is followed by one that ends with the same words (${database})`, { timeout: 300_000 }, async (t) => {
    await using fixture = await Fixture.open(database);
    const { url } = await fixture.serve();
    const p = pawl(url);
    const log = join(fixture.dir, "ran");
    const start = (n: number) => fixture.run(process.execPath, [join(import.meta.dirname, "agent.ts"), url, `agent-${n}`, log]);
    const rounds = process.env.PAWL_TORTURE ? 50 : 4;
    let agents = 0;
    let agent = start(agents++);
    const whole = await ask(p, { max_attempts: 50 });
    await until(async () => (await read(p, whole.message)).status === "complete", "a reply is complete");
    const want = await read(p, whole.message);
    assert.equal(textOf(want), reference);
    let kills = 0;
    for (let round = 0; round < rounds; round++) {
      const { task, message } = await ask(p, { max_attempts: 50 });
      for (let at = Math.random() * 6; ; at += 3 + Math.random() * 20) {
        await until(async () => (await read(p, message)).offset >= at || (await read(p, message)).status !== "streaming", `chunk ${at} is said`);
        if ((await read(p, message)).status !== "streaming") break;
        await kill(agent);
        kills++;
        agent = start(agents++);
      }
      const got = await read(p, message);
      assert.equal(got.status, "complete");
      assert.deepEqual(standing(got), standing(want));
      await once(p, task, log);
    }
    t.diagnostic(`${kills} kills in ${rounds} replies`);
    assert.ok(kills >= rounds);
  });

  test(`a generation outlives its server, and ends when it is stopped (${database})`, { timeout: 60_000 }, async () => {
    await using fixture = await Fixture.open(database);
    let { url, port, child } = await fixture.serve();
    const p = pawl(url);
    const first = await ask(p);
    const lease = await claim(p);
    const s = await pawlStream({ pawl: p, lease, model: model(30), tools: tools(() => {}, 30) });
    await until(async () => (await read(p, first.message)).offset >= 4, "something is said");
    await kill(child);
    await pause(300);
    ({ child } = await fixture.serve(port));
    assert.equal(textOf(await s.message), reference);

    const second = await ask(p);
    const ending = new AbortController();
    const working = work(p, { workerId: "w2", types: ["agent"], signal: ending.signal }, (job) => reply(job, () => {}, 50));
    await until(async () => (await read(p, second.message)).offset >= 4, "something is said");
    await must(p.POST("/v1/messages/{id}:stop", { params: { path: { id: second.message } }, body: { reason: "enough" } }));
    await until(async () => (await must(p.GET("/v1/tasks/{id}", { params: { path: { id: second.task } } }))).state === "completed", "the item is completed");
    const m = await read(p, second.message);
    assert.equal(m.status, "stopped");
    assert.ok(reference.startsWith(textOf(m)) && textOf(m).length < reference.length);

    const third = await ask(p);
    await until(async () => (await read(p, third.message)).offset >= 2, "something is said");
    ending.abort(); // it has 30 s to end what is under way
    await working;
    assert.equal(textOf(await read(p, third.message)), reference);
  });

  test(`a model that fails leaves what it said, and the next attempt begins the step again (${database})`, { timeout: 60_000 }, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const { task, message } = await ask(p, { max_attempts: 2 });
    const broken = model(1);
    const doStream = broken.doStream;
    broken.doStream = async (options) => {
      const { stream } = await doStream(options);
      if (options.prompt.every((m) => m.role !== "tool")) return { stream };
      let n = 0;
      const breaks = new TransformStream({ transform: (part, c) => (n++ < 5 ? c.enqueue(part) : (c.enqueue({ type: "error", error: new Error("overloaded") }), c.terminate())) });
      return { stream: stream.pipeThrough(breaks) };
    };
    const lease = await claim(p);
    const ran: string[] = [];
    const s = await pawlStream({ pawl: p, lease, model: broken, tools: tools((line) => ran.push(line), 1), onError: () => {} });
    await assert.rejects(s.message, /overloaded/);
    const params = { path: { id: lease.id } };
    await must(p.POST("/v1/items/{id}:fail", { params, body: { worker_id: "w", attempt: 1, error: "overloaded", retry_after_ms: 0 } }));
    const next = await claim(p);
    assert.equal(next.open_message?.step_number, 1);
    const more = await pawlStream({ pawl: p, lease: next, model: model(1), tools: tools((line) => ran.push(line), 1) });
    assert.equal(textOf(await more.message), reference);
    assert.deepEqual(ran, ['["add",1,2]', '["add",3,4]', '["multiply",3,7]', '["add",5,6]']);
    await assert.rejects(must(p.POST("/v1/messages/{id}:append", { params: { path: { id: message } }, body: { worker_id: "w", attempt: 1, offset: 0, chunks: [] } })), PawlError);
    assert.ok(task);
  });

  test(`an item that was sent back runs its tools again (${database})`, { timeout: 60_000 }, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    await must(p.PUT("/v1/types/{id}", { params: { path: { id: "agent" } }, body: { acceptance: true, approval: { mode: "manual" } } }));
    const { task } = await ask(p);
    const ran: string[] = [];
    for (const rework of [0, 1]) {
      const lease = await claim(p);
      assert.equal(lease.rework ?? 0, rework);
      const asked = model(1);
      const s = await pawlStream({ pawl: p, lease, model: asked, messages: [{ role: "user", content: "What?" }], tools: tools((line) => ran.push(line), 1) });
      assert.equal(textOf(await s.message), reference);
      const why = "Your earlier result was sent back:\n- /text: too thin";
      for (const call of asked.doStreamCalls) {
        const said = call.prompt.filter((m) => m.role === "user").flatMap((m) => m.content).map((part) => part.type === "text" && part.text);
        assert.deepEqual(said, rework === 0 ? ["What?"] : ["What?", why]);
      }
      assert.equal(ran.length, 4 * (rework + 1));
      await must(p.POST("/v1/items/{id}:submit", { params: { path: { id: lease.id } }, body: { worker_id: "w", attempt: lease.attempt, result: rework } }));
      if (rework === 0) await must(p.POST("/v1/tasks/{id}:reject", { params: { path: { id: task } }, body: { errors: [{ code: "thin", field: "/text", message: "too thin" }], allow_rework: true } }));
    }
  });
}

/** No tool ran in a later attempt than the one that kept its result. */
async function once(p: Pawl, task: string, log: string): Promise<void> {
  const { items } = await must(p.GET("/v1/tasks/{id}/checkpoints", { params: { path: { id: task }, query: { limit: 1000 } } }));
  const kept = items.filter((c) => c.type === "tool_executed");
  const ran = (await readFile(log, "utf8")).split("\n").flatMap((line) => {
    const [of, attempt, call] = line.split(" ");
    return of === task ? [{ attempt: Number(attempt), call }] : [];
  });
  assert.equal(kept.length, 4);
  for (const c of kept) {
    const { tool_name, input } = c.snapshot as { tool_name: string; input: { a: number; b: number } };
    const call = JSON.stringify([tool_name, input.a, input.b]);
    const runs = ran.filter((r) => r.call === call).map((r) => r.attempt);
    assert.equal(Math.max(...runs), c.attempt, `${call} ran in ${runs}, its result was kept in ${c.attempt}`);
  }
}

test("a tool that has run when the signal ends is kept", async () => {
  const saved: unknown[] = [];
  const p = pawl("http://x", { fetch: async (request) => (saved.push(await (request as Request).json()), Response.json({ id: "ckp_1", sequence: 1 }, { status: 201 })) });
  const lease = { id: "itm_1", attempt: 1, worker_id: "w1" } as Lease;
  const over = new AbortController();
  const writer = new Writer(p, lease, { id: "msg_1", offset: 0 }, 100, new AbortController());
  const pay = tool({ inputSchema: z.object({}), execute: () => (over.abort(new Error("the worker stops")), "paid") });
  const { execute } = recorded({ pay }, { pawl: p, lease, writer, signal: over.signal, steps: {}, step: 1 }).pay;
  await assert.rejects(async () => execute!({}, { toolCallId: "c1", messages: [] } as unknown as Parameters<NonNullable<typeof execute>>[1]), /the worker stops/);
  assert.deepEqual(saved.map((c) => (c as { snapshot: { output: string } }).snapshot.output), ["paid"]);
});

test("a conversation is what stands of it", { timeout: 60_000 }, async () => {
  await using fixture = await Fixture.open("sqlite");
  const p = pawl((await fixture.serve()).url);
  const user = (id: string, text: string) => ({ role: "user", content: text, metadata: { chat: { id } } });
  const { message: one } = await ask(p, { thread: "t", messages: [{ role: "system", content: "Obey." }, user("u1", "One?")], reply: { metadata: { chat: { reply_to: "u1" } } } });
  assert.deepEqual(await conversation(p, one), [{ role: "user", content: [{ type: "text", text: "One?" }] }]);
  const s = await pawlStream({ pawl: p, lease: await claim(p), model: model(0), tools: tools(() => {}, 0) });
  await s.message;
  const { message: two } = await ask(p, { thread: "t", messages: [user("u2", "Two?")], reply: { metadata: { chat: { reply_to: "u2" } } } });
  const said = await conversation(p, two);
  assert.deepEqual(said.map((m) => m.role), ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]);
  const { message: other } = await ask(p, { thread: "t", messages: [user("u1", "Once more?")], reply: { metadata: { chat: { reply_to: "u1" } } } });
  assert.deepEqual(await conversation(p, other), [{ role: "user", content: [{ type: "text", text: "Once more?" }] }]);
  const { message: again } = await ask(p, { thread: "t", messages: undefined, reply: { metadata: { chat: { reply_to: "u1" } } } });
  assert.deepEqual((await conversation(p, again)).length, 1);
});
