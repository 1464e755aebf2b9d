// Servers of internal/showcase, and calls of their API.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { test as base } from "@playwright/test";

// start starts a server, and returns its address, the ids of what it shows, and stop.
export async function start(...args) {
  const server = spawn(process.env.PAWL_SHOWCASE, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await Promise.race([
    new Promise(resolve => createInterface(server.stdout).once("line", line => resolve([line]))),
    new Promise((_, fail) => server.once("exit", code => fail(new Error(`the server ended with ${code}`)))),
  ]);
  const ended = new Promise(resolve => server.once("exit", resolve));
  return { ...JSON.parse(line), stop: () => { server.kill("SIGINT"); return ended; } };
}

// test gives all tests of a file one server, and `api` to call it.
export const test = base.extend({
  showcase: [async ({}, use) => {
    const showcase = await start();
    await use(showcase);
    await showcase.stop();
  }, { scope: "worker", timeout: 180_000 }],
  baseURL: async ({ showcase }, use) => use(showcase.url),
  api: async ({ showcase }, use) => use(async (path, body, method = body === undefined ? "GET" : "POST") => {
    const answer = await fetch(showcase.url + path, {
      method, headers: { "Content-Type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text && JSON.parse(text);
  }),
});

// pagesOf are the pages of the dashboard, by name.
export const pagesOf = showcase => ({
  overview: "/ui/",
  tasks: "/ui/tasks",
  task: `/ui/tasks/${showcase.task}`,
  item: `/ui/items/${showcase.item}`,
  message: `/ui/messages/${showcase.message}`,
  messages: "/ui/messages",
  search: "/ui/search?q=pump",
  items: "/ui/items",
  approvals: "/ui/approvals",
  failures: "/ui/failures",
  queues: "/ui/queues",
  queue: "/ui/queues/summarise-report",
  schedules: "/ui/schedules",
  schedule: "/ui/schedules/sync-tickets",
  budgets: "/ui/budgets",
  effects: "/ui/effects",
  effect: `/ui/effects/${showcase.effect}`,
  budget: "/ui/budgets/models?by=model",
  workers: "/ui/workers",
  types: "/ui/types",
  legend: "/ui/legend",
  sweeps: "/ui/sweeps",
  relays: "/ui/relays",
  keys: "/ui/keys",
  confirm: `/ui/tasks/${showcase.approval}/approve`,
  login: "/ui/login",
  problem: "/ui/tasks/tsk_none",
});
