import { isStepCount, streamText, type LanguageModelUsage, type ModelMessage, type StepResult, type StreamTextResult, type TextStreamPart, type ToolSet } from "ai";
import { again, fence, must, type Chunk, type Lease, type Message, type Pawl, type Schemas } from "./client.ts";
import { conversation } from "./conversation.ts";
import { wordsOf } from "./failure.ts";
import { finish } from "./message.ts";
import { recorded, type Memory } from "./replay.ts";
import { savedSteps } from "./resume.ts";
import { begin, modelAttributes, type Going } from "./trace.ts";
import { Stopped, Writer } from "./writer.ts";

type Options<TOOLS extends ToolSet> = Parameters<typeof streamText<TOOLS>>[0];

/** The options of streamText, and where its words go. */
export type PawlStreamOptions<TOOLS extends ToolSet> = Omit<Options<TOOLS>, "prompt" | "messages" | "tools"> & {
  tools?: TOOLS;
  pawl: Pawl;
  /** The claim of the item whose message is to be written; its open message, or a new one. */
  lease: Lease;
  /** What the model is asked; by default the conversation before the message. */
  messages?: ModelMessage[];
  /** How long words are gathered before they are saved: 100 ms by default, 1000 at most. */
  flushMs?: number;
};

export interface PawlStream<TOOLS extends ToolSet> {
  /** What streamText gives, of the steps that this attempt makes; undefined when all were made before. */
  result: StreamTextResult<TOOLS, any, any> | undefined;
  /** The message once it has ended: complete, or stopped by somebody. It fails as the generation does. */
  message: Promise<Message>;
}

/** What is saved of a step, as a checkpoint named step:N. */
export interface StepSnapshot {
  step_number: number;
  text: string; // of all steps so far
  reasoning: string;
  tool_calls: Chunk[];
  tool_results: Chunk[];
  model: string;
  max_steps: number;
  finish_reason: string;
  goes_on: boolean; // every call of a tool has its result, so another step follows
  messages: ModelMessage[]; // that this step adds to what the model is asked
  usage: { input_tokens: number; output_tokens: number }; // of all steps so far
}

/**
 * streamText whose words survive the process. Each part is saved while it streams, each
 * step is a checkpoint, and each tool's result is kept before it is used. After a crash
 * the next holder of the item calls it with the same options: it goes on behind the last
 * step, in the same message, and runs no tool again whose result was kept. If the item was
 * sent back for rework, a message of the user tells the model the reasons.
 *
 * The generation runs whether anybody reads `result` or not. It ends with the lease, by
 * `abortSignal`, and when somebody stops the message.
 */
export async function pawlStream<TOOLS extends ToolSet = ToolSet>(options: PawlStreamOptions<TOOLS>): Promise<PawlStream<TOOLS>> {
  const { pawl, lease, messages, flushMs = 100, tools, stopWhen, prepareStep, onChunk, onStepFinish, onStepEnd, abortSignal, ...rest } = options;
  const lost = new AbortController();
  if (abortSignal?.aborted) lost.abort(abortSignal.reason);
  abortSignal?.addEventListener("abort", () => lost.abort(abortSignal.reason), { once: true });

  const { message, steps, known } = await place(pawl, lease, lost.signal);
  const last = steps.at(-1);
  const writer = new Writer(pawl, lease, message, Math.min(flushMs, 1000), lost);
  const memory: Memory = { pawl, lease, writer, signal: lost.signal, steps: known, step: steps.length + 1 };
  const sum = summary(last, message);
  if (last && (!last.goes_on || steps.length >= message.max_steps)) {
    return { result: undefined, message: finish(pawl, lease, message.id, sum.usage, lost.signal) };
  }

  let broken: unknown;
  let turn: Going | undefined;
  const asked = messages ?? (await conversation(pawl, message.id));
  const stops = stopWhen === undefined ? [] : Array.isArray(stopWhen) ? stopWhen : [stopWhen];
  const settings = {
    ...rest,
    messages: [...asked, ...reasonsOf(lease), ...steps.flatMap((s) => s.messages)],
    tools: tools && recorded(tools, memory),
    stopWhen: [isStepCount(message.max_steps - steps.length), ...stops],
    abortSignal: lost.signal,
    prepareStep: async (step) => {
      lost.signal.throwIfAborted();
      memory.step = steps.length + step.stepNumber + 1;
      turn?.end();
      turn = begin(...chat(step.model, lease.id, message.id));
      return prepareStep?.({ ...step, stepNumber: memory.step - 1 });
    },
    onChunk: async (event) => {
      const { chunk: part } = event;
      if (part.type === "error") broken = part.error;
      const chunk = chunkOf(part);
      if (chunk) {
        sum.add(chunk);
        await writer.say(chunk);
      }
      await onChunk?.(event);
    },
    onStepEnd: async (step) => {
      const { inputTokens = 0, outputTokens = 0 } = step.usage;
      turn?.set({ "gen_ai.usage.input_tokens": inputTokens, "gen_ai.usage.output_tokens": outputTokens, "gen_ai.response.finish_reasons": [step.finishReason] });
      turn?.end(broken);
      if (broken === undefined) await writer.step(memory.step, sum.step(memory.step, step));
      await (onStepEnd ?? onStepFinish)?.(step);
    },
  } as Options<TOOLS>;
  const result = streamText<TOOLS>(settings);
  const done = (async () => {
    await result.consumeStream({ onError: (error) => (broken ??= error) });
    await writer.flush();
    if (lost.signal.aborted) {
      if (!(lost.signal.reason instanceof Stopped)) throw lost.signal.reason;
      return again(() => pawl.GET("/v1/messages/{id}", { params: { path: { id: message.id } } }));
    }
    if (broken !== undefined) throw broken;
    return finish(pawl, lease, message.id, sum.usage, lost.signal);
  })();
  void done.then(() => turn?.end(), (error: unknown) => turn?.end(error ?? new Error("the turn broke off"))); // whoever awaits it learns
  return { result, message: done };
}

