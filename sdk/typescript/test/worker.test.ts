// What work() makes of items, and that nothing the server refuses goes unsaid.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { fence, must, once, partialResult, pawl, PawlError, Permanent, RetryAfter, taskResult, work, type Job, type Schemas } from "../src/index.ts";
import { bin, databases, Fixture, kill, until } from "./fixture.ts";
import { create, ended, itemOf, works } from "./works.ts";

const inTime = { timeout: 120_000 };

test("a worker of a copy waits until it is adopted", inTime, async () => {
  await using fixture = await Fixture.open("sqlite");
  await kill((await fixture.serve()).child);
  const file = join(fixture.dir, "work.db");
  await copyFile(file, `${file}.copy`);
  await rename(`${file}.copy`, file); // another file, in the place of the original
  const p = pawl((await fixture.serve()).url);
  const task = await create(p, "t");
  const adopting = pause(500).then(() => promisify(execFile)(join(bin, "pawl"), ["adopt", "--db", fixture.db]));
  const { log } = await works(p, "t", async () => 7, async () => (await task()).state === "completed");
  await adopting;
  assert.equal(log.filter((line) => line.includes("is quarantined")).length, 1, log.join("\n"));
});

for (const database of databases) {
  test(`a result is submitted where its type wants it accepted (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const result_schema = { type: "object", required: ["text"] };
    await must(p.PUT("/v1/types/{id}", { params: { path: { id: "draft" } }, body: { acceptance: true, approval: { mode: "manual" }, result_schema } }));
    const task = await create(p, "draft");
    let calls = 0;
    const { said, log } = await works(p, "draft", async () => ({ text: `paid for ${++calls} times` }), async () => (await task()).state === "submitted");
    assert.deepEqual((await itemOf(p, await task())).result, { text: "paid for 1 times" });
    assert.deepEqual(said, []);
    assert.ok(log.some((line) => line.includes("is done: submit")), log.join("\n"));

    // What its schema refuses fails it for good, and says so.
    const bad = await create(p, "draft");
    const refused = await works(p, "draft", async () => ({ words: ++calls }), async () => (await bad()).state === "failed");
    assert.equal(calls, 2);
    assert.deepEqual(refused.said, ["submit invalid"]);
    const { error } = await itemOf(p, await bad());
    assert.ok(typeof error === "object" && error.code === "invalid_result" && error.message === "the result was refused: /result: does not fit", JSON.stringify(error));
    assert.match(JSON.stringify(error.detail), /text/); // hidden from those who do not read payloads
    assert.ok(refused.log.some((line) => line.startsWith("warn pawl: submit was refused")), refused.log.join("\n"));
  });

  test(`errors fail for good, later or by the budget (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "t", { max_attempts: 5 });
    const throws = [new RetryAfter(0, "busy"), new RetryAfter(0, "still busy"), new Permanent("no such account", { code: "no_account" })];
    const { said } = await works(p, "t", async ({ lease }) => { throw throws[lease.attempt - 1]!; }, async () => (await task()).state === "failed");
    const item = await itemOf(p, await task());
    assert.deepEqual([item.attempt, item.error], [3, { code: "no_account", message: "no such account" }]);
    assert.deepEqual(said, []);

    const later = await create(p, "t");
    await works(p, "t", async () => { throw new RetryAfter(3600, "tomorrow"); }, async () => (await itemOf(p, await later())).state === "scheduled");
    const { run_at } = await itemOf(p, await later());
    assert.ok(Date.parse(run_at!) - Date.now() > 3500_000, run_at);

    const odd = await create(p, "odd");
    await works(p, "odd", async () => { throw new Permanent("a \0 and half a \ud83d pair"); }, async () => (await odd()).state === "failed");
    assert.deepEqual((await itemOf(p, await odd())).error, { message: "a \ufffd and half a \ufffd pair" });

    const loop: unknown[] = [];
    loop.push(loop);
    const endless = await create(p, "endless");
    await works(p, "endless", async () => loop, async () => (await endless()).state === "failed");
    assert.match(JSON.stringify((await itemOf(p, await endless())).error), /invalid_result/);
  });

  test(`the result of a task is read, and in part when it failed (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const conflict = (error: unknown) => error instanceof PawlError && error.code === "conflict";
    const items = [1, 2, 3].map((n) => ({ key: `k${n}`, input: n }));
    const task = await create(p, "thirds", { items, max_attempts: 1 } as Partial<Schemas["NewTask"]>);
    const { id } = await task();
    await assert.rejects(partialResult(p, id), conflict);
    const handle = async ({ lease }: Job) => { if (lease.input === 2) throw new Permanent("no"); return { n: lease.input }; };
    await works(p, "thirds", handle, async () => (await task()).state === "failed");
    await assert.rejects(taskResult(p, id), conflict);
    const { payload, partial } = await partialResult<Record<string, { n: number }>>(p, id);
    assert.deepEqual([payload, partial], [{ k1: { n: 1 }, k3: { n: 3 } }, true]);

    const whole = await create(p, "whole");
    await works(p, "whole", async () => "all", async () => (await whole()).state === "completed");
    for (const read of [taskResult, partialResult]) {
      const result = await read(p, (await whole()).id);
      assert.deepEqual([result.payload, result.partial], ["all", undefined]);
    }
  });

  test(`a stopped message keeps its lease, and errors after the stop are told (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const stopped = async (type: string, then: (signal: AbortSignal) => Promise<unknown>) => {
      const task = await create(p, type, { reply: {}, max_attempts: 1 });
      const handle = async ({ message, abortSignal }: Job) => {
        const m = await message();
        await must(p.POST("/v1/messages/{id}:stop", { params: { path: { id: m.id } }, body: {} }));
        await until(() => abortSignal.aborted, "the stop is known");
        return then(abortSignal);
      };
      await works(p, type, handle, async () => ["completed", "failed"].includes((await task()).state!), { leaseSeconds: 2 });
      return await itemOf(p, await task());
    };
    const slow = await stopped("slow", () => pause(4000, "done"));
    assert.deepEqual([slow.attempt, slow.result], [1, "done"]);
    assert.equal((await stopped("aborted", (signal) => pause(4000, 1, { signal }))).result, null);
    const failed = await stopped("failed", () => Promise.reject(new Permanent("the card was refused")));
    assert.deepEqual([failed.state, (failed.error as { message: string }).message], ["failed", "the card was refused"]);
  });

  test(`what ignores the end of the grace is given back (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "stubborn");
    let began = false;
    let end = () => {};
    const handle = () => new Promise<void>((resolve) => ([began, end] = [true, resolve]));
    await works(p, "stubborn", handle, async () => began);
    assert.equal((await itemOf(p, await task())).state, "queued");
    end();
  });

  test(`a step that cannot be saved runs once, and a bad name is refused before (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    await must(p.PUT("/v1/types/{id}", { params: { path: { id: "unfit" } }, body: { backoff: { base_seconds: 1, max_seconds: 1 } } }));
    const ran: number[] = [];
    for (const result of ["x".repeat(1_100_000), NaN, 2 ** 60]) {
      const task = await create(p, "unfit", { max_attempts: 2 });
      await works(p, "unfit", async ({ step }: Job) => {
        for (const name of ["", "x".repeat(1025), "a\0b"]) await assert.rejects(step(name, () => ran.push(0)), RangeError);
        return await step("pay", () => (ran.push(1), result));
      }, async () => (await task()).state === "failed");
    }
    assert.deepEqual(ran, [1, 1, 1]);
  });

  test(`a fork does not run its saved steps again (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "import");
    const ran: string[] = [];
    const handle = async ({ step }: Job) => {
      for (const name of ["fetch", "charge", "send"]) await step(name, () => ran.push(name));
    };
    await works(p, "import", handle, ended(p, task));
    const { id } = await must(p.POST("/v1/tasks/{id}:fork", { params: { path: { id: (await task()).id } }, body: { checkpoint: 2 } }));
    await works(p, "import", handle, ended(p, () => must(p.GET("/v1/tasks/{id}", { params: { path: { id } } }))));
    assert.deepEqual(ran, ["fetch", "charge", "send", "send"]);
  });

  test(`a step runs once for its item (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "steps");
    const ran: string[] = [];
    const handle = async ({ step, lease }: Job) => {
      const a = await step("a", () => (ran.push("a"), { at: new Date(0) as unknown }), 1, { b: 2, a: 1 });
      assert.deepEqual(a, { at: "1970-01-01T00:00:00.000Z" });
      assert.deepEqual(await Promise.all([step("b", () => ran.push("b")), step("b", () => ran.push("b"))]), [2, 2]);
      if (lease.attempt === 1) await assert.rejects(step("c", () => { throw new Error("not saved"); }));
      if (lease.attempt === 1) throw new RetryAfter(0, "once more");
      await step("c", () => ran.push("c"));
      await assert.rejects(step("a", () => "other", 1, { b: 3, a: 1 }), { name: "Permanent", message: /other arguments \(\/1\/b\)/ });
      await assert.rejects(step("d", () => step("d", () => 1)), /inside itself/);
      return step("nothing", () => undefined);
    };
    await works(p, "steps", handle, async () => ["completed", "failed"].includes((await task()).state!));
    assert.deepEqual([(await task()).state, ran], ["completed", ["a", "b", "c"]]);
  });

  test(`steps on several pages are all replayed (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "large");
    let ran = 0;
    const handle = async ({ step, lease }: Job) => {
      let sum = 0;
      for (let n = 0; n < 20; n++) sum += (await step(`step ${n}`, () => (ran++, "x".repeat(1_000_000)))).length;
      if (lease.attempt === 1) throw new RetryAfter(0, "once more");
      assert.ok((await must(p.GET("/v1/items/{id}/resume", { params: { path: { id: lease.id } } }))).next, "one page is enough");
      return sum;
    };
    await works(p, "large", handle, async () => ["completed", "failed"].includes((await task()).state!));
    assert.deepEqual([(await task()).state, ran, (await itemOf(p, await task())).result], ["completed", 20, 20_000_000]);
  });

  test(`every refusal reaches the caller and the log (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const gone = await create(p, "gone");
    let given = false;
    const handle = async ({ lease }: Job) => {
      if (given) return "the second";
      await must(p.POST("/v1/items/{id}:release", { params: { path: { id: lease.id } }, body: fence(lease) }));
      given = true;
      return "the first";
    };
    const { said, log, refusals } = await works(p, "gone", handle, async () => (await gone()).state === "completed");
    assert.deepEqual(said, ["complete lease_lost"]);
    assert.equal(refusals[0]!.lease.attempt, 1);
    assert.ok(log.some((line) => line.startsWith("warn pawl: complete was refused") && line.includes("lease_lost")), log.join("\n"));
    assert.ok(log.some((line) => line.startsWith("error pawl: what an item came to was not taken")), log.join("\n"));
    assert.equal((await itemOf(p, await gone())).result, "the second");

    // A lease that a heartbeat does not find any more.
    const late = await create(p, "late");
    const lost = await works(p, "late", async ({ lease, abortSignal }) => {
      if (lease.attempt > 1) return null;
      await must(p.POST("/v1/items/{id}:release", { params: { path: { id: lease.id } }, body: fence(lease) }));
      await until(() => abortSignal.aborted, "the handler learns of it");
      abortSignal.throwIfAborted();
    }, async () => (await late()).state === "completed", { leaseSeconds: 3 });
    assert.deepEqual(lost.said, ["heartbeat lease_lost"]);
    assert.ok(lost.log.some((line) => line.startsWith("warn pawl: an item was lost")), lost.log.join("\n"));

    // A worker that may not claim ends, and so do all its claims.
    await assert.rejects(work(p, { workerId: "", types: ["gone"], concurrency: 3, log: false }, async () => {}), (error) => error instanceof PawlError && error.code === "invalid");
  });

  test(`a failure for good at the end of the worker is reported (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "ending");
    const over = new AbortController();
    await work(p, { workerId: "w1", types: ["ending"], graceMs: 0, signal: over.signal, log: false }, async ({ abortSignal }) => {
      over.abort();
      await until(() => abortSignal.aborted, "the handler is told");
      throw new Permanent("the card is stolen");
    });
    assert.equal((await task()).state, "failed");
  });

  test(`a worker is in the list of workers (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const listed = async () => (await must(p.GET("/v1/workers"))).items.find((w) => w.worker_id === "w1" && w.name);
    await works(p, "t", async () => {}, async () => (await listed()) !== undefined, { name: "the agent", version: "1.2" });
    const { name, version, types } = (await listed())!;
    assert.deepEqual({ name, version, types }, { name: "the agent", version: "1.2", types: ["t"] });
  });

  test(`an effect outside runs once, however long it takes (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const { url } = await fixture.serve();
    const p = pawl(url);
    const held = async () => (await must(p.GET("/v1/idempotency-keys/{id}", { params: { path: { id: "charge/7" }, query: { scope: "once" } } }))).locked_until!;
    const hasty = pawl(url, { // it is told that its key is held for a second, and asks for a minute at each renewal
      fetch: async (request) => {
        const { pathname } = new URL((request as Request).url);
        if (pathname.endsWith(":renew")) return fetch(new Request(request, { body: JSON.stringify({ ...(await (request as Request).clone().json()), lock_seconds: 60 }) }));
        const answer = await fetch(request);
        return pathname.endsWith(":begin") ? Response.json({ ...((await answer.json()) as object), lock_seconds: 1 }, answer) : answer;
      },
    });
    const request = { amount: 7, to: "<Ana & Bo>", "\u{1f9ab}": 1, "\uffee": [null, 1.5], "10": 1, "9": 2 };
    let runs = 0;
    const charge = async () => {
      const before = await held();
      await until(async () => (await held()) > before, "the key is renewed");
      await assert.rejects(once(p, "charge/7", request, () => ++runs), (error) => error instanceof PawlError && error.code === "key_in_flight");
      return { id: `ch_${++runs}` };
    };
    for (const _ of [1, 2]) assert.deepEqual(await once(hasty, "charge/7", request, charge), { id: "ch_1" });
    await assert.rejects(once(p, "charge/7", { amount: 8 }, charge), (error) => error instanceof PawlError && error.code === "key_reused");

    // Go and TypeScript know a request by the same hash.
    const begun = await promisify(execFile)(join(bin, "pawl"), ["--server", url, "idempotency", "begin", "charge/7", "--scope", "once", "--request", JSON.stringify(request), "--json"]);
    assert.deepEqual(JSON.parse(begun.stdout).key.response, { id: "ch_1" });

    // What failed runs again, and its error is kept.
    await assert.rejects(once(p, "fails", 1, async () => { throw new Error("no luck"); }), /no luck/);
    const failed = await must(p.GET("/v1/idempotency-keys/{id}", { params: { path: { id: "fails" }, query: { scope: "once" } } }));
    assert.deepEqual([failed.status, failed.response], ["failed", { message: "no luck" }]);
    assert.equal(await once(p, "fails", 1, () => 2), 2);
  });
}
