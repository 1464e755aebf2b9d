// What goes wrong: processes that die or freeze, and networks and servers that are gone for a time.
import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { must, once, pawl, PawlError, type Job } from "../src/index.ts";
import { databases, Fixture, kill, until } from "./fixture.ts";
import { Proxy } from "./proxy.ts";
import { create, itemOf, works } from "./works.ts";

const inTime = { timeout: 120_000 };

for (const database of databases) {
  /** A server, a task, and workers of it in processes of their own. */
  const processes = async (fixture: Fixture, type: string) => {
    const { url } = await fixture.serve();
    const p = pawl(url);
    const task = await create(p, type);
    const start = (holdMs: number, graceMs = 30_000) =>
      fixture.run(process.execPath, [join(import.meta.dirname, "stepping-worker.ts"), url, type, fixture.dir, String(holdMs), String(graceMs)]);
    const began = (attempt: number) => until(() => existsSync(join(fixture.dir, `began-${attempt}`)), `attempt ${attempt} begins`);
    const ran = () => readFileSync(join(fixture.dir, "ran"), "utf8").length;
    return { p, task, start, began, ran };
  };
  const over = (child: ChildProcess) => new Promise<number | null>((resolve) => child.once("exit", resolve));

  test(`a worker that is killed (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const { p, task, start, began, ran } = await processes(fixture, "killed");
    const first = start(60_000);
    await began(1);
    await kill(first);
    start(0);
    await until(async () => (await task()).state === "completed", "another worker does it");
    assert.deepEqual([(await itemOf(p, await task())).result, ran()], [{ first: first.pid, attempt: 2 }, 1]);
  });

  test(`a worker that is frozen hands in nothing when it goes on (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const { p, task, start, began, ran } = await processes(fixture, "frozen");
    const first = start(2000);
    await began(1);
    first.kill("SIGSTOP");
    const second = start(0);
    await until(async () => (await task()).state === "completed", "another worker does it");
    second.kill("SIGTERM");
    first.kill("SIGCONT");
    await pause(3000);
    first.kill("SIGTERM");
    assert.equal(await over(first), 0);
    const result = (await itemOf(p, await task())).result as { first: number; attempt: number };
    assert.deepEqual([result.first, result.attempt > 1, ran()], [first.pid, true, 1]);
    const { items } = await must(p.GET("/v1/tasks/{id}/events", { params: { path: { id: (await task()).id } } }));
    assert.equal(items.filter((e) => e.event === "completed").length, 1);
  });

  test(`SIGTERM lets handlers end, or gives their items back (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const { p, task, start, began } = await processes(fixture, "ending");
    const patient = start(1500);
    await began(1);
    patient.kill("SIGTERM");
    assert.equal(await over(patient), 0);
    assert.equal(((await itemOf(p, await task())).result as { attempt: number }).attempt, 1);
  });

  test(`a result is kept although the connection breaks (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    await using proxy = await Proxy.before((await fixture.serve()).port);
    const p = pawl(proxy.url);
    let ran = 0;
    const charge = (breaks: () => void) => () => (breaks(), ++ran);
    const cut = () => (proxy.cut(), void setTimeout(() => proxy.mend(), 1000));
    for (const [key, breaks] of [["answer", () => proxy.dropAnswers(1)], ["cut", cut]] as const) {
      ran = 0;
      assert.equal(await once(p, key, 1, charge(breaks)), 1);
      assert.equal(await once(p, key, 1, charge(breaks)), 1);
      assert.equal(ran, 1);
    }
  });

  test(`an answer that is lost in a step does nothing twice (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    await using proxy = await Proxy.before((await fixture.serve()).port);
    const p = pawl(proxy.url);
    const task = await create(p, "lossy");
    let ran = 0;
    await works(p, "lossy", async ({ step }: Job) => {
      return step("fetch", () => {
        ran++;
        proxy.dropAnswers(1);
        return "fetched";
      });
    }, async () => (await task().catch(() => ({ state: "unknown" }))).state === "completed");
    assert.deepEqual([ran, proxy.dropped, (await itemOf(p, await task())).result], [1, 1, "fetched"]);
    const { items } = await must(p.GET("/v1/tasks/{id}/checkpoints", { params: { path: { id: (await task()).id } } }));
    assert.equal(items.length, 1);
  });

  test(`a call that is never answered is made again (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    await using proxy = await Proxy.before((await fixture.serve()).port);
    const p = pawl(proxy.url);
    const task = await create(p, "unanswered");
    await works(p, "unanswered", async ({ lease }: Job) => {
      proxy.swallow(":complete");
      return lease.attempt;
    }, async () => (await task()).state === "completed", { leaseSeconds: 30 });
    assert.equal((await itemOf(p, await task())).result, 1);
  });

  test(`the network is lost for longer than the lease (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const { url, port } = await fixture.serve();
    await using proxy = await Proxy.before(port);
    const direct = pawl(url);
    const task = await create(direct, "lonely");
    let cause: unknown;
    await works(pawl(proxy.url), "lonely", async ({ lease, abortSignal }: Job) => {
      if (lease.attempt > 1) return "again";
      proxy.cut();
      await until(() => abortSignal.aborted, "the handler is told");
      cause = abortSignal.reason;
      proxy.mend();
      return "never";
    }, async () => (await task()).state === "completed", { leaseSeconds: 1 });
    assert.ok(cause instanceof TypeError || (cause instanceof PawlError && cause.code === "lease_lost"), String(cause));
    assert.equal((await itemOf(direct, await task())).result, "again");
  });

  test(`a server that is killed and started again (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const { url, port, child } = await fixture.serve();
    const p = pawl(url);
    const task = await create(p, "steady");
    let restarted: Promise<unknown> | undefined;
    await works(p, "steady", async ({ step }: Job) => {
      const a = await step("before", () => "a");
      await kill(child);
      restarted = fixture.serve(port);
      const b = await step("after", () => "b");
      await restarted;
      return a + b;
    }, async () => (await task().catch(() => ({ state: "unknown" }))).state === "completed");
    const item = await itemOf(p, await task());
    assert.deepEqual([item.result, item.attempt], ["ab", 1]);
  });
}

