// The vectors that the tests of every client read: testdata/vectors.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { argsOf } from "../src/args.ts";
import { hashOf } from "../src/canonical.ts";
import { must, pawl, PawlError, type Lease } from "../src/client.ts";
import { MessageContent } from "../src/follow.ts";
import { kept } from "../src/step.ts";

function vectors<T>(name: string): T[] {
  return JSON.parse(readFileSync(new URL(`../../../testdata/vectors/${name}.json`, import.meta.url), "utf8")) as T[];
}

const answering = (response: () => Response): typeof fetch => () => Promise.resolve(response());

test("hashes are those of the vectors, and numbers beyond 2^53 are rounded before", () => {
  for (const v of vectors<{ name: string; json: string; hash: string; beyond_double?: boolean }>("canonical")) {
    const same = hashOf(JSON.parse(v.json)) === v.hash;
    assert.equal(same, !v.beyond_double, v.name);
  }
});

test("hashes of single arguments are those of the vectors", () => {
  for (const v of vectors<{ name: string; args: unknown[]; hashes: object }>("args")) {
    if (v.name !== "values") assert.deepEqual(argsOf(v.args).parts, v.hashes, v.name);
    else assert.notDeepEqual(argsOf(v.args).parts, v.hashes, "a number beyond 2^53 is rounded before");
  }
});

test("contents of messages are those of the vectors", () => {
  type Vector = { name: string; frames: { event?: string; data: unknown }[]; text: string; reasoning: string; status: string; types: string[] };
  for (const v of vectors<Vector>("contents")) {
    const content = new MessageContent();
    for (const { event = "", data } of v.frames) content.apply(event, data);
    const { text, reasoning, status, chunks } = content;
    assert.deepEqual([text, reasoning, status, chunks.map((c) => c.type)], [v.text, v.reasoning, v.status, v.types], v.name);
  }
});

test("problems are those of the vectors", async () => {
  type Vector = { name: string; status: number; content_type: string; retry_after?: string; body: string; want: { code: string; retryable: boolean; retry_after: number; pointer: string; state: string; reason: string } };
  for (const v of vectors<Vector>("problems")) {
    const headers = { "Content-Type": v.content_type, ...(v.retry_after ? { "Retry-After": v.retry_after } : {}) };
    const p = pawl("http://pawl.test", { fetch: answering(() => new Response(v.body, { status: v.status, headers })) });
    const error: unknown = await must(p.GET("/v1/tasks/{id}", { params: { path: { id: "tsk_1" } } })).catch((e: unknown) => e);
    assert.ok(error instanceof PawlError, v.name);
    const { code, retryAfter, problem } = error;
    const got = { retry_after: retryAfter, pointer: problem.errors?.[0]?.pointer ?? "", state: problem.state ?? "", reason: problem.reason ?? "" };
    const { retryable: _, ...want } = v.want; // the package has no such member
    assert.deepEqual({ code, ...got }, want, v.name);
  }
});

test("claims of an older and a newer server are read", async () => {
  for (const v of vectors<{ name: string; answer: string; ids: string[] }>("claims")) {
    const p = pawl("http://pawl.test", { fetch: answering(() => new Response(v.answer, { status: 200, headers: { "Content-Type": "application/json" } })) });
    const { items } = await must(p.POST("/v1/claims", { body: { worker_id: "w1" } }));
    assert.deepEqual(items.map((l: Lease) => l.id), v.ids, v.name);
  }
});

test("namespaces, actors and ids are written as in the vectors", async () => {
  type Vector = { name: string; namespace: string; actor: string; id: string; path: string; headers: Record<string, string> };
  for (const v of vectors<Vector>("calls")) {
    let asked: Request | undefined;
    const fetch: typeof globalThis.fetch = (request) => {
      asked = request as Request;
      return Promise.resolve(Response.json({ id: v.id }));
    };
    const p = pawl("http://pawl.test", { ...(v.namespace ? { namespace: v.namespace } : {}), fetch });
    await must(p.POST("/v1/tasks/{id}:cancel", { params: { path: { id: v.id } } }));
    assert.equal(new URL(asked!.url).pathname, v.path, v.name);
    const want = v.headers["Pawl-Namespace"];
    if (want) assert.equal(asked!.headers.get("Pawl-Namespace"), want, v.name);
  }
});

test("a step says how long it ran", () => {
  const args = argsOf([1]);
  assert.deepEqual(kept(args, 1500), { args_hash: args.hash, metadata: { args: args.parts, took_ms: 1500 } });
  assert.deepEqual(kept(argsOf([]), 0), { args_hash: argsOf([]).hash });
});
