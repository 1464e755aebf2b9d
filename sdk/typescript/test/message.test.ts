// Messages in steps, and what their readers have.
import assert from "node:assert/strict";
import { test } from "node:test";
import { followMessage, must, pawl, RetryAfter, type Job, type MessageWriter } from "../src/index.ts";
import { databases, Fixture } from "./fixture.ts";
import { create, itemOf, works } from "./works.ts";

const inTime = { timeout: 120_000 };

for (const database of databases) {
  test(`a step of a message is written once (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "story", { reply: {} });
    const ran: string[] = [];
    const handle = async ({ message, lease }: Job) => {
      const m = await message();
      const out: string[] = [];
      for (const name of ["one", "two"]) {
        out.push(await m.namedStep(name, async (m) => {
          ran.push(name);
          await m.text(`${name} `);
          if (name === "two" && lease.attempt === 1) throw new RetryAfter(0, "broken");
          return name.toUpperCase();
        }, name));
      }
      return out;
    };
    const { id } = (await must(p.GET("/v1/messages", { params: { query: { task_id: (await task()).id } } }))).items[0]!;
    const seen: string[] = [];
    const reading = (async () => {
      for await (const content of followMessage(p, id)) seen.push(`${content.status}: ${content.text}`);
    })();
    await works(p, "story", handle, async () => (await task()).state === "completed");
    await reading;
    assert.deepEqual([ran, (await itemOf(p, await task())).result], [["one", "two", "two"], ["ONE", "TWO"]]);
    const { content, step_number } = await must(p.GET("/v1/messages/{id}", { params: { path: { id } } }));
    assert.deepEqual((content as { text: string; status?: string }[]).map((c) => [c.text, c.status]), [["one ", undefined], ["two ", "abandoned"], ["two ", undefined]]);
    assert.equal(step_number, 2);
    assert.equal(seen.at(-1), "complete: one two ");
    assert.ok(seen.includes("streaming: one "), seen.join("\n")); // the second step was abandoned
  });

  test(`a step of a message that would be written twice, or is another one, is refused (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "refused");
    const handle = async ({ message, step }: Job) => {
      const m = await message();
      const broken = async (m: MessageWriter) => {
        await m.text("x");
        throw new Error("broken");
      };
      await assert.rejects(m.namedStep("a", (m) => m.step()), /step is called before the step has ended/);
      await assert.rejects(m.namedStep("b", (m) => m.namedStep("c", broken)), /"b" of the message is running/);
      await assert.rejects(m.namedStep("d", broken), /^Error: broken/);
      await assert.rejects(m.namedStep("d", broken), /words that no step has ended/);
      await m.step();
      assert.equal(await m.namedStep("e", () => 1, { model: "a", n: 1 }), 1);
      await assert.rejects(m.namedStep("e", () => 2, { model: "b", n: 1 }), { name: "Permanent", message: /other arguments \(\/0\/model\); give/ });
      await step("f", () => 1);
      await assert.rejects(m.namedStep("f", () => 1), { name: "Permanent", message: /of type tool_executed/ });
      await m.finish();
      await assert.rejects((await message()).namedStep("e", () => 1, { model: "a", n: 1 }), { name: "Permanent", message: /a step of message msg_/ });
    };
    await works(p, "refused", handle, async () => ["completed", "failed"].includes((await task()).state!));
    const { error } = await itemOf(p, await task());
    assert.deepEqual([(await task()).state, error ?? undefined], ["completed", undefined]);
  });

  test(`last words that are refused fail the attempt (${database})`, inTime, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const ends: [string, (job: Job) => unknown][] = [["returned", () => "done"], ["suspended", ({ sleep }) => sleep("rest", 3600)]];
    for (const [type, end] of ends) {
      const task = await create(p, type, { max_attempts: 1 });
      await works(p, type, async (job: Job) => {
        const m = await job.message({ flushMs: 1000 });
        await m.text("fine");
        await m.write({ type: "song" });
        return end(job);
      }, async () => !["queued", "leased", "in_progress"].includes((await itemOf(p, await task())).state!));
      const { state, error } = await itemOf(p, await task());
      assert.deepEqual([state, (error as { code?: string } | undefined)?.code], ["failed", "invalid"], type);
    }

    // What no text of a message may have is replaced.
    const odd = await create(p, "odd");
    await works(p, "odd", async ({ message }: Job) => (await message()).text("a \0"), async () => (await odd()).state === "completed");
    const { items } = await must(p.GET("/v1/messages", { params: { query: { task_id: (await odd()).id } } }));
    assert.deepEqual((items[0]!.content as { text: string }[]).map((c) => c.text), ["a \ufffd"]);
  });
}
