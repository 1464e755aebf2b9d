// An agent as an application writes it: a model that streams, tools, pawlStream. The
// tests run it in their own process, and as a program that is killed:
// node agent.ts URL WORKER LOG
import { tool, type ToolSet } from "ai";
import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { appendFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import { pawlStream } from "../src/ai.ts";
import { pawl, work, type Job, type Message } from "../src/index.ts";

type StreamPart = Awaited<ReturnType<MockLanguageModelV4["doStream"]>>["stream"] extends ReadableStream<infer P> ? P : never;

/** What the model says, step by step: three steps, two tools in each but the last. */
const steps: { reasoning?: string[]; text: string[]; calls: { name: string; input: object }[] }[] = [
  { reasoning: ["I had ", "better ", "add."], text: ["First ", "the ", "sums: "], calls: [{ name: "add", input: { a: 1, b: 2 } }, { name: "add", input: { b: 4, a: 3 } }] },
  { text: ["now ", "the ", "product ", "\ud83e", "\uddab "], calls: [{ name: "multiply", input: { a: 3, b: 7 } }, { name: "add", input: { a: 5, b: 6 } }] },
  { text: ["and ", "it ", "is ", "twenty-", "one, ", "plus ", "three."], calls: [] },
];

export const reference = "First the sums: now the product \u{1f9ab} and it is twenty-one, plus three.";

/** The model knows where it is by the results of tools that it is given. */
export function model(delay: number): MockLanguageModelV4 {
  return new MockLanguageModelV4({
    modelId: "mock",
    doStream: async ({ prompt }) => {
      const n = prompt.filter((m) => m.role === "tool").length;
      return { stream: simulateReadableStream({ chunks: said(n), initialDelayInMs: delay, chunkDelayInMs: delay }) };
    },
  });
}

function said(n: number): StreamPart[] {
  const { reasoning, text, calls } = steps[n]!;
  const out: StreamPart[] = [{ type: "stream-start", warnings: [] }];
  if (reasoning) out.push({ type: "reasoning-start", id: "r" }, ...reasoning.map((delta) => ({ type: "reasoning-delta" as const, id: "r", delta })), { type: "reasoning-end", id: "r" });
  out.push({ type: "text-start", id: "t" }, ...text.map((delta) => ({ type: "text-delta" as const, id: "t", delta })), { type: "text-end", id: "t" });
  calls.forEach((c, i) => out.push({ type: "tool-call", toolCallId: `c${n}.${i}`, toolName: c.name, input: JSON.stringify(c.input) }));
  const unified = calls.length > 0 ? "tool-calls" : "stop";
  out.push({
    type: "finish",
    finishReason: { unified, raw: unified },
    usage: { inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 5, text: 5, reasoning: 0 } },
  });
  return out;
}

/** Tools that leave a line wherever they run. */
export function tools(ran: (line: string) => void, delay: number) {
  const inputSchema = z.object({ a: z.number(), b: z.number() });
  const made = (name: string, fn: (a: number, b: number) => number) =>
    tool({
      inputSchema,
      execute: async (input: z.infer<typeof inputSchema>) => {
        ran(JSON.stringify([name, input.a, input.b]));
        await pause(delay);
        return fn(input.a, input.b);
      },
    });
  return { add: made("add", (a, b) => a + b), multiply: made("multiply", (a, b) => a * b) } satisfies ToolSet;
}

/** Writes the reply that a job asks for. */
export async function reply(job: Job, ran: (line: string) => void, delay: number): Promise<Message> {
  const { message } = await pawlStream({ ...job, model: model(delay), tools: tools(ran, delay), flushMs: 20, onError: () => {} });
  return message;
}

if (import.meta.main) {
  const [url = "", workerId = "", log = ""] = process.argv.slice(2);
  await work(pawl(url), { workerId, types: ["agent"], leaseSeconds: 1 }, async (job) => {
    await reply(job, (line) => appendFileSync(log, `${job.lease.task_id} ${job.lease.attempt} ${line}\n`), 10);
  });
}
