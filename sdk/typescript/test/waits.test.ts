// Children and budgets of a worker's function.
import assert from "node:assert/strict";
import { test } from "node:test";
import { must, pawl, RetryAfter, Suspended, work, type ChildResult, type Job, type Pawl, type Schemas } from "../src/index.ts";
import { databases, Fixture, until } from "./fixture.ts";

const inTime = { timeout: 120_000 };

/** Workers of types until `done` holds. */
async function works(p: Pawl, handlers: Record<string, (job: Job) => Promise<unknown>>, done: () => Promise<boolean>): Promise<void> {
  const over = new AbortController();
  const all = Object.entries(handlers).map(([type, handle]) =>
    work(p, { workerId: `worker-${type}`, types: [type], leaseSeconds: 60, graceMs: 0, signal: over.signal, log: false }, handle));
  try {
    await Promise.race([until(done, "the work is done"), ...all]);
  } finally {
    over.abort();
    await Promise.allSettled(all);
  }
}

async function create(p: Pawl, type: string, more: Partial<Schemas["NewTask"]> = {}) {
  const { id } = await must(p.POST("/v1/tasks", { body: { type, payload: {}, ...more } }));
  const params = { path: { id } };
  return {
    state: async () => (await must(p.GET("/v1/tasks/{id}", { params }))).state,
    item: async () => (await must(p.GET("/v1/tasks/{id}/items", { params }))).items[0]!,
  };
}

for (const database of databases) {
  test(`children may have more results than a checkpoint holds (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "collect");
    const sizes = Array.from({ length: 18 }, (_, n) => 61_000 + n);
    const seen: number[][] = [];
    await works(p, {
      collect: async ({ spawn, awaitChildren }) => {
        const ids: string[] = [];
        for (const n of sizes) ids.push((await spawn(`piece ${n}`, { type: "piece", payload: { n } })).id);
        seen.push((await awaitChildren("pieces", { ids })).map((c) => (c.result as string).length));
        if (seen.length === 1) throw new RetryAfter(0, "once more");
      },
      piece: async ({ lease }) => "x".repeat((lease.input as { n: number }).n),
    }, async () => (await task.state()) === "completed");
    assert.deepEqual(seen, [sizes, sizes]);
  });

  test(`a function spawns children and waits for them (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "book");
    const attempts: number[] = [];
    const waited: ChildResult[][] = [];
    await works(p, {
      book: async ({ lease, spawn, awaitChildren }) => {
        attempts.push(lease.attempt);
        const ids: string[] = [];
        for (const n of [1, 2, 3]) ids.push((await spawn(`chapter ${n}`, { type: "chapter", payload: { n } })).id);
        const done = await awaitChildren("chapters", { ids, on_failure: "continue" });
        waited.push(done);
        if (lease.attempt === 2) throw new RetryAfter(0, "after the wait"); // the third attempt gets what was saved
        return done.map((c) => c.result ?? c.state);
      },
      chapter: async ({ lease }) => {
        const { n } = lease.input as { n: number };
        return { n };
      },
    }, async () => (await task.state()) === "completed");
    assert.deepEqual(attempts, [1, 2, 3]);
    assert.deepEqual((await task.item()).result, [{ n: 1 }, { n: 2 }, { n: 3 }]);
    assert.deepEqual(waited[1], waited[0]);
    assert.equal((await task.item()).failures, 1);
  });

  test(`a wait for any child, and what cannot be caught (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "race");
    let suspensions = 0;
    await works(p, {
      race: async ({ spawn, awaitChildren }) => {
        const quick = await spawn("quick", { type: "quick", payload: {} });
        const never = await spawn("never", { type: "never", payload: {} });
        try {
          return (await awaitChildren("first", { ids: [never.id, quick.id], need: "any" })).map((c) => c.state ?? "open");
        } catch (error) {
          if (error instanceof Suspended) suspensions++;
          throw error;
        }
      },
      quick: async () => "done",
    }, async () => (await task.state()) === "completed");
    assert.deepEqual([(await task.item()).result, suspensions], [["open", "completed"], 1]);
  });

  test(`a suspension that is refused fails the attempt (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const cases: [string, string, (job: Job) => Promise<unknown>][] = [
      ["gone", "not_found", ({ awaitChildren }) => awaitChildren("children", { ids: ["tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"] })],
      ["long", "invalid", ({ waitFor }) => waitFor("answer", "asked", { key: "x".repeat(10_000) })],
    ];
    for (const [type, code, wait] of cases) {
      const task = await create(p, type, { max_attempts: 1 });
      await works(p, { [type]: wait }, async () => (await task.state()) === "failed");
      assert.equal(((await task.item()).error as { code: string }).code, code, type);
    }
  });

  test(`a function reserves of a budget and settles (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const budget = async (id: string, on_exhausted: "fail" | "suspend", limit = 100) =>
      must(p.PUT("/v1/budgets/{id}", { params: { path: { id } }, body: { unit: "tokens", limit, period: "none", on_exhausted, on_lost: "charge" } }));
    const spent = async (id: string) => (await must(p.GET("/v1/budgets/{id}", { params: { path: { id } } }))).spent;
    await budget("llm", "fail");
    const task = await create(p, "paid");
    const ids: string[] = [];
    await works(p, {
      paid: async ({ lease, reserve, step }) => {
        const unsettled = await step("first", () => reserve("llm", 10).then((r) => r.id)); // saved: not reserved again
        const r = await reserve("llm", 50);
        ids.push(r.id);
        if (lease.attempt === 1) throw new RetryAfter(0, "before it settles");
        await r.settle(30);
        await r.settle(30);
        return { unsettled, amount: r.amount };
      },
    }, async () => (await task.state()) === "completed");
    assert.equal(ids.length, 2);
    assert.equal(ids[0], ids[1]); // the second attempt goes on with the reservation
    assert.ok((await spent("llm")) >= 30);

    const poor = await create(p, "poor");
    await works(p, { poor: async ({ reserve }) => reserve("llm", 1000) }, async () => (await poor.state()) === "failed");
    const { error, attempt } = await poor.item();
    assert.deepEqual([(error as { code: string }).code, attempt], ["budget_exhausted", 1]);

    await budget("small", "suspend", 5);
    const patient = await create(p, "patient");
    let raised = false;
    await works(p, {
      patient: async ({ reserve }) => {
        await (await reserve("small", 20, "call")).settle(20);
        return "paid";
      },
    }, async () => {
      if (!raised && (await patient.item()).state === "waiting") {
        await budget("small", "suspend", 50);
        raised = true;
      }
      return (await patient.state()) === "completed";
    });
    assert.deepEqual([raised, await spent("small")], [true, 20]);
  });
}
