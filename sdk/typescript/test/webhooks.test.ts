// The package of Standard Webhooks accepts what a relay sends and what a worker that is called gets, and the server accepts
// what the package signs.
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import { must } from "../src/index.ts";
import { serve } from "../src/testing.ts";
import { bin, databases, Fixture } from "./fixture.ts";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const binary = join(bin, "pawl");

type Seen = { path: string; headers: IncomingHttpHeaders; body: string };

for (const database of databases) {
  test(`the signatures are valid (${database})`, { timeout: 120_000 }, async () => {
    await using fixture = await Fixture.open(database);
    const seen: Seen[] = [];
    const receiver = createServer((request, response) => {
      let body = "";
      request.setEncoding("utf8").on("data", (text) => (body += text)).on("end", () => {
        seen.push({ path: request.url!, headers: request.headers, body });
        response.end();
        receiver.emit("seen");
      });
    });
    receiver.listen(0, "127.0.0.1");
    await once(receiver, "listening");
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
    const config = join(fixture.dir, "pawl.yaml");
    await writeFile(config, JSON.stringify({
      relay: { sinks: [`hook=${url}/relay#allow_private&events=completed`], secrets: [`hook=${secret}`] },
      push: { report: { url: `${url}/push`, secret, allow_private: true } },
      serve: { inbound: { shop: { form: "standard", secret, task: { type: "order" } } } },
    }));
    try {
      await using server = await serve({ binary, db: fixture.db, args: ["--config", config] });
      const p = server.client();
      const task = await must(p.POST("/v1/tasks", { body: { type: "report", payload: { name: "é" } } }));
      const bodies: Record<string, unknown> = {};
      while (!bodies["/relay"] || !bodies["/push"]) {
        if (seen.length === 0) await once(receiver, "seen");
        const { path, headers, body } = seen.shift()!;
        const said = headers as Record<string, string>;
        bodies[path] = new Webhook(secret).verify(body, said);
        assert.throws(() => new Webhook(other).verify(body, said), WebhookVerificationError);
        assert.throws(() => new Webhook(secret).verify(`${body} `, said), WebhookVerificationError);
      }
      const { task_id, input } = bodies["/push"] as { task_id: string; input: unknown };
      assert.deepEqual([task_id, input], [task.id, { name: "é" }]);
      assert.ok(JSON.stringify(bodies["/relay"]).includes(task.id));

      const send = (by: string, body: string) => {
        const now = new Date();
        const signature = new Webhook(by).sign("msg_1", now, body);
        const headers = { "content-type": "application/json", "webhook-id": "msg_1", "webhook-timestamp": `${Math.floor(now.getTime() / 1000)}`, "webhook-signature": signature };
        return fetch(`${server.url}/v1/inbound/shop`, { method: "POST", headers, body });
      };
      assert.equal((await send(other, '{"order":"é"}')).status, 401);
      const taken = await send(secret, '{"order":"é"}');
      assert.ok(taken.ok, await taken.clone().text());
      const { items } = await must(p.GET("/v1/tasks", { params: { query: { type: ["order"] } } }));
      assert.deepEqual(items.map((made) => made.payload), [{ order: "é" }]);
    } finally {
      receiver.close();
      receiver.closeAllConnections();
    }
  });
}
