// A worker in a process of its own, which tests kill and freeze:
// node stepping-worker.ts URL TYPE FOLDER HOLD_MS GRACE_MS
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pawl, work } from "../src/index.ts";

const [url, type, folder, holdMs, graceMs] = process.argv.slice(2) as [string, string, string, string, string];
const ending = new AbortController();
process.once("SIGTERM", () => ending.abort());

await work(pawl(url), { workerId: `w-${process.pid}`, types: [type], leaseSeconds: 1, graceMs: Number(graceMs), signal: ending.signal, log: false }, async ({ step, lease }) => {
  const first = await step("once", () => {
    appendFileSync(join(folder, "ran"), "x");
    return process.pid;
  });
  writeFileSync(join(folder, `began-${lease.attempt}`), "");
  if (lease.attempt === 1) await pause(Number(holdMs));
  return { first, attempt: lease.attempt };
});
