// Effects of handlers act once, or it is said that it is not known.
import assert from "node:assert/strict";
import { createServer, type Server } from "node:net";
import { test } from "node:test";
import { fence, must, NotDone, notSent, pawl, type EffectOptions, type Job, type Pawl } from "../src/index.ts";
import { databases, Fixture } from "./fixture.ts";
import { create, ended, itemOf, works } from "./works.ts";

interface Case {
  options?: EffectOptions;
  errors?: Error[]; // of the first sendings
  outcome?: "approve" | "reject" | "happened" | "did_not_happen" | "give_up"; // what a person decides
  end?: "completed" | "failed";
  sent: number;
}

const cut = new Error("the connection was cut");
const probe = (happened: boolean) => () => ({ happened, answer: { charge: 7 } });
const cases: { [name: string]: Case } = {
  "an answer": { sent: 1 },
  "known not to have": { errors: [new NotDone("refused")], sent: 2 },
  "asks, and happened": { errors: [cut], outcome: "happened", sent: 1 },
  "asks, and did not": { errors: [cut], outcome: "did_not_happen", sent: 2 },
  "asks, and is given up": { errors: [cut], outcome: "give_up", end: "failed", sent: 1 },
  "is repeatable": { options: { repeatable: true }, errors: [cut, cut], sent: 3 },
  repeats: { options: { onUnknown: "repeat" }, errors: [cut], sent: 2 },
  fails: { options: { onUnknown: "fail" }, errors: [cut], end: "failed", sent: 1 },
  "is approved": { options: { approve: true }, outcome: "approve", sent: 1 },
  "is rejected": { options: { approve: true }, outcome: "reject", end: "failed", sent: 0 },
  "a probe that says it is": { options: { probe: probe(true) }, errors: [cut], sent: 1 },
  "a probe that says not": { options: { probe: probe(false) }, errors: [cut], sent: 2 },
  "a probe that errs": { options: { probe: () => Promise.reject(cut) }, errors: [cut], outcome: "did_not_happen", sent: 2 },
  "a budget": { options: { budget: "eur", amount: 20 }, errors: [new NotDone("refused")], sent: 2 },
};

/** Decides about the effects of a task that wait for a person. */
async function decide(p: Pawl, task_id: string, outcome: Case["outcome"]): Promise<void> {
  const state = outcome === "approve" || outcome === "reject" ? "waiting" : "unknown";
  const { items } = await must(p.GET("/v1/effects", { params: { query: { task_id, state: [state] } } }));
  for (const { id, outcome: already } of items) {
    const params = { path: { id } };
    if (outcome === "approve") await must(p.POST("/v1/effects/{id}:approve", { params, body: {} }));
    else if (outcome === "reject") await must(p.POST("/v1/effects/{id}:reject", { params, body: {} }));
    else if (!already) await must(p.POST("/v1/effects/{id}:resolve", { params, body: { outcome: outcome!, ...(outcome === "happened" ? { answer: { charge: 7 } } : {}) } }));
  }
}

