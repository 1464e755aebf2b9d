import assert from "node:assert/strict";
import { test } from "node:test";
import { again, pawl, PawlError } from "../src/client.ts";

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
});
