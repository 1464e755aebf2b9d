// Readers of a stream that breaks off.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { follow } from "../src/follow.ts";

test("a reader goes on in a later epoch", async () => {
  const chunks = (offset: number, data: string) => `data: ${JSON.stringify({ offset, chunks: [{ type: "data", data }] })}\n\n`;
  const streams = [`id: 1-0\n${chunks(0, "a")}`, `id: 1-1\n${chunks(1, "b")}event: end\ndata: {"status":"complete"}\n\n`];
  const asked: [string, unknown][] = [];
  const server = createServer((request, response) => {
    asked.push([new URL(request.url!, "http://x").search, request.headers["last-event-id"]]);
    if (request.headers["last-event-id"] === undefined && asked.length > 1) response.writeHead(400).end("after is no number");
    else response.writeHead(200, { "Content-Type": "text/event-stream" }).end(streams[asked.length - 1]);
  });
  await new Promise<void>((then) => server.listen(0, "127.0.0.1", then));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const got: unknown[] = [];
  for await (const frame of follow({ url, headers: {} }, "msg_1", 0, new AbortController().signal)) got.push(...frame.chunks.map((c) => c.data));
  server.close();
  expect(got).toEqual(["a", "b"]);
  expect(asked.map(([, last]) => last)).toEqual([undefined, "1-0"]);
});
