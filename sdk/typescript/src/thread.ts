import type { Message } from "./client.ts";

/** A part of a message's content, as the server writes it. */
export type Part = {
  type: string;
  text?: string;
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  output?: unknown;
  isError?: boolean;
  mediaType?: string;
  url?: string;
  data?: unknown;
  status?: "streaming" | "abandoned";
};

/** What the server notes of a message of the AI SDK's client. */
export type Mark = { id?: string; reply_to?: string; metadata?: unknown };

export function markOf(m: Message): Mark {
  return (m.metadata as { chat?: Mark } | undefined)?.chat ?? {};
}

/** Adds a message to a conversation: one that was sent or made again replaces the earlier one and what followed it. */
export function place(said: Message[], m: Message): Message[] {
  const { id, reply_to } = markOf(m);
  const same = id ? said.findIndex((x) => markOf(x).id === id) : -1;
  if (same >= 0) return [...said.slice(0, same), m];
  const asked = reply_to ? said.findIndex((x) => markOf(x).id === reply_to) : -1;
  if (asked >= 0) return [...said.slice(0, asked + 1), m];
  return [...said, m];
}
