// Leases that end, and how soon the handler is told.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { Heartbeats } from "../src/heartbeats.ts";
import { must, pawl, PawlError, type Job, type Lease, type Pawl } from "../src/index.ts";
import { keepLease } from "../src/lease.ts";
import { databases, Fixture, until } from "./fixture.ts";
import { Proxy } from "./proxy.ts";
import { create, works } from "./works.ts";

const inTime = { timeout: 60_000 };

/** Does one item of a type, whose lease `breaks`; how many ms after that the handler was told, and why. */
async function told(p: Pawl, type: string, leaseSeconds: number, breaks: (lease: Lease) => unknown) {
  let after = Infinity;
  let why: unknown;
  await works(p, type, async ({ lease, abortSignal }: Job) => {
    if (lease.attempt > 1) return;
    const began = performance.now();
    await breaks(lease);
    await until(() => abortSignal.aborted, "the handler is told");
    [after, why] = [performance.now() - began, abortSignal.reason];
  }, async () => after < Infinity, { leaseSeconds });
  assert.ok(why instanceof PawlError && why.code === "lease_lost", String(why));
  return { after, why: why.message };
}

for (const database of databases) {
  test(`a handler is told that its lease has ended (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const { url, port } = await fixture.serve();
    await using proxy = await Proxy.before(port);
    const p = pawl(url);

    // Heartbeats are not answered.
    await create(p, "silent");
    await told(pawl(proxy.url), "silent", 3, () => proxy.silence());

    // No heartbeat moves the end of the lease. The next one is due after 7 s.
    await create(p, "capped", { start_to_close_seconds: 2 });
    const capped = await told(p, "capped", 60, () => {});
    assert.match(capped.why, /the lease has ended/);

    // The item is not there any more: the first heartbeat is due after 1 s.
    const task = await create(p, "deleted");
    const { id } = await task();
    const deleted = await told(p, "deleted", 60, () => must(p.POST("/v1/tasks:delete", { body: { items: [{ task_id: id, force: true }] } })));
    assert.ok(deleted.after < 15_000, `after ${deleted.after} ms`);
  });
}

test("three heartbeats that fail end a lease", inTime, async () => {
  await using fixture = await Fixture.open("sqlite");
  const { url } = await fixture.serve();
  let refused = 0;
  const problem = { type: "about:blank", title: "unauthorized", detail: "no such key", status: 401, code: "unauthorized" };
  const here = pawl(url, {
    fetch: async (request) => {
      if (!(request as Request).url.endsWith(":heartbeat")) return fetch(request);
      refused++;
      return Response.json(problem, { status: 401 });
    },
  });
  await create(here, "revoked");
  const { why } = await told(here, "revoked", 5, () => {});
  assert.deepEqual([refused, why], [3, "3 heartbeats in a row failed"]);
});

const lease = { id: "i1", worker_id: "w1", attempt: 1, lease_seconds: 60, lease_expires_at: "2026-01-01T00:01:00Z", server_time: "2026-01-01T00:00:00Z" } as Lease;

/** A server in a thread, which says that it was asked and answers 100 ms later. */
const answering = `
  const { parentPort, workerData } = require("node:worker_threads");
  const server = require("node:http").createServer((_, response) => {
    parentPort.postMessage("asked");
    setTimeout(() => response.setHeader("Content-Type", "application/json").end(workerData), 100);
  });
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`;

test("a heartbeat that was answered while the event loop was busy counts", inTime, async () => {
  const server = new Worker(answering, { eval: true, workerData: JSON.stringify(lease) });
  const [port] = await once(server, "message");
  server.on("message", () => {
    for (const end = performance.now() + 800; performance.now() < end; ); // longer than a heartbeat may take
  });
  const came: unknown[] = [];
  const beats = new Heartbeats(pawl(`http://127.0.0.1:${port}`, { fetch }));
  const kept = keepLease(beats, lease, { every: 500, extended: () => came.push("extended"), failed: (error) => came.push(error), lost: () => {} });
  await until(() => came.length > 2, "three came to something");
  kept.stop();
  await server.terminate();
  assert.deepEqual(came, ["extended", "extended", "extended"]);
});

test("a heartbeat waits for the one before", inTime, async () => {
  const server = createServer((socket) => void socket.on("error", () => {})); // it answers nothing
  await new Promise<void>((then) => server.listen(0, "127.0.0.1", then));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const between: number[] = [];
  for (const p of [pawl(url), pawl(url, { fetch })]) {
    const beats = new Heartbeats(p);
    const sent: number[] = [];
    const rest = beats.keep(lease, 50, (at, said) => void said.catch(() => sent.push(at)));
    await until(() => sent.length > 2, "three have failed");
    rest();
    await beats.end();
    between.push(...sent.slice(1, 3).map((at, i) => at - sent[i]!));
  }
  server.close();
  assert.ok(between.every((ms) => ms > 400), between.join()); // each had 500 ms
});

test("the answer to an earlier heartbeat says nothing", async () => {
  let answered: (at: number, said: Promise<never>) => Promise<void>;
  const beats = { keep: (_: Lease, __: number, told: typeof answered) => ((answered = told), () => {}) } as unknown as Heartbeats;
  const lost: Error[] = [];
  const kept = keepLease(beats, lease, { lost: (reason) => lost.push(reason) });
  for (const at of [4, 3, 2, 1]) await answered!(at, Promise.reject(new Error("no answer")));
  assert.deepEqual(lost, []);
  kept.stop();
});
