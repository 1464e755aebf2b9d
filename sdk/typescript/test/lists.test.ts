// What an operator lists, page by page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { must, pawl, PawlError } from "../src/index.ts";
import { databases, Fixture } from "./fixture.ts";

for (const database of databases) {
  test(`lists are read page by page (${database})`, async () => {
    await using f = await Fixture.open(database);
    const p = pawl((await f.serve()).url);
    for (const type of ["a", "b", "c"]) await must(p.POST("/v1/tasks", { body: { type, max_attempts: 1 } }));
    for (const id of ["llm", "mail"]) await must(p.PUT("/v1/budgets/{id}", { params: { path: { id } }, body: { unit: "tokens", limit: 9 } }));
    const daily = { cron: "@daily", task: { type: "a" } };
    for (const id of ["one", "two"]) await must(p.PUT("/v1/schedules/{id}", { params: { path: { id } }, body: daily }));
    await must(p.POST("/v1/workers", { body: { worker_id: "w" } }));
    const { items: [lease] } = await must(p.POST("/v1/claims", { body: { worker_id: "w", types: ["a"] } }));
    const held = { worker_id: "w", attempt: lease!.attempt };
    const sent = { item_id: lease!.id, name: "mail", request_hash: "h", ...held };
    await must(p.POST("/v1/effects:open", { body: sent }));
    await must(p.POST("/v1/idempotency-keys/{id}:begin", { params: { path: { id: "k" } }, body: { request_hash: "h" } }));
    const fail = { params: { path: { id: lease!.id } }, body: { error: { code: "no", message: "it failed" }, ...held } };
    await must(p.POST("/v1/items/{id}:fail", fail));

    const one = { params: { query: { limit: 1 } } };
    const seen = async <T>(list: AsyncIterable<T>, name: (one: T) => unknown) => {
      const all = [];
      for await (const it of list) all.push(name(it));
      return all;
    };
    assert.deepEqual(await seen(p.list("/v1/tasks", one), (t) => t.type), ["c", "b", "a"]);
    assert.deepEqual(await seen(p.list("/v1/tasks", { params: { query: { state: ["failed"] } } }), (t) => t.type), ["a"]);
    assert.deepEqual(await seen(p.list("/v1/failures", one), (g) => [g.type, g.count]), [["a", 1]]);
    assert.deepEqual(await seen(p.list("/v1/queues", one), (q) => q.type), ["a", "b", "c"]);
    assert.deepEqual(await seen(p.list("/v1/workers", one), (w) => w.worker_id), ["w"]);
    assert.deepEqual(await seen(p.list("/v1/idempotency-keys", one), (k) => k.status), ["pending"]);
    assert.deepEqual(await seen(p.list("/v1/relays"), (r) => r.sink), []);
    assert.deepEqual(await seen(p.list("/v1/namespaces", one), (n) => [n.namespace, n.open_tasks]), [["default", 2]]);
    assert.deepEqual(await seen(p.list("/v1/budgets", one), (b) => b.name), ["llm", "mail"]);
    assert.deepEqual(await seen(p.list("/v1/schedules", one), (s) => s.name), ["one", "two"]);
    assert.deepEqual(await seen(p.list("/v1/effects", one), (e) => e.name), ["mail"]);
    const firings = p.list("/v1/schedules/{id}/firings", { params: { path: { id: "one" } } });
    assert.deepEqual(await firings.all(), []);

    const first = await p.list("/v1/tasks", one).page();
    const next = await p.list("/v1/tasks", one).page(first.next);
    assert.deepEqual([first, next].map((page) => page.items.map((t) => t.type)), [["c"], ["b"]]);
    // @ts-expect-error: a task is no list
    p.list("/v1/tasks/{id}", { params: { path: { id: "tsk_none" } } });
    // @ts-expect-error: no such state
    await assert.rejects(p.list("/v1/tasks", { params: { query: { state: ["faild"] } } }).all(), (e) => e instanceof PawlError && e.code === "invalid");
  });
}

test("a page is asked for again while the server has too much to do", async () => {
  let asked = 0;
  const answer = () => (++asked === 1 ? new Response("busy", { status: 429 }) : Response.json({ items: [{ type: "a" }] }));
  const p = pawl("http://127.0.0.1:1", { fetch: async () => answer() });
  assert.deepEqual((await p.list("/v1/queues").all()).map((q) => q.type), ["a"]);
  assert.equal(asked, 2);
});
