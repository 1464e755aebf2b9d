// Takes a work order through its life by a client that is not ours:
//   node life.mjs inspector|sdk URL
// It ends with 1 at the first answer that is not as it should be.
import assert from "node:assert/strict";
import * as inspector from "./inspector.mjs";
import * as sdk from "./sdk.mjs";

const [, , name, url] = process.argv;
const client = await { inspector, sdk }[name].connect(url);

// ask calls a tool; its answer is to be one.
async function ask(tool, args) {
  const r = await client.call(tool, args);
  assert.ok(!r.isError, `${tool}: ${r.content?.[0]?.text}`);
  return r.structuredContent;
}

// refused calls a tool whose answer is to be a refusal that names a field and says
// what to do.
async function refused(code, pointer, tool, args) {
  const r = await client.call(tool, args);
  assert.ok(r.isError, `${tool} is not refused: ${r.content?.[0]?.text}`);
  const { problem } = r.structuredContent;
  assert.equal(problem.code, code);
  assert.ok(pointer === "" || problem.errors.some((e) => e.pointer === pointer), `${tool} names ${JSON.stringify(problem.errors)}, not ${pointer}`);
  assert.ok(r.content[0].text.includes(`(${code})`), r.content[0].text);
}

const { task } = await ask("work_propose", { type: "letter", payload: { to: "Ann" }, title: "A letter to Ann" });
assert.equal(task.state, "queued");

const checkout = async (worker, types) => {
  const { items } = await ask("work_checkout", { worker_id: worker, types: [types] });
  assert.equal(items.length, 1);
  return [items[0], { item_id: items[0].id, worker_id: worker, attempt: items[0].attempt }];
};
let [item, lease] = await checkout("ben", "letter");
assert.equal(item.task_id, task.id);
assert.deepEqual(item.input, { to: "Ann" });
const got = await ask("work_get", { task_id: task.id });
assert.deepEqual(got.rules.parts.map((p) => p.key), ["greeting", "body"]);

const part = (key, payload, more = {}) => ({ ...lease, key, payload, ...more });
assert.equal((await ask("work_submit_part", part("body", "How are you?", { seq: 0 }))).part.status, "validated");
await refused("invalid", "/payload", "work_submit_part", part("greeting", "Most honoured and esteemed Ann"));
await refused("invalid", "", "work_finalize", lease);
assert.equal((await ask("work_submit_part", part("greeting", "Dear Ann"))).part.status, "validated");
assert.equal((await ask("work_finalize", lease)).item.state, "submitted");
const waited = (await ask("work_wait", { task_id: task.id, wait_seconds: 10 })).task;
assert.equal(waited.state, "submitted");

await ask("work_reject", { task_id: task.id, version: waited.version, allow_rework: true, errors: [{ code: "short", message: "say more", field: "/body" }] });
[item, lease] = await checkout("eve", "letter");
assert.equal(item.attempt, 2);
assert.match(JSON.stringify((await ask("work_resume", { item_id: item.id })).error), /say more/);
await refused("lease_lost", "", "work_submit", { ...lease, worker_id: "ben", attempt: 1, result: {} });
const result = { greeting: "Dear Ann", body: ["How are you?", "I am well."] };
assert.equal((await ask("work_submit", { ...lease, result })).item.state, "submitted");

await refused("precondition", "", "work_approve", { task_id: task.id, version: waited.version });
const { version } = (await ask("work_get", { task_id: task.id })).task;
const approved = (await ask("work_approve", { task_id: task.id, version, comment: "good" })).task;
assert.equal(approved.state, "approved");
await refused("conflict", "", "work_approve", { task_id: task.id, version: approved.version });
[item, lease] = await checkout("hand", "letter.apply");
await ask("work_complete", { ...lease, result: { diff: { summary: "sent to Ann", before: null, after: result } } });

const end = await ask("work_get", { task_id: task.id });
assert.equal(end.task.state, "completed");
assert.deepEqual(end.result, result);
const { items: record } = await ask("work_logs", { task_id: task.id, event: "applied" });
assert.equal(record.length, 1);
assert.equal(record[0].diff.summary, "sent to Ann");
await client.close();
console.log(`${client.name}: a letter from its proposal to its effect, refused, reworked, approved and applied`);
