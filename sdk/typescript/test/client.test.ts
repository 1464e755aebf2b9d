import assert from "node:assert/strict";
import { test } from "node:test";
import { again, must, pawl, PawlError } from "../src/client.ts";
import { TaskFailed } from "../src/outcome.ts";
import { databases, Fixture } from "./fixture.ts";

test("a call that is asked for patience waits as long as it is told", async () => {
  const asked: number[] = [];
  const p = pawl("http://127.0.0.1:1", {
    fetch: async () => {
      asked.push(performance.now());
      if (asked.length > 1) return Response.json({ id: "tsk_1" });
      const problem = { type: "about:blank", title: "too many requests", status: 429, code: "limit" };
      return Response.json(problem, { status: 429, headers: { "Retry-After": "1", "Content-Type": "application/problem+json" } });
    },
  });
  const task = await again(() => p.GET("/v1/tasks/{id}", { params: { path: { id: "tsk_1" } } }));
  assert.equal(task.id, "tsk_1");
  assert.equal(asked.length, 2);
  assert.ok(asked[1]! - asked[0]! >= 990, `it came back after ${asked[1]! - asked[0]!} ms`);
});

test("a refusal says how long to wait", async () => {
  const p = pawl("http://127.0.0.1:1", { fetch: async () => new Response("busy", { status: 429, headers: { "Retry-After": "7" } }) });
  const refusal = await again(() => p.GET("/v1/tasks"), AbortSignal.abort()).catch((error: unknown) => error);
  assert.ok(refusal instanceof PawlError);
  assert.deepEqual([refusal.code, refusal.retryAfter], ["limit", 7]);

  const closed = pawl("http://127.0.0.1:1", { fetch: async () => new Response("busy", { status: 503, headers: { "Retry-After": "121" } }) });
  await assert.rejects(again(() => closed.GET("/v1/tasks")), { code: "unavailable", retryAfter: 121 });
});

for (const database of databases) {
  test(`wait returns the result of a task (${database})`, async () => {
    await using f = await Fixture.open(database);
    const { url } = await f.serve();
    const client = pawl(url);
    const create = async (type: string) => must(client.POST("/v1/tasks", { body: { type, max_attempts: 1 } }));
    const claim = async (type: string) => {
      const { items } = await must(client.POST("/v1/claims", { body: { worker_id: "w", types: [type], wait_seconds: 30 } }));
      return { path: { id: items[0]!.id }, body: { worker_id: "w", attempt: 1 } };
    };
    const task = await create("good");
    const waits = client.wait<{ words: number }>(task.id, { timeoutSeconds: 30 });
    const good = await claim("good");
    await must(client.POST("/v1/items/{id}:complete", { params: good, body: { ...good.body, result: { words: 3 } } }));
    assert.deepEqual(await waits, { words: 3 });
    assert.deepEqual(await client.wait(task, { timeoutSeconds: 0 }), await client.result(task.id));

    const failing = await create("bad");
    const fails = client.wait(failing).catch((error: unknown) => error);
    const bad = await claim("bad");
    await must(client.POST("/v1/items/{id}:fail", { params: bad, body: { ...bad.body, error: { message: "no such page", code: "gone" } } }));
    const error = await fails;
    assert.ok(error instanceof TaskFailed);
    assert.equal(error.task.id, failing.id);
    assert.match(error.message, /is failed: no such page \(gone\)$/);

    const open = await create("open");
    for (const timeoutSeconds of [0, 0.2, 1.1]) await assert.rejects(client.wait(open.id, { timeoutSeconds }), { name: "TimeoutError" });
    await assert.rejects(client.result(open.id), (e) => e instanceof PawlError && e.code === "conflict");
    await assert.rejects(client.wait(open.id, { signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
    await must(client.POST("/v1/tasks/{id}:cancel", { params: { path: { id: open.id } }, body: {} }));
    await assert.rejects(client.wait(open.id), (e) => e instanceof TaskFailed && e.task.state === "cancelled");
    await assert.rejects(client.wait("tsk_01M7YH871CX3G0E5ZQMGF8KJ47"), (e) => e instanceof PawlError && e.code === "not_found");
  });
}
