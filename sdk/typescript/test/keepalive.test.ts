// Leases that a program has claimed itself, kept alive.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Cancelled, fence, keepAlive, must, pawl, PawlError, type Lease, type Pawl } from "../src/index.ts";
import { databases, Fixture, until } from "./fixture.ts";
import { create } from "./works.ts";

const inTime = { timeout: 120_000 };

async function claimed(p: Pawl, type: string, lease_seconds = 2): Promise<Lease> {
  await create(p, type);
  const { items } = await must(p.POST("/v1/claims", { body: { worker_id: "w1", types: [type], lease_seconds } }));
  return items[0]!;
}

for (const database of databases) {
  test(`a lease is kept until it is lost (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const lost: Error[] = [];
    const lease = await claimed(p, "kept");
    const params = { path: { id: lease.id } };
    const kept = keepAlive(p, lease, { intervalMs: 100, onLost: (e) => lost.push(e) });
    await until(async () => (await must(p.GET("/v1/items/{id}", { params }))).lease_expires_at! > lease.lease_expires_at, "the lease is extended");
    assert.deepEqual([kept.running, kept.lost], [true, undefined]);
    await must(p.POST("/v1/items/{id}:complete", { params, body: fence(lease) }));
    await until(() => !kept.running, "the next heartbeat is refused");
    assert.ok(kept.lost instanceof PawlError && kept.lost.code === "lease_lost");
    assert.ok(lost.length === 1 && lost[0] === kept.lost);

    const other = await claimed(p, "other");
    const stopped = keepAlive(p, other, { intervalMs: 50, onLost: (e) => lost.push(e) });
    stopped.stop();
    const doomed = await claimed(p, "doomed");
    keepAlive(p, doomed, { intervalMs: 50, onLost: (e) => lost.push(e) });
    await must(p.POST("/v1/tasks/{id}:cancel", { params: { path: { id: doomed.task_id } }, body: {} }));
    await until(() => lost.length === 2, "the item is cancelled");
    assert.ok(lost[1] instanceof Cancelled);
    assert.deepEqual([stopped.running, stopped.lost], [false, undefined]);
  });
}

test("heartbeats that fail, or are not answered, end it", inTime, async () => {
  await using fixture = await Fixture.open("sqlite");
  const p = pawl((await fixture.serve()).url);
  let calls = 0;
  const broken = pawl("http://pawl.test", { fetch: async () => { calls++; throw new TypeError("no route"); } });
  const failing = keepAlive(broken, await claimed(p, "failing", 60), { intervalMs: 20, maxFailures: 4 });
  await until(() => !failing.running, "it counts as lost");
  assert.deepEqual([calls, failing.lost?.message], [4, "4 heartbeats in a row failed"]);

  const silent = pawl("http://pawl.test", { fetch: () => new Promise(() => {}) });
  const ended = keepAlive(silent, await claimed(p, "silent", 1), { intervalMs: 200 });
  await until(() => !ended.running, "the lease has ended");
  assert.match(ended.lost!.message, /the lease has ended/);

  const lease = await claimed(p, "bad");
  for (const options of [{ intervalMs: 0 }, { intervalMs: 2000 }, { maxFailures: 0 }]) assert.throws(() => keepAlive(p, lease, options), RangeError);
});