for (const database of databases) {
  test(`effects act once (${database})`, { timeout: 120_000 }, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    await must(p.PUT("/v1/budgets/{id}", { params: { path: { id: "eur" } }, body: { unit: "eur", limit: 30 } }));
    await Promise.all(
      Object.entries(cases).map(async ([name, { options = {}, errors = [], outcome, end = "completed", sent }], n) => {
        const type = `pays.${n}`;
        await must(p.PUT("/v1/types/{id}", { params: { path: { id: type } }, body: { backoff: { base_seconds: 1, max_seconds: 1 } } }));
        const task = await create(p, type, { max_attempts: 5 });
        const keys: string[] = [];
        const handle = ({ effect }: Job) =>
          effect("charge", { request: { eur: 20 }, ...options }, (key) => {
            keys.push(key);
            const error = errors[keys.length - 1];
            if (error) throw error;
            return { charge: 7 };
          });
        await works(p, type, handle, async () => {
          const now = await task();
          if (outcome && (await itemOf(p, now)).state === "waiting") await decide(p, now.id, outcome);
          return ["completed", "failed"].includes(now.state!);
        }, { workerId: type });
        const item = await itemOf(p, await task());
        assert.deepEqual([(await task()).state, keys], [end, Array<string>(sent).fill(`${item.id}/charge`)], name);
        if (end === "completed") assert.deepEqual(item.result, { charge: 7 }, name);
      }),
    );
    const { spent } = await must(p.GET("/v1/budgets/{id}", { params: { path: { id: "eur" } } }));
    assert.equal(spent, 20);
  });

  test(`a result beside an open effect fails the attempt (${database})`, { timeout: 60_000 }, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    const task = await create(p, "pays", { max_attempts: 1 });
    const { said } = await works(p, "pays", async ({ lease }: Job) => {
      await must(p.POST("/v1/effects:open", { body: { item_id: lease.id, ...fence(lease), name: "charge", request_hash: "h1" } }));
      return 7;
    }, async () => (await task()).state === "failed");
    const { error } = await itemOf(p, await task());
    assert.match((error as { message: string }).message, /of this attempt is open/);
    const { items } = await must(p.GET("/v1/effects", { params: { query: { task_id: (await task()).id } } }));
    assert.deepEqual([items.map((e) => e.state), said], [["unknown"], ["complete conflict"]]);
  });

  test(`a late try of a report of a probe decides nothing (${database})`, { timeout: 60_000 }, async () => {
    await using fixture = await Fixture.open(database);
    let late: Request | undefined;
    const p = pawl((await fixture.serve()).url, {
      fetch: async (request) => {
        if (late || !(request as Request).url.endsWith(":failed")) return fetch(request);
        late = request as Request;
        throw new TypeError("no answer");
      },
    });
    const task = await create(p, "pays", { max_attempts: 1 });
    const states: unknown[] = [];
    await works(p, "pays", async ({ effect }: Job) => {
      const pay = async () => {
        if (!late) throw cut;
        assert.equal((await fetch(late)).status, 200);
        states.push(...(await must(p.GET("/v1/effects", {}))).items.map((e) => e.state));
      };
      await assert.rejects(effect("charge", { probe: probe(false) }, pay), cut);
      await effect("charge", { probe: probe(false) }, pay);
    }, ended(p, task));
    assert.deepEqual(states, ["open"]);
  });

  test(`another task gets the answer of a key (${database})`, { timeout: 60_000 }, async () => {
    await using fixture = await Fixture.open(database);
    const p = pawl((await fixture.serve()).url);
    let sent = 0;
    for (const [payload, end] of [[1, "completed"], [1, "completed"], [2, "failed"]] as const) {
      const task = await create(p, "pays", { payload, max_attempts: 1 });
      const handle = ({ effect, lease }: Job) => effect("charge", { key: "order-1", request: lease.input }, () => ++sent);
      await works(p, "pays", handle, async () => ["completed", "failed"].includes((await task()).state!));
      const item = await itemOf(p, await task());
      assert.deepEqual([(await task()).state, item.result ?? null, sent], [end, end === "completed" ? 1 : null, 1]);
      if (end === "failed") assert.equal((item.error as { code?: string }).code, "key_reused");
    }
  });
}

/** A server that does with each connection what it is told to, and its URL. */
async function listening(server: Server): Promise<string> {
  await new Promise<void>((then) => server.listen(0, "127.0.0.1", then));
  const at = server.address();
  return `http://127.0.0.1:${at && typeof at === "object" ? at.port : 0}/`;
}

test("what was not sent", { timeout: 60_000 }, async () => {
  const post = (url: string) => fetch(url, { method: "POST", body: "{}", redirect: "manual" }).then(() => assert.fail("it answers"), notSent);
  const gone = createServer();
  const nowhere = await listening(gone);
  await new Promise((then) => gone.close(then));
  for (const url of [nowhere, "http://no-such-host.invalid/"]) {
    const error = await post(url);
    assert.ok(error instanceof NotDone && error.cause instanceof TypeError, url);
  }
  const closes = createServer((socket) => socket.once("data", () => socket.destroy()));
  assert.ok(!((await post(await listening(closes))) instanceof NotDone));
  closes.close();
  const refused = Object.assign(new Error("refused"), { syscall: "connect" });
  const reset = Object.assign(new Error("reset"), { syscall: "read" });
  assert.ok(notSent(new AggregateError([refused, refused])) instanceof NotDone);
  for (const error of [new AggregateError([refused, reset]), new AggregateError([]), reset, new Error("other", { cause: refused }), "text"])
    assert.equal(notSent(error), error);
});
