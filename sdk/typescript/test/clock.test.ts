// The clock of tests, and workers that die.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { followMessage, must, type Job, type Pawl } from "../src/index.ts";
import { crashAfter, eachCrash, findBinary, runOne, serve, start, type TestServer } from "../src/testing.ts";
import { bin } from "./fixture.ts";
import { create, ended, works } from "./works.ts";

const inTime = { timeout: 120_000 };
const binary = join(bin, "pawl");
const day = 86400;
let server: TestServer;

before(async () => {
  server = await serve({ binary, clock: true });
});
after(() => server.close());

const remind = async ({ sleep }: Job) => {
  await sleep("three days", 3 * day);
  return "reminded";
};

test("a sleep of days takes no time", inTime, async () => {
  const began = performance.now();
  const p = server.client();
  const task = await create(p, "remind");
  assert.equal((await runOne(server, { remind })).state, "waiting");
  const before = await server.now();
  await assert.rejects(runOne(server, { remind }), RangeError);
  const passed = (await server.advance(3 * day)).getTime() - before.getTime() - 3 * day * 1000;
  assert.ok(passed >= 0 && passed < 1000, `${passed} ms more`);
  const item = await runOne(server, { remind });
  assert.deepEqual([item.state, item.result], ["completed", "reminded"]);
  const events = await must(p.GET("/v1/tasks/{id}/events", { params: { path: { id: (await task()).id }, query: { order: "asc" } } }));
  assert.deepEqual(events.items.map((e) => e.event), ["proposed", "leased", "in_progress", "suspended", "ready", "leased", "completed"]);
  assert.ok(performance.now() - began < 20_000);
});

test("a worker that runs goes on", inTime, async () => {
  const p = server.client();
  const task = await create(p, "running");
  let moved = false;
  await works(p, "running", remind, async () => {
    const { items } = await must(p.GET("/v1/tasks/{id}/items", { params: { path: { id: (await task()).id } } }));
    if (!moved && items[0]!.state === "waiting") {
      moved = true;
      await server.advance(3 * day);
    }
    return ended(p, task)();
  });
  assert.ok(moved);
});

test("a wait for a budget is one by the server's clock", inTime, async () => {
  const p = server.client();
  await must(p.PUT("/v1/budgets/{id}", { params: { path: { id: "small" } }, body: { unit: "calls", limit: 10, on_exhausted: "suspend" } }));
  await create(p, "spend");
  const spend = async ({ lease, reserve }: Job) => {
    if (lease.attempt > 1) return lease.attempt;
    await reserve("small", 8, "held"); // it may come back
    await reserve("small", 5, "more");
  };
  assert.equal((await runOne(server, { spend })).state, "waiting");
  await server.advance(61);
  assert.equal((await runOne(server, { spend })).result, 2);
});

test("the clock stands where it was left after a restart", inTime, async () => {
  await using own = await serve({ binary, clock: new Date("2030-02-28T23:59:59.500Z") });
  assert.equal((await own.now()).toISOString(), "2030-02-28T23:59:59.500Z");
  assert.equal((await own.advance(0.5)).toISOString(), "2030-03-01T00:00:00.000Z");
  await own.kill();
  await own.start();
  assert.equal((await own.now()).toISOString(), "2030-03-01T00:00:00.000Z");
  await assert.rejects(own.advance(-1), /must be from 0/);
});

test("what is refused", inTime, async () => {
  await using own = await serve({ binary });
  await assert.rejects(own.advance(1), /clock: true/);
  await assert.rejects(serve({ binary, args: ["--no-such-flag"] }), /does not get ready:[^]*no-such-flag/);
  assert.throws(() => findBinary("/no/such/program"), /is no program that can be run/);
  assert.equal(start.toISOString(), "2026-01-29T10:00:00.000Z");
});

test("a crash after each write", inTime, async () => {
  await create(server.client(), "work", { max_attempts: 9 });
  const seen: string[] = [];
  const work = async ({ lease, step }: Job) => {
    try {
      seen.push(`attempt ${lease.attempt}`);
      await step("one", () => seen.push("one"));
      seen.push("after one");
      await step("two", () => seen.push("two"));
      return 2;
    } finally {
      if (lease.attempt < 4) seen.push("finally"); // it does not come to it
    }
  };
  const found: unknown[] = [];
  for (const [writes, lost] of [[0, false], [1, false], [0, true], [2, false]] as const) {
    const { item, crashed } = await crashAfter(server, writes, { work }, { lost });
    found.push([crashed, item.state, item.failures, seen.splice(0)]);
  }
  assert.deepEqual(found, [
    [true, "queued", 1, ["attempt 1", "one"]],
    [true, "queued", 2, ["attempt 2", "one"]],
    [true, "queued", 3, ["attempt 3", "after one", "two"]],
    [true, "completed", 3, ["attempt 4", "after one", "two"]],
  ]);
  await assert.rejects(crashAfter(server, 2, { work }), RangeError);
  await create(server.client(), "work");
  assert.equal((await crashAfter(server, 4, { work })).crashed, false);
});

test("a task survives each crash", inTime, async () => {
  const ran: Record<string, number> = {};
  const run = (name: string) => (ran[name] = (ran[name] ?? 0) + 1, 1);
  const pay = async ({ step, sleep, spawn, awaitChildren }: Job) => {
    let total = 0;
    for (const name of ["reserve", "charge"]) total += await step(name, () => run(name), name);
    await sleep("a day", day);
    const child = await spawn("child", { type: "child", payload: null });
    const [done] = await awaitChildren("the child", { ids: [child.id] });
    return total + (done!.result as number);
  };
  let [prepared, lives, last] = [0, 0, true];
  const prepare = async (p: Pawl) => {
    await must(p.PUT("/v1/types/{id}", { params: { path: { id: "pay" } }, body: { max_attempts: 9 } }));
    prepared++;
  };
  for await (const life of eachCrash(server, { pay, child: async () => 3 }, { type: "pay", payload: { eur: 20 } }, prepare)) {
    assert.deepEqual([life.item.state, life.item.result, life.writes], ["completed", 5, Math.floor(++lives / 2)]);
    assert.equal((await must(life.pawl.GET("/v1/tasks/{id}", { params: { path: { id: life.task.id } } }))).state, "completed");
    last = life.crashed;
  }
  assert.deepEqual([last, prepared, lives > 16], [false, lives, true]);
  assert.deepEqual(ran, { reserve: lives + 1, charge: lives + 1 }); // again only where the crash came before it was saved
});

test("a message and an effect survive each crash", inTime, async () => {
  const paid: string[] = [];
  let lives = 0;
  const work = async ({ effect, message }: Job) => {
    const probe = (key: string) => (paid.includes(key) ? { happened: true as const, answer: key } : { happened: false as const });
    const answer = await effect("charge", { probe }, (key) => (paid.push(key), key));
    const writer = await message();
    await writer.namedStep("tell", async (m) => m.text("paid"));
    await writer.finish();
    return answer;
  };
  for await (const life of eachCrash(server, { told: work }, { type: "told", payload: {}, reply: {} })) {
    lives++;
    assert.equal(life.item.state, "completed", `${life.writes} ${life.lost}`);
    const { items } = await must(life.pawl.GET("/v1/messages", { params: { query: { task_id: life.task.id } } }));
    let text = "";
    for await (const said of followMessage(life.pawl, items[0]!.id)) text = said.text;
    assert.equal(text, "paid");
  }
  assert.deepEqual([paid.length, new Set(paid).size], [lives, lives]); // never twice
});
