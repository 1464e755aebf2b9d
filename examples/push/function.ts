// A worker that Pawl calls: a plain HTTP handler. It answers with the result, or with 202 and reports
// the result later, under the token of the lease.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

const key = Buffer.from((process.env.PUSH_SECRET ?? "").replace("whsec_", ""), "base64");
if (key.length === 0) throw new Error("PUSH_SECRET is the secret of the type, whsec_…");
const pawl = process.env.PAWL_SERVER ?? "http://127.0.0.1:7033";

interface Item {
  id: string;
  worker_id: string;
  attempt: number;
  input: { words: string[]; slow?: boolean };
}

/** Whether the request is signed with the secret, by Standard Webhooks, and is not old. */
function signed(headers: Record<string, string | string[] | undefined>, body: Buffer): boolean {
  const [id, at] = [String(headers["webhook-id"]), String(headers["webhook-timestamp"])];
  const want = createHmac("sha256", key).update(`${id}.${at}.`).update(body).digest();
  const given = String(headers["webhook-signature"]).split(" ").map((s) => Buffer.from(s.replace("v1,", ""), "base64"));
  return Math.abs(Date.now() / 1000 - Number(at)) < 300 && given.some((g) => g.length === want.length && timingSafeEqual(g, want));
}

async function later(item: Item, token: string, result: unknown): Promise<void> {
  const body = JSON.stringify({ worker_id: item.worker_id, attempt: item.attempt, result });
  const headers = { authorization: token, "content-type": "application/json", "idempotency-key": `${item.id}:${item.attempt}` };
  for (let n = 0; n < 10; n++) {
    try {
      const { ok, status } = await fetch(`${pawl}/v1/items/${item.id}:complete`, { method: "POST", headers, body });
      if (ok) return;
      console.error(`the result of ${item.id} is answered with ${status}`);
      if (status < 500 && status !== 429) return; // it is refused for good
    } catch (error) {
      console.error(`Pawl does not answer: ${error}`);
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(100 * 2 ** n, 5000)));
  }
}

async function work(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks); // text of one chunk could begin or end within a character
  if (!signed(request.headers, body)) return response.writeHead(401).end();
  const item = JSON.parse(body.toString()) as Item;
  const result = { text: item.input.words.join(" "), by: "typescript" };
  if (item.input.slow) {
    response.writeHead(202).end();
    return void later(item, String(request.headers.authorization), result);
  }
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(result));
}

// A request that fails, or whose client has gone, must not end the process with the calls of others.
const server = createServer((request, response) => {
  work(request, response).catch((error) => {
    console.error(`a request failed: ${error}`);
    if (!response.headersSent) response.writeHead(500).end();
  });
});

server.listen(Number(process.env.PORT ?? 8080), "127.0.0.1", () => {
  const at = server.address();
  console.log(`http://127.0.0.1:${typeof at === "object" ? at?.port : ""}`);
});
