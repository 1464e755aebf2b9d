import type { AssistantContent, ModelMessage, ToolContent, UserContent } from "ai";
import { again, type Message, type Pawl } from "./client.ts";
import { place, type Part } from "./thread.ts";

/**
 * What was said in a message's thread before it, for a model: without what was cut
 * off, and of a message that was said or made again, the newest only. Messages of the
 * system are left out, as a client of the thread may have sent them: give the model
 * your own instructions.
 */
export async function conversation(pawl: Pawl, messageId: string): Promise<ModelMessage[]> {
  const reply = await again(() => pawl.GET("/v1/messages/{id}", { params: { path: { id: messageId } } }));
  const query = reply.thread ? { thread: reply.thread, limit: 1000 } : { task_id: reply.task_id ?? "", limit: 1000 };
  let said: Message[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await again(() => pawl.GET("/v1/messages", { params: { query: cursor ? { ...query, cursor } : query } }));
    for (const m of page.items) if (m.id < messageId) said = place(said, m);
    if (!(cursor = page.next)) break;
  }
  return place(said, reply)
    .slice(0, -1)
    .flatMap(toModel);
}

/** A message as the AI SDK hands it to a model. */
export function toModel(m: Message): ModelMessage[] {
  const parts = (m.content as Part[]).filter((p) => p.status !== "abandoned");
  if (m.role === "user") {
    const content = parts.flatMap((p): Exclude<UserContent, string> => {
      if (p.type === "text") return [{ type: "text", text: p.text ?? "" }];
      if (p.type === "file") return [{ type: "file", data: new URL(p.url ?? ""), mediaType: p.mediaType ?? "" }];
      return [];
    });
    return [{ role: "user", content }];
  }
  return m.role === "assistant" ? toAssistant(parts) : [];
}

/** What follows results of tools is a message of its own; calls without a result are left out. */
function toAssistant(parts: Part[]): ModelMessage[] {
  const done = new Set(parts.filter((p) => p.type === "tool-result").map((p) => p.toolCallId));
  const out: ModelMessage[] = [];
  let content: Exclude<AssistantContent, string> = [];
  let results: ToolContent = [];
  const flush = () => {
    if (content.length > 0) out.push({ role: "assistant", content });
    if (results.length > 0) out.push({ role: "tool", content: results });
    content = [];
    results = [];
  };
  for (const p of parts) {
    if (results.length > 0 && p.type !== "tool-result") flush();
    const toolCallId = p.toolCallId ?? "";
    const toolName = p.toolName ?? "";
    if (p.type === "text") content.push({ type: "text", text: p.text ?? "" });
    if (p.type === "reasoning") content.push({ type: "reasoning", text: p.text ?? "" });
    if (p.type === "file") content.push({ type: "file", data: new URL(p.url ?? ""), mediaType: p.mediaType ?? "" });
    if (p.type === "tool-call" && done.has(toolCallId)) content.push({ type: "tool-call", toolCallId, toolName, input: p.input });
    if (p.type === "tool-result") {
      const value = p.output as never; // JSON, as it came
      results.push({ type: "tool-result", toolCallId, toolName, output: p.isError ? { type: "error-json", value } : { type: "json", value } });
    }
  }
  flush();
  return out;
}
