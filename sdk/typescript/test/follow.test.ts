// Readers of a message whose stream breaks off.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { followMessage, pawl } from "../src/index.ts";

test("a reader goes on in a later epoch", { timeout: 60_000 }, async () => {
  const chunks = (offset: number, text: string) => `data: ${JSON.stringify({ offset, chunks: [{ type: "text", text }] })}\n\n`;
  const streams = [
    `id: 41\n${chunks(0, "a")}event: abandoned\ndata: {"from":0,"to":42}\n\n`,
    `id: 1-5\nevent: snapshot\ndata: ${JSON.stringify({ status: "streaming", content: [{ type: "text", text: "b" }] })}\n\nid: 1-7\n${chunks(6, "cd")}`,
    `event: abandoned\ndata: {"from":6,"to":8}\n\nid: 1-8\n${chunks(8, "e")}event: end\ndata: {"status":"complete"}\n\n`,
  ];
  const asked: [string, unknown][] = [];
  const server = createServer((request, response) => {
    asked.push([new URL(request.url!, "http://x").search, request.headers["last-event-id"]]);
    response.writeHead(200, { "Content-Type": "text/event-stream" }).end(streams[asked.length - 1]);
  });
  await new Promise<void>((then) => server.listen(0, "127.0.0.1", then));
  const p = pawl(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  let text = "";
  for await (const content of followMessage(p, "msg_1")) text = content.text;
  server.close();
  assert.deepEqual(asked, [["", undefined], ["", "41"], ["", "1-7"]]);
  assert.equal(text, "be");
});

test("a reader that has begun waits for a server that is away", { timeout: 60_000 }, async () => {
  let asked = 0;
  const server = createServer((_, response) => {
    asked++;
    if (asked > 1 && asked < 13) return void response.writeHead(503, { "Retry-After": "1" }).end();
    const end = asked > 1 ? 'event: end\ndata: {"status":"complete"}\n\n' : "";
    response.writeHead(200, { "Content-Type": "text/event-stream" }).end(`id: 1\ndata: {"offset":0,"chunks":[{"type":"text","text":"a"}]}\n\n${end}`);
  });
  await new Promise<void>((then) => server.listen(0, "127.0.0.1", then));
  const p = pawl(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  let status = "";
  for await (const content of followMessage(p, "msg_1")) status = content.status;
  server.close();
  assert.deepEqual([status, asked], ["complete", 13]);
});
