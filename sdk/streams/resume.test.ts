// The stock client reads what a worker of Pawl writes: it leaves in the middle and resumes where it was.
import { stream } from "@durable-streams/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { databases, Server } from "../langgraph/test/servers.ts";

interface Piece {
  type: string;
  text?: string;
}

describe.each(databases)("%s", (database) => {
  let server: Server;
  beforeAll(async () => {
    server = await Server.start(database);
  });
  afterAll(() => server.stop());

  async function call(path: string, body: unknown): Promise<any> {
    const res = await fetch(server.url + path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    expect(res.ok, `${path}: ${res.status}`).toBe(true);
    return res.json();
  }

  test("the stock client resumes a message that a worker writes", async () => {
    await call("/v1/tasks", { type: "chat", payload: {}, reply: { model: "m" } });
    const claim = await call("/v1/claims", { worker_id: "w", types: ["chat"] });
    const { id } = claim.items[0].open_message;
    let offset = 0;
    const say = async (attempt: number, ...words: string[]) => {
      ({ offset } = await call(`/v1/messages/${id}:append`, { worker_id: "w", attempt, offset, chunks: words.map((text) => ({ type: "text", text })) }));
    };
    await say(1, "Hel", "lo");

    const url = `${server.url}/v1/streams/${id}`;
    const first = await stream<Piece>({ url, offset: "-1", live: false });
    expect((await first.json()).map((p) => p.text)).toEqual(["Hel", "lo"]);

    const resumed = await stream<Piece>({ url, offset: first.offset, live: "sse" });
    const read: string[] = [];
    const over = new Promise<void>((resolve) => {
      resumed.subscribeJson((batch) => {
        read.push(...batch.items.map((p) => p.text ?? p.type));
        if (batch.streamClosed) resolve();
      });
    });
    await say(1, ", ", "world");
    await call(`/v1/messages/${id}:finish`, { worker_id: "w", attempt: 1 });
    await over;
    expect(read).toEqual([", ", "world"]);
  });

  test("a client cannot write what a worker writes", async () => {
    await call("/v1/tasks", { type: "fenced", payload: {}, reply: {} });
    const claim = await call("/v1/claims", { worker_id: "w", types: ["fenced"] });
    const url = `${server.url}/v1/streams/${claim.items[0].open_message.id}`;
    const headers = { "Content-Type": "application/json" };
    expect((await fetch(url, { method: "POST", headers, body: "[1]" })).status).toBe(405);
    expect((await fetch(url, { method: "PUT", headers })).status).toBe(409);
    expect((await fetch(url, { method: "DELETE" })).status).toBe(405);
  });
});
