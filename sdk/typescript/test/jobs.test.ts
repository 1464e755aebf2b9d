// What a handler can do beside returning: wait, report, save, hand in pieces, write messages.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { must, pawl, RetryAfter, SignalTimeout, Stopped, Suspended, type Job, type Schemas } from "../src/index.ts";
import { databases, Fixture, until } from "./fixture.ts";
import { create, ended, itemOf, works } from "./works.ts";

const inTime = { timeout: 120_000 };

for (const database of databases) {
  test(`a sleep is without a lease, and once (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "sleeper");
    const attempts: number[] = [];
    await works(p, "sleeper", async ({ sleep, lease }: Job) => {
      attempts.push(lease.attempt);
      await sleep("nap", 1);
      await sleep("none", 0);
      return lease.attempt;
    }, ended(p, task));
    assert.deepEqual([attempts, (await itemOf(p, await task())).result, (await itemOf(p, await task())).failures], [[1, 2], 2, 0]);

    const taken = await create(p, "taken");
    await works(p, "taken", async ({ sleep, step, waitFor }: Job) => {
      await step("nap", () => 1);
      await assert.rejects(sleep("nap", 1), { name: "Permanent", message: /its name is taken/ });
      await assert.rejects(waitFor("nap", "paid"), { name: "Permanent", message: /its name is taken/ });
      await assert.rejects(sleep("long", Infinity), RangeError);
    }, ended(p, taken));
  });

  test(`a signal wakes its wait, and its payload stays (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const send = (key: string, payload: unknown) => must(p.POST("/v1/signals", { body: { name: "paid", key, payload } }));
    const task = await create(p, "order");
    await send("early", 1); // before anybody waits
    const suspended: boolean[] = [];
    const handle = async ({ waitFor, lease }: Job) => {
      try {
        const early = await waitFor<number>("first", "paid", { key: "early" });
        const late = await waitFor<{ sum: number }>("second", "paid", { key: "late", timeoutSeconds: 3600 });
        if (lease.attempt < 4) throw new RetryAfter(0, "once more");
        return { early, sum: late.sum };
      } catch (error) {
        suspended.push(error instanceof Suspended);
        throw error;
      }
    };
    let sent = false;
    await works(p, "order", handle, async () => {
      const item = await itemOf(p, await task());
      if (!sent && item.state === "waiting" && suspended.length === 2) sent = (await send("late", { sum: 7 })) !== undefined;
      return ended(p, task)();
    });
    assert.deepEqual([(await itemOf(p, await task())).result, suspended], [{ early: 1, sum: 7 }, [true, true, false]]);

    const never = await create(p, "never");
    await works(p, "never", async ({ waitFor }: Job) => {
      for (const _ of [1, 2]) {
        const error: unknown = await waitFor("w", "paid", { key: "never", timeoutSeconds: 0.5 }).catch((e: unknown) => e);
        if (!(error instanceof SignalTimeout)) throw error;
      }
      return "in vain";
    }, ended(p, never));
    assert.equal((await itemOf(p, await never())).result, "in vain");
  });

  test(`progress, checkpoints and parts (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const parts = [{ key: "chapter", repeatable: true }];
    await must(p.PUT("/v1/types/{id}", { params: { path: { id: "report" } }, body: { acceptance: true, approval: { mode: "none" }, parts } }));
    const task = await create(p, "report");
    await works(p, "report", async ({ progress, checkpoint, part, lease }: Job) => {
      await progress(40, "half way");
      await progress(undefined, "further");
      const item = await itemOf(p, await task());
      const { sequence } = await checkpoint("page", { n: 1 }, { metadata: { of: "book" } });
      const handed = await part("chapter", { text: "one" }, { seq: 1, notes: "a draft" });
      return { sequence, key: handed.key, attempt: lease.attempt, progress: item.progress, stage: item.stage };
    }, ended(p, task));
    const result = (await itemOf(p, await task())).result as { key: string; progress: number; stage: string };
    assert.deepEqual([result.progress, result.stage, result.key], [40, "further", "chapter"]);
    const { items } = await must(p.GET("/v1/tasks/{id}/checkpoints", { params: { path: { id: (await task()).id } } }));
    const page = items.find((c: Schemas["Checkpoint"]) => c.name === "page")!;
    assert.deepEqual([page.type, page.snapshot, page.metadata], ["custom", { n: 1 }, { of: "book" }]);
  });

  test(`a message goes on behind its last step (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "writer", { thread: `t-${database}` });
    const handle = async ({ message, lease }: Job) => {
      const m = await message({ model: "m-1", maxSteps: 3 });
      if (m.stepNumber < 1) {
        await m.text("One. ");
        await m.toolCall("c1", "look", { at: 1 });
        await m.toolResult("c1", "look", "seen");
        await m.step({ at: 1 });
      }
      if (lease.attempt === 1) {
        await m.text("cut off");
        throw new RetryAfter(0, "once more");
      }
      await m.text("Two.");
      await m.finish({ output_tokens: 2 });
      await m.text("ignored");
      const second = await message();
      await second.text("A second message."); // finished with its item
      return [m.stepNumber, m.ended, second.ended];
    };
    await works(p, "writer", handle, ended(p, task));
    assert.deepEqual((await itemOf(p, await task())).result, [1, true, false]);
    const { items } = await must(p.GET("/v1/messages", { params: { query: { thread: `t-${database}` } } }));
    assert.deepEqual(items.map((m) => [m.status, m.model ?? "", m.usage ?? null]), [["complete", "m-1", { output_tokens: 2 }], ["complete", "", null]]);
    assert.ok(JSON.stringify(items[0]!.content).includes("Two."), JSON.stringify(items[0]!.content));

    const stopped = await create(p, "stopped");
    let thrown: unknown;
    await works(p, "stopped", async ({ message }: Job) => {
      const m = await message();
      await m.text("Too");
      await must(p.POST("/v1/messages/{id}:stop", { params: { path: { id: m.id } } }));
      try {
        for (;;) {
          await m.text(" much");
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      } catch (error) {
        thrown = error;
        throw error;
      }
    }, ended(p, stopped));
    assert.ok(thrown instanceof Stopped, String(thrown));
    assert.equal((await stopped()).state, "completed");
  });

  test(`what JSON would change is refused (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const values: [unknown, RegExp][] = [[2 ** 53, /beyond 2\^53/], [[1, { n: -(2 ** 60) }], /beyond 2\^53/], [NaN, /no number/], [10n, /BigInt/], [() => 1, /no value/]];
    for (const [value, says] of values) {
      const task = await create(p, "bad");
      await works(p, "bad", async () => value, async () => (await task()).state === "failed");
      const { error, attempt } = await itemOf(p, await task());
      assert.ok(typeof error === "object" && error.code === "invalid_result" && says.test(error.message) && attempt === 1, JSON.stringify(error));
    }
    const task = await create(p, "good");
    await works(p, "good", async ({ step, checkpoint, lease }: Job) => {
      await assert.rejects(step("s", () => 2 ** 53), /beyond 2\^53/);
      await assert.rejects(checkpoint("c", { n: Infinity }), /no number/);
      return { most: 2 ** 53 - 1, float: 1e300, none: undefined, attempt: lease.attempt };
    }, ended(p, task));
    assert.deepEqual((await itemOf(p, await task())).result, { most: 9007199254740991, float: 1e300, attempt: 1 });
  });

  test(`a busy handler does not starve its heartbeats (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "busy");
    await works(p, "busy", async ({ lease }: Job) => {
      for (const end = performance.now() + 4000; performance.now() < end; ); // the event loop does not run
      await pause(100); // the lease had time to end, but for what was answered meanwhile
      return lease.attempt;
    }, ended(p, task), { leaseSeconds: 3 });
    assert.equal((await itemOf(p, await task())).result, 1);
  });

  test(`what a handler does after its lease was lost counts for nothing (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    for (const by of ["revoked", "cancelled"]) {
      const task = await create(p, by);
      let went = false;
      const { log, said } = await works(p, by, async ({ lease, abortSignal, checkpoint }: Job) => {
        if (lease.attempt > 1) return "the second";
        if (by === "revoked") await must(p.POST("/v1/items/{id}:revoke_lease", { params: { path: { id: lease.id } }, body: {} }));
        else await must(p.POST("/v1/tasks/{id}:cancel", { params: { path: { id: lease.task_id } } }));
        await until(() => abortSignal.aborted, "the handler is told");
        await assert.rejects(checkpoint("late", 1));
        went = true;
        return "too late"; // it swallows the end
      }, async () => went && ["completed", "cancelled"].includes((await task()).state!), { leaseSeconds: 2 });
      assert.ok(log.some((line) => line.startsWith("warn pawl: an item was lost")), log.join("\n"));
      assert.ok(!said.some((s) => s.startsWith("complete")), said.join());
      assert.equal((await itemOf(p, await task())).result ?? null, by === "revoked" ? "the second" : null);
    }
  });
}