test("reports and steps are sent again while the lease holds", inTime, async () => {
  await using fixture = await Fixture.open("sqlite");
  const { url } = await fixture.serve();
  const left: { [verb: string]: number } = { checkpoint: 11, done: 11, spawn: 11, reserve: 11, progress: 11 };
  const p = pawl(url, {
    fetch: async (request) => {
      const verb = (request as Request).url.split(":").at(-1)!;
      return left[verb] && left[verb]-- > 0 ? new Response("", { status: 503 }) : fetch(request);
    },
  });
  await must(p.PUT("/v1/budgets/{id}", { params: { path: { id: "tokens" } }, body: { limit: 100, unit: "tokens" } }));
  const task = await create(p, "away", { max_attempts: 1 });
  let ran = 0;
  await works(p, "away", ({ step, effect, spawn, reserve, progress }: Job) => Promise.all([
    step("fetch", () => ++ran), effect("charge", {}, () => ++ran), spawn("child", { type: "child" }), reserve("tokens", 1), progress(50),
  ]), async () => ["completed", "failed"].includes((await task()).state!), { leaseSeconds: 300 });
  assert.deepEqual([(await task()).state, ran, left], ["completed", 2, { checkpoint: 0, done: 0, spawn: 0, reserve: 0, progress: 0 }]);
});

for (const code of ["key_in_flight", "internal"] as const) {
  test(`what a worker reports is sent again after ${code}`, inTime, async () => {
    await using fixture = await Fixture.open("sqlite");
    const { url } = await fixture.serve();
    const status = code === "internal" ? 500 : 409;
    const told = new Set<string>();
    const p = pawl(url, {
      fetch: async (request) => {
        const verb = (request as Request).url.split(":").at(-1)!;
        if (!["append", "step", "finish", "done", "complete"].includes(verb) || told.has(verb)) return fetch(request);
        told.add(verb); // the first call of each verb
        return Response.json({ type: "about:blank", title: code, detail: code, status, code }, { status });
      },
    });
    const task = await create(p, "told", { reply: {}, max_attempts: 1 });
    const { said } = await works(p, "told", async ({ message, effect }: Job) => {
      const m = await message();
      await m.text("all words");
      await m.step();
      await m.finish();
      return effect("charge", {}, () => 7);
    }, async () => ["completed", "failed"].includes((await task()).state!));
    assert.deepEqual([(await itemOf(p, await task())).result, said, told.size], [7, [], 5]);
  });
}
