import type { Chunk, Message } from "@pawl-work/sdk";
import { setTimeout as pause } from "node:timers/promises";

export interface Frame {
  offset: number; // of the first chunk
  chunks: Chunk[];
}

/**
 * Follows a message: the chunks from a number on, or the last -from chunks, then new ones, until it
 * has ended. A stream that breaks goes on where it broke.
 */
export async function* follow(place: { url: string; headers: Record<string, string> }, id: string, from: number, signal: AbortSignal): AsyncGenerator<Frame> {
  const query = from < 0 ? `last=${-from}` : `after=${from - 1}`;
  const known: { "Last-Event-ID"?: string } = {}; // goes before the query
  let at = Math.max(from, 0);
  let begun = false; // else it is given up
  for (let failures = 0; !signal.aborted; ) {
    try {
      const response = await fetch(`${place.url}/v1/messages/${id}/stream?${query}`, { headers: { ...place.headers, ...known, accept: "text/event-stream" }, signal });
      if (response.status >= 400 && response.status < 500 && response.status !== 429) throw new Refused(await response.text());
      if (!response.ok || !response.body) throw new Error(`${response.status}`);
      for await (const { id: last, event, data } of frames(response.body)) {
        begun = true;
        failures = 0;
        if (last !== "") {
          known["Last-Event-ID"] = last;
          if (!data) at = Number(last.split("-").at(-1)) + 1; // EPOCH-NUMBER in a later epoch than the first
        }
        if (!data) continue;
        const value = JSON.parse(data);
        if (event === "end") return;
        if (event === "snapshot") {
          const parts = (value as Message).content as Chunk[]; // one for each chunk of data
          yield { offset: at, chunks: parts.slice(at) };
          at = parts.length;
        } else if (event === "") {
          at = value.offset + value.chunks.length;
          yield value as Frame;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused || (failures++ >= 20 && !begun)) throw error;
    }
    await pause(Math.min(50 * 2 ** failures, 2000), undefined, { signal }).catch(() => {});
  }
}

class Refused extends Error {}

async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<{ id: string; event: string; data: string }> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of body as unknown as AsyncIterable<Uint8Array>) {
    const parts = (rest + decoder.decode(bytes, { stream: true })).split("\n\n");
    rest = parts.pop()!;
    for (const part of parts) {
      const frame = { id: "", event: "", data: "" };
      for (const line of part.split("\n")) {
        const [, name, value] = /^(id|event|data): ?(.*)$/.exec(line) ?? [];
        if (name) frame[name as "id"] += value!;
      }
      yield frame;
    }
  }
}
