import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { test } from "node:test";
import { report } from "../src/client.ts";
import { must, pawl, work, type Pawl } from "../src/index.ts";

/** What the types refuse and take; it is compiled, and not called. */
export async function calls(c: Pawl): Promise<void> {
  // @ts-expect-error a member of a task that is not known
  await c.POST("/v1/tasks", { body: { type: "x", priorty: 5 } });
  // @ts-expect-error a member of one of its items
  await c.POST("/v1/tasks", { body: { type: "x", items: [{ inptu: 1 }] } });
  // @ts-expect-error a parameter
  await c.GET("/v1/tasks", { params: { query: { stat: "queued" } } });
  // @ts-expect-error a path
  await c.GET("/v1/taks");
  // @ts-expect-error no body
  await c.POST("/v1/tasks");
  const task = await must(c.POST("/v1/tasks", { body: { type: "x", payload: { any: 1 } } }));
  const read = await c.GET("/v1/tasks/{id}", { params: { path: { id: task.id } } });
  const text = await c.GET("/v1/tasks/{id}", { params: { path: { id: task.id } }, parseAs: "text" });
  const both: [string | undefined, string | undefined] = [read.data?.state, text.data];
  void both;
  await c.GET("/v1/queues");
}

test("a URL that is none is refused at once", () => {
  for (const url of ["127.0.0.1:7033", "localhost:7033", ""]) {
    assert.throws(() => pawl(url), { name: "TypeError", message: `${JSON.stringify(url)} is no http URL, such as http://127.0.0.1:7033` });
  }
});

test("a body that is no JSON is refused at once", async () => {
  const p = pawl("http://127.0.0.1:1");
  const call = () => p.POST("/v1/items/{id}:checkpoint", { params: { path: { id: "x" } }, body: { worker_id: "w", attempt: 1, type: "custom" as const, snapshot: null, metadata: { n: 1n } } });
  await assert.rejects(report(call, undefined, () => Infinity), /cannot be written as JSON/);
});

test("what JSON would change without a word is refused at once", async () => {
  const p = pawl("http://127.0.0.1:1");
  for (const [payload, said] of [[NaN, "NaN is no number"], [{ n: [2 ** 60] }, "beyond 2^53"], [{ all: new Map([[1, 2]]) }, "a Map is no value"], [new Set(), "a Set is no value"]] as const) {
    await assert.rejects(p.POST("/v1/tasks", { body: { type: "x", payload } }), { message: new RegExp(`^the body of the call cannot be written as JSON: .*${said.replace("^", "\\^")}`) });
  }
});

test("what is no task is refused at once", async () => {
  const p = pawl("http://127.0.0.1:1");
  for (const task of [undefined, null, {}, { data: { id: "x" } }] as never[]) {
    await assert.rejects(p.wait(task), /^Error: neither a task nor the id of one/);
    await assert.rejects(p.result(task), /^Error: neither a task nor the id of one/);
  }
});

test("a worker without types does not take the items of all others", async () => {
  const called = async () => assert.fail("it claims");
  await assert.rejects(work(pawl("http://127.0.0.1:1", { fetch: called }), { workerId: "w", types: [] }, called), { name: "RangeError" });
});

test("a server that does not answer is named", async () => {
  const gone = createServer().listen(0, "127.0.0.1");
  await once(gone, "listening");
  const url = `http://127.0.0.1:${(gone.address() as AddressInfo).port}`;
  gone.close();
  await once(gone, "close");
  await assert.rejects(must(pawl(url + "/").GET("/v1/queues")), {
    name: "TypeError",
    message: `the server at ${url} does not answer: ECONNREFUSED`,
  });
});
