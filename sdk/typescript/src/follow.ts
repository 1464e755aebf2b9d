import { setTimeout as pause } from "node:timers/promises";
import { placeOf, PawlError, type Chunk, type Message, type Pawl, type Problem } from "./client.ts";
import type { Part } from "./thread.ts";

const silence = 60_000; // a stream sends something at least every 15 s

/** What a message says, without what was abandoned: what a read of the message would answer. */
export class MessageContent {
  /** streaming until the end has come. */
  status: Message["status"] = "streaming";
  #chunks: { n: number; chunk: Chunk }[] = [];

  /** Adds a frame of the stream: its chunks; or it removes those that were abandoned, or replaces all by a snapshot. */
  apply(event: string, data: unknown): void {
    if (event === "") {
      const { offset, chunks } = data as { offset: number; chunks: Chunk[] };
      this.#chunks.push(...chunks.map((chunk, i) => ({ n: offset + i, chunk })));
    } else if (event === "abandoned") {
      const { from, to } = data as { from: number; to: number };
      this.#chunks = this.#chunks.filter(({ n }) => n < from || n >= to);
    } else if (event === "snapshot") {
      const { content, status } = data as Message;
      this.#chunks = (content as Part[]).filter((p) => p.status !== "abandoned").map((p) => ({ n: -1, chunk: chunkOf(p) }));
      this.status = status;
    } else if (event === "end") {
      this.status = (data as Pick<Message, "status">).status;
    }
  }

  get text(): string {
    return this.#join("text");
  }

  /** The text of the model's reasoning. */
  get reasoning(): string {
    return this.#join("reasoning");
  }

  /** All chunks that are not abandoned, in order. */
  get chunks(): Chunk[] {
    return this.#chunks.map(({ chunk }) => chunk);
  }

  #join(type: string): string {
    return this.#chunks.map(({ chunk }) => (chunk.type === type ? (chunk.text ?? "") : "")).join("");
  }
}

function chunkOf({ type, text, toolCallId, toolName, input, output, isError, mediaType, url, data }: Part): Chunk {
  const members = { text, tool_call_id: toolCallId, tool_name: toolName, input, output, is_error: isError, media_type: mediaType, url, data };
  return Object.assign({ type: type.replaceAll("-", "_") }, Object.fromEntries(Object.entries(members).filter(([, v]) => v !== undefined))) as Chunk;
}

/**
 * Follows a message from its beginning until it has ended: what it says after each frame, in one
 * object, which changes. A stream that breaks goes on where it broke, for as long as the server is away; only the first
 * connection is given up, after ten tries. It needs a client without a `fetch` of its own.
 */
export async function* followMessage(pawl: Pawl, id: string, signal?: AbortSignal): AsyncGenerator<MessageContent> {
  const place = placeOf(pawl);
  if (!place) throw new Error("followMessage needs a client that was made without fetch");
  const content = new MessageContent();
  let after = ""; // the id of the last frame: EPOCH-NUMBER, or the number alone in the first epoch
  let told = -1; // the end of the last cut: a reader that comes back there gets it again
  let begun = false;
  for (let failures = 0; ; ) {
    let asked = 0;
    try {
      for await (const { event, data, id: last } of connect(place, id, after, signal)) {
        begun = true;
        failures = 0;
        if (event === "refused") throw new PawlError(JSON.parse(data) as Problem);
        const value: unknown = data ? JSON.parse(data) : undefined;
        if (value !== undefined) {
          const cut = event === "abandoned" ? (value as { to: number }).to : undefined;
          if (cut === undefined || cut > told) {
            content.apply(event, value);
            told = cut ?? told;
            yield content;
          }
        }
        if (event === "snapshot") told = -1; // in a later epoch, numbers are given anew
        if (last) after = last;
        if (event === "end") return;
      }
    } catch (error) {
      signal?.throwIfAborted();
      const refused = error instanceof PawlError && error.code !== "unavailable" && error.code !== "limit";
      if (refused || (!begun && failures === 9)) throw error;
      if (error instanceof PawlError) asked = error.retryAfter * 1000;
    }
    failures++;
    await pause(Math.max(Math.min(50 * 2 ** failures, 2000), asked), undefined, signal ? { signal } : {});
  }
}

interface Frame {
  id: string;
  event: string;
  data: string;
}

/** The frames of one connection. */
async function* connect({ url, headers }: { url: string; headers: Record<string, string> }, id: string, after: string, signal?: AbortSignal): AsyncGenerator<Frame> {
  const quiet = new AbortController();
  const timer = setTimeout(() => quiet.abort(new Error("the stream is silent")), silence);
  try {
    const to = `${url}/v1/messages/${encodeURIComponent(id)}/stream`;
    const until = signal ? AbortSignal.any([signal, quiet.signal]) : quiet.signal;
    const response = await fetch(to, { headers: { ...headers, accept: "text/event-stream", ...(after ? { "Last-Event-ID": after } : {}) }, redirect: "manual", signal: until });
    if (!response.ok || !response.body) throw await refusal(response);
    const decoder = new TextDecoder();
    let rest = "";
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      timer.refresh();
      const parts = (rest + decoder.decode(bytes, { stream: true })).split("\n\n");
      rest = parts.pop()!;
      for (const part of parts) yield frameOf(part);
    }
  } finally {
    clearTimeout(timer);
    quiet.abort(); // a reader that leaves the loop closes the connection
  }
}

function frameOf(text: string): Frame {
  const frame = { id: "", event: "", data: "" };
  for (const line of text.split("\n")) {
    const [, name, value] = /^(id|event|data): ?(.*)$/.exec(line) ?? [];
    if (name) frame[name as keyof Frame] += value!;
  }
  return frame;
}

async function refusal(response: Response): Promise<PawlError> {
  const problem = (await response.json().catch(() => undefined)) as Problem | undefined;
  const after = Math.max(Number(response.headers.get("Retry-After")) || 0, 0);
  if (problem?.code) return new PawlError(problem, after);
  const title = `${response.status} ${response.statusText}`;
  const code = response.status >= 500 ? "unavailable" : "internal";
  return new PawlError({ type: "about:blank", title, detail: title, status: response.status, code }, after);
}
