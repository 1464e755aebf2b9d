// For pages: it uses nothing of Node.
import type { UIMessage } from "ai";
import type { Message } from "./client.ts";
import { markOf, place, type Part } from "./thread.ts";

export interface ChatOptions {
  /** Headers of each request, such as Authorization. */
  headers?: HeadersInit;
  signal?: AbortSignal;
  fetch?: typeof fetch;
}

/**
 * Reads a chat from a server, or from a proxy of one ("" = the page's own origin), as
 * `useChat` takes it in `messages`. The reply that is being made is left out:
 * `useChat` gets it with `resume`.
 */
export async function chatMessages(url: string, chat: string, options: ChatOptions = {}): Promise<UIMessage[]> {
  const { headers, signal, fetch: get = fetch } = options;
  let messages: Message[] = [];
  for (let cursor = ""; ; ) {
    const query = new URLSearchParams({ thread: chat, limit: "1000", ...(cursor ? { cursor } : {}) });
    const response = await get(`${url}/v1/messages?${query}`, { redirect: "manual", ...(headers ? { headers } : {}), ...(signal ? { signal } : {}) });
    if (!response.ok) throw new Error(`the chat could not be read: ${response.status} ${response.statusText}`);
    const page = (await response.json()) as { items: Message[]; next?: string };
    messages = page.items.reduce(place, messages);
    if (!(cursor = page.next ?? "")) break;
  }
  return messages.filter((m) => m.status !== "streaming" && m.role !== "tool").map(toUI);
}

type UIPart = UIMessage["parts"][number];

/** A message as the AI SDK shows it, without what was abandoned. */
export function toUI(m: Message): UIMessage {
  const { id, metadata } = markOf(m);
  const out: UIPart[] = [];
  const calls = new Map<string, number>();
  let last = "";
  for (const p of m.content as Part[]) {
    const cut = p.status === "abandoned";
    if (!cut) {
      const results = last === "tool-result" && p.type !== "tool-result";
      if (m.role === "assistant" && (last === "" || last === "abandoned" || results)) out.push({ type: "step-start" });
      add(out, calls, m.role, p);
    }
    last = cut ? (last === "" ? "" : "abandoned") : p.type;
  }
  return { id: id ?? m.id, role: m.role as UIMessage["role"], parts: out, ...(metadata === undefined ? {} : { metadata }) };
}

function add(out: UIPart[], calls: Map<string, number>, role: string, p: Part): void {
  const toolCallId = p.toolCallId ?? "";
  switch (p.type) {
    case "text":
    case "reasoning":
      out.push({ type: p.type, text: p.text ?? "", ...(role === "assistant" ? { state: "done" } : {}) });
      return;
    case "tool-call":
      calls.set(toolCallId, out.push({ type: `tool-${p.toolName}`, toolCallId, state: "input-available", input: p.input }) - 1);
      return;
    case "tool-result": {
      const at = calls.get(toolCallId) ?? out.length;
      const call = out[at] ?? { type: `tool-${p.toolName || "unknown"}`, toolCallId, input: null };
      const errorText = typeof p.output === "string" ? p.output : JSON.stringify(p.output);
      const result = p.isError ? { state: "output-error", errorText } : { state: "output-available", output: p.output };
      out[at] = { ...call, ...result } as UIPart;
      return;
    }
    case "file":
      out.push({ type: "file", mediaType: p.mediaType ?? "", url: p.url ?? "" });
      return;
    case "data": {
      const own = p.data as { type?: string; id?: string; data?: unknown } | null;
      const named = typeof own?.type === "string" && own.type.length > 5 && own.type.startsWith("data-");
      out.push(named ? { type: own.type as `data-${string}`, ...(own.id ? { id: own.id } : {}), data: own.data ?? null } : { type: "data-value", data: p.data });
      return;
    }
    case "error":
      out.push({ type: "data-error", data: { text: p.text ?? "" } });
      return;
    default:
      out.push(p as unknown as UIPart); // a part of the client's own, kept as it came
  }
}
