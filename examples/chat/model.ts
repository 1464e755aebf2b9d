// A model that needs no key. It calls a tool, then says what it counted; "count to 200"
// makes it speak for as long as you like.
import { MockLanguageModelV4, simulateReadableStream } from "ai/test";

type Stream = Awaited<ReturnType<MockLanguageModelV4["doStream"]>>["stream"];
type StreamPart = Stream extends ReadableStream<infer P> ? P : never;
type Prompt = Parameters<MockLanguageModelV4["doStream"]>[0]["prompt"];

export const scripted = new MockLanguageModelV4({
  modelId: "scripted",
  doStream: async ({ prompt }) => ({ stream: simulateReadableStream({ chunks: answer(prompt), chunkDelayInMs: 40 }) }),
});

function answer(prompt: Prompt): StreamPart[] {
  const asked = prompt.findLastIndex((m) => m.role === "user");
  const text = textOf(prompt[asked]);
  const counted = prompt.slice(asked).find((m) => m.role === "tool");
  if (!counted) return [...say("Let me count your words."), { type: "tool-call", toolCallId: "count", toolName: "count_words", input: JSON.stringify({ text }) }, finish("tool-calls")];
  const result = counted.content.find((p) => p.type === "tool-result")?.output;
  const { words } = (result?.type === "json" ? result.value : {}) as { words?: number };
  return [...say(speech(text, words ?? 0)), finish("stop")];
}

function speech(text: string, words: number): string {
  const to = Math.min(Number(/count to (\d+)/i.exec(text)?.[1] ?? 0), 2000);
  const counting = Array.from({ length: to }, (_, n) => n + 1).join(" ");
  if (to > 0) return `You sent ${words} words. ${counting} – done.`;
  return (
    `You sent ${words} ${words === 1 ? "word" : "words"}. I am a script, so that you need no key: worker.ts has one line for a real model. ` +
    "Meanwhile ask me to count to 200, then reload the page, press Stop, or kill the worker in the middle of it: what was said stays."
  );
}

function textOf(message: Prompt[number] | undefined): string {
  return message?.role === "user" ? message.content.map((p) => (p.type === "text" ? p.text : "")).join("") : "";
}

function say(text: string): StreamPart[] {
  const deltas = text.match(/\S+\s*/g) ?? [];
  return [
    { type: "stream-start", warnings: [] },
    { type: "text-start", id: "text" },
    ...deltas.map((delta) => ({ type: "text-delta" as const, id: "text", delta })),
    { type: "text-end", id: "text" },
  ];
}

function finish(unified: "stop" | "tool-calls"): StreamPart {
  return {
    type: "finish",
    finishReason: { unified, raw: unified },
    usage: { inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 0, text: 0, reasoning: 0 } },
  };
}
