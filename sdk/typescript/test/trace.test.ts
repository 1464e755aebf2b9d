// The spans of a worker, and the trace context that its calls carry; docs/traces.md has the table.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { SpanKind, trace } from "@opentelemetry/api";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor, type ReadableSpan } from "@opentelemetry/sdk-trace-node";
import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { pawlStream } from "../src/ai.ts";
import { must, pawl, PawlIds, RetryAfter, work, type Job, type Log } from "../src/index.ts";
import { Fixture, until } from "./fixture.ts";

const inTime = { timeout: 120_000 };
const kept = new InMemorySpanExporter();
new NodeTracerProvider({ idGenerator: new PawlIds(), spanProcessors: [new SimpleSpanProcessor(kept)] }).register();
const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const creator = { traceparent: `00-${traceId}-00f067aa0ba902b7-01`, tracestate: "vendor=one" };

const named = (name: string): ReadableSpan[] => kept.getFinishedSpans().filter((s) => s.name === name);

/** Works until a task is completed; what was logged. */
async function works(url: string, type: string, id: string, handle: (job: Job) => Promise<unknown>): Promise<object[]> {
  const p = pawl(url);
  const over = new AbortController();
  const logged: object[] = [];
  const keep = (_: string, about: object) => void logged.push(about);
  const log: Log = { info: keep, warn: keep, error: keep };
  const working = work(p, { workerId: "w1", types: [type], signal: over.signal, graceMs: 0, log }, handle);
  await until(async () => (await must(p.GET("/v1/tasks/{id}", { params: { path: { id } } }))).state === "completed", "the task is completed");
  over.abort();
  await working.catch(() => {});
  return logged;
}

test("attempts, steps, budgets and children are spans of the creator's trace", inTime, async () => {
  await using fixture = await Fixture.open("sqlite");
  const { url } = await fixture.serve();
  const p = pawl(url);
  kept.reset();
  await must(p.PUT("/v1/budgets/{id}", { params: { path: { id: "llm" } }, body: { unit: "tokens", limit: 100 } }));
  const { id } = await must(p.POST("/v1/tasks", { body: { type: "order", payload: {} }, headers: creator }));
  let childId = "";
  const logged = await works(url, "order", id, async ({ lease, step, reserve, spawn }) => {
    assert.deepEqual({ traceparent: lease.traceparent, tracestate: lease.tracestate }, creator);
    if (lease.attempt === 1) throw new RetryAfter(0, "not yet");
    await (await reserve("llm", 10)).settle(7);
    childId = await step("make@1", async () => (await spawn("only", { type: "child", payload: {} })).id);
    return step("make@1", () => "never");
  });
  const [first, second, ...more] = named("process order");
  assert.ok(first && second && more.length === 0, kept.getFinishedSpans().map((s) => s.name).join("\n"));
  for (const s of [first, second]) {
    assert.equal(s.kind, SpanKind.CONSUMER);
    assert.deepEqual([s.spanContext().traceId, s.parentSpanContext?.spanId], [traceId, "00f067aa0ba902b7"]);
    assert.equal(s.links.find((l) => l.attributes?.["pawl.link"] === "creator")?.context.spanId, "00f067aa0ba902b7");
  }
  assert.deepEqual([first.attributes["pawl.outcome"], first.attributes["error.type"], second.attributes["pawl.outcome"]], ["failed", "_OTHER", "completed"]);
  assert.equal(second.links.find((l) => l.attributes?.["pawl.link"] === "previous_attempt")?.context.spanId, first.spanContext().spanId);
  assert.ok(second.events.some((e) => e.name === "pawl.step.replayed"));
  assert.ok(logged.some((about) => "trace_id" in about && about.trace_id === traceId));
  const [step] = named("step make");
  const [create] = named("create child");
  assert.equal(step?.attributes["pawl.step.name"], "make@1");
  assert.equal(step?.parentSpanContext?.spanId, second.spanContext().spanId);
  assert.equal(create?.parentSpanContext?.spanId, step?.spanContext().spanId);
  assert.equal(create?.attributes["pawl.child.id"], childId);
  assert.deepEqual([named("reserve llm")[0]?.attributes["pawl.budget.amount"], named("settle llm")[0]?.attributes["pawl.budget.amount"]], [10, 7]);
  assert.equal(second.attributes["pawl.cost.llm"], 7);
  const { items } = await must(p.GET("/v1/tasks/{id}/events", { params: { path: { id: childId } } }));
  assert.equal(items[0]?.traceparent, `00-${traceId}-${create?.spanContext().spanId}-01`);
});