/** Tells the model why an earlier result was rejected. */
function reasonsOf({ reasons = [] }: Lease): ModelMessage[] {
  if (reasons.length === 0) return [];
  const said = reasons.map((c) => `- ${c.field ? `${c.field}: ` : ""}${c.message}`);
  return [{ role: "user", content: ["Your earlier result was sent back:", ...said].join("\n") }];
}

/** The span of a turn of a model. */
const chat = (model: { modelId: string; provider: string } | string, item: string, message: string) =>
  [`chat ${typeof model === "string" ? model : model.modelId}`, "CLIENT", { ...modelAttributes(model), "pawl.item.id": item, "pawl.message.id": message }] as const;

/** The message to go on with, and what earlier attempts saved. */
async function place(pawl: Pawl, lease: Lease, signal: AbortSignal) {
  const id = lease.open_message?.id;
  const path = { id: lease.id };
  const message = id
    ? await again(() => pawl.GET("/v1/messages/{id}", { params: { path: { id } } }), signal)
    : await must(pawl.POST("/v1/items/{id}/messages", { params: { path }, body: { ...fence(lease), role: "assistant" } }));
  const none: { [name: string]: Schemas["Checkpoint"] } = {};
  if (lease.attempt === 1 && !lease.forked && message.step_number === 0) return { message, steps: [] as StepSnapshot[], known: none };
  const known = await savedSteps(pawl, lease.id, signal);
  const steps = Array.from({ length: message.step_number }, (_, n) => {
    const saved = known[`step:${n + 1}`];
    const ours = (saved?.metadata as { message_id?: string } | undefined)?.message_id === message.id;
    const snapshot = saved?.snapshot as StepSnapshot | undefined;
    if (!ours || !snapshot?.messages) throw new Error(`step ${n + 1} of message ${message.id} was not saved by pawlStream`);
    return snapshot;
  });
  return { message, steps, known };
}

/** What a message says, from its last step on. */
function summary(last: StepSnapshot | undefined, message: Message) {
  const said = { text: last?.text ?? "", reasoning: last?.reasoning ?? "", tool_calls: [...(last?.tool_calls ?? [])], tool_results: [...(last?.tool_results ?? [])] };
  const usage = { ...(last?.usage ?? { input_tokens: 0, output_tokens: 0 }) };
  return {
    usage,
    add(c: Chunk) {
      if (c.type === "text") said.text += c.text;
      if (c.type === "reasoning") said.reasoning += c.text;
      if (c.type === "tool_call") said.tool_calls.push(c);
      if (c.type === "tool_result") said.tool_results.push(c);
    },
    step(step_number: number, step: StepResult<any, any>): StepSnapshot {
      const used: LanguageModelUsage = step.usage;
      usage.input_tokens += used.inputTokens ?? 0;
      usage.output_tokens += used.outputTokens ?? 0;
      const answered = new Set(step.content.flatMap((p) => (p.type === "tool-result" || p.type === "tool-error" ? [p.toolCallId] : [])));
      const goes_on = step.toolCalls.length > 0 && step.toolCalls.every((c) => answered.has(c.toolCallId));
      return {
        ...said, step_number, goes_on, usage: { ...usage }, finish_reason: step.finishReason, messages: step.response.messages,
        model: message.model || step.model.modelId, max_steps: message.max_steps,
      };
    },
  };
}

/** A part of the stream as a chunk, if it is one to be kept. */
function chunkOf(part: TextStreamPart<ToolSet>): Chunk | undefined {
  switch (part.type) {
    case "text-delta":
      return part.text ? { type: "text", text: part.text } : undefined;
    case "reasoning-delta":
      return part.text ? { type: "reasoning", text: part.text } : undefined;
    case "tool-call":
      return { type: "tool_call", tool_call_id: part.toolCallId, tool_name: part.toolName, input: part.input ?? null };
    case "tool-result":
      return part.preliminary ? undefined : { type: "tool_result", tool_call_id: part.toolCallId, tool_name: part.toolName, output: part.output ?? null };
    case "tool-error":
      return { type: "tool_result", tool_call_id: part.toolCallId, tool_name: part.toolName, output: wordsOf(part.error), is_error: true };
    case "file":
    case "reasoning-file":
      return { type: "file", media_type: part.file.mediaType, url: `data:${part.file.mediaType};base64,${part.file.base64}` };
    case "source":
      return { type: "data", data: { type: "data-source", id: part.id, data: { ...part, type: undefined } } };
    default:
      return undefined;
  }
}
