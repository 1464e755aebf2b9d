// Leases that end, and how soon the handler is told.
import assert from "node:assert/strict";
import { test } from "node:test";
import { must, pawl, PawlError, type Job, type Lease, type Pawl } from "../src/index.ts";
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
    const silent = await told(pawl(proxy.url), "silent", 3, () => proxy.silence());
    assert.ok(silent.after < 4000, `after ${silent.after} ms`);

    // No heartbeat moves the end of the lease. The next one is due after 7 s.
    await create(p, "capped", { start_to_close_seconds: 2 });
    const capped = await told(p, "capped", 60, () => {});
    assert.ok(capped.after > 1000 && capped.after < 4000, `after ${capped.after} ms`);
    assert.match(capped.why, /the lease has ended/);

    // The item is not there any more: the first heartbeat is due after 1 s.
    const task = await create(p, "deleted");
    const { id } = await task();
    const deleted = await told(p, "deleted", 60, () => must(p.POST("/v1/tasks:delete", { body: { items: [{ task_id: id, force: true }] } })));
    assert.ok(deleted.after < 3000, `after ${deleted.after} ms`);
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
  const { after, why } = await told(here, "revoked", 5, () => {});
  assert.deepEqual([refused, why], [3, "3 heartbeats in a row failed"]);
  assert.ok(after < 3000, `after ${after} ms`);
});
