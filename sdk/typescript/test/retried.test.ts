// Steps that are tried again within the attempt.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Cancelled, must, pawl, PawlError, Permanent, retried, RetryAfter, Suspended, type Job, type Tries } from "../src/index.ts";
import { delayAfter } from "../src/retried.ts";
import { databases, Fixture, until } from "./fixture.ts";
import { create, ended, itemOf, works } from "./works.ts";

const inTime = { timeout: 120_000 };
const away = new Error("away");
const lost = new PawlError({ type: "about:blank", title: "lost", detail: "lost", status: 409, code: "lease_lost" });

const cases: [string, Tries, number, unknown, [number, number] | undefined][] = [
  // options, failed calls, the error of the last, the delay that follows
  ["by default", {}, 1, away, [0.8, 1.2]],
  ["it doubles", { tries: 9 }, 4, away, [6.4, 9.6]],
  ["the longest", { tries: 100 }, 99, away, [24, 36]],
  ["a long base", { baseSeconds: 60 }, 2, away, [48, 72]],
  ["the last", { tries: 2 }, 2, away, undefined],
  ["permanent", {}, 1, new Permanent("no"), undefined],
  ["suspended", {}, 1, new Suspended({ until: "2030-01-01T00:00:00Z" }), undefined],
  ["cancelled", {}, 1, new Cancelled("gone"), undefined],
  ["the lease is lost", {}, 1, lost, undefined],
  ["a short RetryAfter", {}, 1, new RetryAfter(20, "later"), [20, 20]],
  ["a long RetryAfter", {}, 1, new RetryAfter(31, "later"), undefined],
  ["meant", { when: (e) => e === away }, 1, away, [0.8, 1.2]],
  ["not meant", { when: (e) => e !== away }, 1, away, undefined],
];

test("the delay after a failed call", () => {
  for (const [name, options, failed, error, want] of cases) {
    for (let n = 0; n < 50; n++) {
      const got = delayAfter(retried(() => 1, options), failed, error);
      assert.ok(want === undefined ? got === undefined : got !== undefined && got >= want[0] && got <= want[1], `${name}: ${got}`);
    }
  }
  assert.equal(delayAfter(() => 1, 1, away), undefined);
  for (const options of [{ tries: 0 }, { tries: 101 }, { tries: NaN }, { baseSeconds: -1 }, { maxSeconds: -1 }]) {
    assert.throws(() => retried(() => 1, options), RangeError);
  }
});

for (const database of databases) {
  test(`a step is tried again (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    let calls = 0;
    const download = (url: string) => {
      if (++calls < 3) throw away;
      return { url };
    };
    const task = await create(p, "fetch");
    await works(p, "fetch", async ({ step }: Job) => {
      for (let n = 0; n < 2; n++) await step("fetch", retried(() => download("u"), { baseSeconds: 0.01 }), "u");
      return await step<{ url: string }>("fetch", () => assert.fail("it is saved"), "u");
    }, ended(p, task));
    const item = await itemOf(p, await task());
    assert.deepEqual([calls, item.result, item.failures], [3, { url: "u" }, 0]);

    const failing = await create(p, "failing", { max_attempts: 1 });
    calls = 0;
    await works(p, "failing", async ({ step }: Job) => {
      await step("fetch", retried(() => { throw new Error(`away ${++calls}`); }, { tries: 2, baseSeconds: 0.01 }));
    }, async () => (await failing()).state === "failed");
    const failed = await itemOf(p, await failing());
    assert.deepEqual([(failed.error as { message: string }).message, failed.failures], ["away 2", 1]);
  });

  test(`a try goes on with a reservation (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const path = { id: "llm" };
    await must(p.PUT("/v1/budgets/{id}", { params: { path }, body: { unit: "tokens", limit: 200, period: "none", on_exhausted: "fail", on_lost: "charge" } }));
    const ids: Record<string, string[]> = { before: [], after: [] };
    const task = await create(p, "ask");
    await works(p, "ask", async ({ step, reserve }: Job) => {
      for (const [fails, those] of Object.entries(ids)) {
        const ask = async () => {
          const r = await reserve("llm", 60);
          those.push(r.id);
          const first = those.length === 1;
          if (!first || fails === "after") await r.settle(50);
          if (first) throw away;
        };
        await step(fails, retried(ask, { baseSeconds: 0.01 }));
      }
    }, ended(p, task));
    assert.deepEqual(Object.values(ids).map((those) => [those.length, new Set(those).size]), [[2, 1], [2, 2]]);
    const { spent, reserved } = await must(p.GET("/v1/budgets/{id}", { params: { path } }));
    assert.deepEqual([spent, reserved], [150, 0]);
  });

  test(`a cancelled item ends the tries (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    let calls = 0;
    let raised: unknown;
    const task = await create(p, "fetch");
    const working = works(p, "fetch", async ({ step }: Job) => {
      try {
        await step("fetch", retried(() => { calls++; throw away; }, { baseSeconds: 60 }));
      } catch (error) {
        raised = error;
        throw error;
      }
    }, async () => raised !== undefined, { leaseSeconds: 2 });
    await until(() => calls > 0, "it is tried");
    await must(p.POST("/v1/tasks/{id}:cancel", { params: { path: { id: (await task()).id } }, body: {} }));
    await working;
    assert.deepEqual([calls, raised], [1, away]);
  });

  test(`a step of a message is not tried again (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    let calls = 0;
    const task = await create(p, "tell", { reply: {} });
    await works(p, "tell", async ({ message }: Job) => {
      const writer = await message();
      await writer.namedStep("tell", retried(() => ++calls));
    }, async () => (await task()).state === "failed");
    assert.match(((await itemOf(p, await task())).error as { message: string }).message, /cannot be tried again/);
    assert.equal(calls, 0);
  });
}