test("a call carries the trace context of the active span", inTime, async () => {
  await using fixture = await Fixture.open("sqlite");
  const p = pawl((await fixture.serve()).url);
  const made = await trace.getTracer("test").startActiveSpan("request", async (span) => {
    const { id } = await must(p.POST("/v1/tasks", { body: { type: "t", payload: {} } }));
    span.end();
    return { id, traceparent: `00-${span.spanContext().traceId}-${span.spanContext().spanId}-01` };
  });
  const { items } = await must(p.GET("/v1/tasks/{id}/events", { params: { path: { id: made.id } } }));
  assert.equal(items[0]?.traceparent, made.traceparent);
});

test("turns of a model and calls of tools are spans with tokens", inTime, async () => {
  await using fixture = await Fixture.open("sqlite");
  const { url } = await fixture.serve();
  kept.reset();
  const { id } = await must(pawl(url).POST("/v1/tasks", { body: { type: "chat", payload: {} }, headers: creator }));
  let turn = 0;
  const model = new MockLanguageModelV4({
    provider: "openai.responses",
    modelId: "gpt-test",
    doStream: async () => ({
      stream: simulateReadableStream({
        chunks: [
          { type: "stream-start" as const, warnings: [] },
          ...(++turn === 1
            ? [{ type: "tool-call" as const, toolCallId: "call_1", toolName: "look", input: "{}" }]
            : [{ type: "text-start" as const, id: "1" }, { type: "text-delta" as const, id: "1", delta: "done" }, { type: "text-end" as const, id: "1" }]),
          {
            type: "finish" as const,
            finishReason: { unified: turn === 1 ? ("tool-calls" as const) : ("stop" as const), raw: undefined },
            usage: { inputTokens: { total: 11, noCache: 11, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 5, text: 5, reasoning: 0 } },
          },
        ],
      }),
    }),
  });
  await works(url, "chat", id, async ({ pawl, lease, abortSignal }) => {
    const tools = { look: { inputSchema: (await import("zod")).z.object({}), execute: async () => "seen" } };
    await (await pawlStream({ pawl, lease, abortSignal, model, tools, messages: [{ role: "user", content: "hello" }] })).message;
    return null;
  });
  const [attempt] = named("process chat");
  const turns = named("chat gpt-test");
  assert.equal(turns.length, 2, kept.getFinishedSpans().map((s) => s.name).join("\n"));
  for (const s of [...turns, ...named("execute_tool look")]) assert.equal(s.spanContext().traceId, traceId);
  const { "pawl.item.id": item, "pawl.message.id": message, ...about } = turns[0]!.attributes;
  assert.ok(item === attempt?.attributes["pawl.item.id"] && message);
  assert.deepEqual(about, {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-test",
    "gen_ai.response.finish_reasons": ["tool-calls"],
    "gen_ai.usage.input_tokens": 11,
    "gen_ai.usage.output_tokens": 5,
  });
  assert.equal(named("execute_tool look")[0]?.attributes["gen_ai.tool.call.id"], "call_1");
});

test("without the API of OpenTelemetry there are no spans, and a child has the trace of its parent", inTime, async () => {
  await using fixture = await Fixture.open("sqlite");
  const { url } = await fixture.serve();
  const p = pawl(url);
  const { id } = await must(p.POST("/v1/tasks", { body: { type: "order", payload: {} }, headers: creator }));
  const missing = `import { registerHooks } from "node:module"; registerHooks({ resolve: (name, at, next) => { if (name.startsWith("@opentelemetry/")) throw new Error("missing"); return next(name, at); } });`;
  const worker = `
    import { pawl, work } from ${JSON.stringify(join(import.meta.dirname, "../src/index.ts"))};
    const over = new AbortController();
    await work(pawl(${JSON.stringify(url)}), { workerId: "w1", types: ["order"], signal: over.signal, graceMs: 5000, log: false }, async ({ spawn }) => {
      setTimeout(() => over.abort(), 100);
      return (await spawn("only", { type: "child", payload: {} })).id;
    });`;
  await promisify(execFile)(process.execPath, ["--import", `data:text/javascript,${encodeURIComponent(missing)}`, "--input-type=module", "-e", worker]);
  const result = await must(p.GET("/v1/tasks/{id}/result", { params: { path: { id } } }));
  const { items } = await must(p.GET("/v1/tasks/{id}/events", { params: { path: { id: result.payload as string } } }));
  assert.deepEqual({ traceparent: items[0]?.traceparent, tracestate: items[0]?.tracestate }, creator);
});
