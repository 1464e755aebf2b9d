// What people come to the dashboard for, from the first page to the effect.
import { expect } from "@playwright/test";
import { test } from "./showcase.mjs";

// stays says that the page is not loaded again until the function that it returns is called.
async function stays(page) {
  await page.evaluate(() => { window.same = true; });
  return async () => expect(await page.evaluate(() => window.same)).toBe(true);
}

// claim claims the one item that a worker gets.
async function claim(api, call) {
  const { items } = await api("/v1/claims", call);
  expect(items).toHaveLength(1);
  const { id, worker_id, attempt } = items[0];
  return { ...items[0], fence: { worker_id, attempt }, path: `/v1/items/${id}` };
}

test("find what is stuck, and why", async ({ page, context, api, showcase }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: showcase.url });
  await page.goto("/ui/");
  const first = page.locator("main h2").first();
  await expect(first).toContainText("of work do not go on");
  const work = page.locator("#stuck li").filter({ hasText: "translate-page" });
  await expect(work).toContainText("60 queued, and no live worker takes them");
  await expect(page.locator("#stuck li").first()).toContainText("no live worker");
  const command = await work.locator("pre").textContent();
  await work.getByRole("button", { name: "Copy" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(command);
  await work.getByRole("link", { name: "The oldest item" }).click();
  await expect(page.locator(".why")).toContainText("no_worker");
  await expect(page.locator(".why pre")).toHaveText(command);

  const id = page.url().split("/").at(-1);
  expect(await api(`/v1/items/${id}/why`)).toMatchObject({ item_id: id, status: "pending", reason: "no_worker", command });
  const item = await claim(api, { worker_id: "w-translate", item_id: id });
  await expect(page.locator("h1 .state")).toHaveText("leased");
  await expect(page.locator(".why")).toContainText("w-translate");
  await api(`${item.path}:complete`, { ...item.fence, result: {} });
  await expect(page.locator("h1 .state")).toHaveText("completed");
});

// chosen opens a task of the inbox, and returns its id.
async function chosen(page, title) {
  await page.goto("/ui/approvals");
  const link = page.getByRole("link", { name: title }).first();
  const id = new URL(await link.getAttribute("href"), page.url()).searchParams.get("task");
  await link.click();
  await expect(page.locator("#chosen")).toContainText(title);
  return id;
}

test("approve with a diff", async ({ page, api }) => {
  const id = await chosen(page, "Correct the opening hours");
  const diff = page.locator(".diff");
  await expect(diff.locator(".changes")).toContainText("/text changed");
  await expect(diff.getByRole("row").filter({ hasText: "/text" })).toContainText("replace");
  await expect(diff).toContainText("We are open from 9 to 5.");
  await expect(diff).toContainText("We are open from 8 to 6.");
  await expect(page.getByText("intranet.example/hours")).toBeVisible();
  await page.getByRole("link", { name: "approve…" }).click();
  await expect(page.locator(".diff")).toContainText("We are open from 8 to 6.");
  await page.getByLabel("Comment").fill("As on the shop's own page");
  await page.getByRole("button", { name: "approve" }).click();
  await expect(page).toHaveURL(/\/ui\/approvals$/);
  await expect(page.getByRole("link", { name: "Correct the opening hours" })).toHaveCount(0);

  expect((await api(`/v1/tasks/${id}`)).state).toBe("approved");
  const { items } = await api(`/v1/tasks/${id}/events`);
  expect(items.filter(e => e.event === "approved").map(e => e.message)).toContain("As on the shop's own page");
});

test("reject, to be worked on again", async ({ page, api }) => {
  const id = await chosen(page, "Shorten the introduction");
  await page.getByRole("link", { name: "reject…" }).click();
  await page.getByLabel("Reasons, one a line").fill("The hours are those of last year\nThe tone is too dry");
  await expect(page.getByLabel("send it back")).toBeChecked();
  await page.getByRole("button", { name: "reject" }).click();
  await expect(page).toHaveURL(/\/ui\/approvals$/);
  await expect(page.getByRole("link", { name: "Shorten the introduction" })).toHaveCount(0);

  const item = await claim(api, { worker_id: "w-again", task_id: id });
  expect(item.reasons.map(r => r.message)).toEqual(["The hours are those of last year", "The tone is too dry"]);
  expect((await api(item.path)).rework).toBe(1);
});

test("retry all failures of a group", async ({ page, api }) => {
  await page.goto("/ui/failures");
  const group = page.getByRole("row").filter({ hasText: "no answer from" });
  const count = Number(await group.getByRole("cell").first().textContent());
  expect(count).toBe(9);
  await group.getByRole("link", { name: `retry ${count}…` }).click();
  await page.getByLabel("Reason").fill("The service answers again");
  await page.getByRole("button", { name: `retry ${count}` }).click();
  await expect(page.locator("h1 .state")).toHaveText("completed");
  await expect(page.locator("main")).toContainText(`${count} changed`);

  const { items } = await api("/v1/items?type=render-invoice&state=queued&limit=100");
  expect(items).toHaveLength(count);
  const { items: left } = await api("/v1/failures?type=render-invoice");
  expect(left.map(f => f.code)).toEqual(["bad_input"]);
  await page.goto("/ui/failures?type=render-invoice");
  await expect(page.locator("main tbody tr")).toHaveCount(1);
});

test("pause a queue, and resume it", async ({ page, api }) => {
  const { id } = await api("/v1/tasks", { type: "walk-queue", title: "Waits for its queue" });
  await page.goto("/ui/queues");
  await page.getByRole("link", { name: "walk-queue" }).click();
  await page.getByRole("button", { name: "pause", exact: true }).click();
  await expect(page.locator("h1")).toContainText("paused");
  expect(await api("/v1/queues/walk-queue")).toMatchObject({ paused: true, queued: 1 });
  expect((await api("/v1/claims", { worker_id: "w-queue", types: ["walk-queue"] })).items).toEqual([]);
  await page.getByRole("link", { name: "Waits for its queue" }).click();
  await expect(page.locator(".why")).toContainText("queue walk-queue is paused");

  await page.goto("/ui/queues/walk-queue");
  await page.getByRole("button", { name: "resume", exact: true }).click();
  await expect(page.locator("h1")).not.toContainText("paused");
  expect((await api("/v1/queues/walk-queue")).paused).toBe(false);
  expect((await claim(api, { worker_id: "w-queue", types: ["walk-queue"] })).task_id).toBe(id);
});

test("watch work go on", async ({ page, api }) => {
  await page.goto("/ui/tasks?type=walk-demo");
  const stayed = await stays(page);
  const row = n => page.locator("main tbody tr").filter({ hasText: `Parcel ${n} of 3` });
  for (let n = 1; n <= 3; n++) await api("/v1/tasks", { type: "walk-demo", title: `Parcel ${n} of 3`, max_attempts: 1 });
  for (let n = 1; n <= 3; n++) await expect(row(n)).toContainText("queued");
  const first = await claim(api, { worker_id: "w-demo", types: ["walk-demo"] });
  await expect(row(1)).toContainText("checked_out");
  await api(`${first.path}:complete`, { ...first.fence, result: {} });
  await expect(row(1)).toContainText("completed");
  const second = await claim(api, { worker_id: "w-demo", types: ["walk-demo"] });
  await api(`${second.path}:fail`, { ...second.fence, error: { code: "lost", message: "nobody was at home" } });
  await expect(row(2)).toContainText("failed");
  await expect(row(2)).toContainText("nobody was at home");
  await stayed();

  const { items } = await api("/v1/tasks?type=walk-demo");
  expect(items.map(t => t.state).sort()).toEqual(["completed", "failed", "queued"]);
});

test("follow a message through the death of its worker", async ({ page, api }) => {
  const { id: task } = await api("/v1/tasks", { type: "walk-talk", title: "A question", thread: "walk", reply: { model: "m" } });
  const dying = await claim(api, { worker_id: "w-dying", types: ["walk-talk"], lease_seconds: 8 });
  const message = `/v1/messages/${dying.open_message.id}`;
  const append = (by, offset, text) => api(`${message}:append`, { ...by.fence, offset, chunks: [{ type: "text", text }] });
  await append(dying, 0, "The river ");
  await page.goto(message.replace("/v1", "/ui"));
  const stayed = await stays(page);
  const words = page.locator("#words");
  await expect(words).toContainText("The river");
  await append(dying, 1, "rises in ");
  await expect(words).toContainText("The river rises in"); // no sign of life follows

  const next = await claim(api, { worker_id: "w-next", types: ["walk-talk"], wait_seconds: 60 });
  expect(next).toMatchObject({ id: dying.id, attempt: 2, open_message: { id: dying.open_message.id, offset: 2 } });
  await append(next, 2, "It begins in the hills ");
  await expect(words.locator(".cut")).toContainText("broke off here");
  await expect(words.locator(".abandoned")).toContainText("The river rises in");
  await append(next, 3, "and ends at the sea.");
  await expect(words.locator(".said").last()).toContainText("It begins in the hills and ends at the sea.");
  await expect(page.locator(".facts")).toContainText("attempt 2 by w-next");
  await api(`${next.path}:complete`, next.fence);
  await expect(page.locator("h1 .state")).toHaveText("complete");
  await expect(words.locator(".said").last()).toContainText("It begins in the hills and ends at the sea.");
  await stayed();

  const { status, content } = await api(message);
  expect(status).toBe("complete");
  expect(content.map(p => [p.text, p.status === "abandoned"])).toEqual([
    ["The river rises in ", true], ["It begins in the hills and ends at the sea.", false]]);
  expect((await api(`/v1/tasks/${task}`)).state).toBe("completed");
});

test("the preview follows the keys, and / goes to the search", async ({ page, api }) => {
  for (const n of [1, 2]) {
    const { id } = await api("/v1/tasks", { type: "edit-page", title: `Of the keys ${n}`, payload: {} });
    const item = await claim(api, { worker_id: "w-keys", task_id: id });
    await api(`${item.path}:submit`, { ...item.fence, result: { before: { a: n }, after: { a: n + 10 } }, evidence: {} });
  }
  await page.goto("/ui/approvals");
  const same = await stays(page);
  const titles = await page.locator("[data-keys] li a").allTextContents();
  const at = titles.indexOf("Of the keys 2");
  await page.locator("[data-keys] li a").nth(at - 1).focus();
  await page.keyboard.press("j");
  await expect(page.locator("#chosen")).toContainText("Of the keys 2");
  await expect(page.locator("#shown")).toContainText("/a");
  await expect(page.locator("#shown")).toContainText("12");
  expect(page.url()).toContain("task=tsk_");
  await page.keyboard.press("k");
  await expect(page.locator("#chosen")).toContainText("Of the keys 1");
  await same();

  await page.keyboard.press("/");
  await expect(page.locator("[data-find]")).toBeFocused();
  await page.keyboard.type("heat pumps in old");
  await page.keyboard.press("Enter");
  await expect(page.locator("main")).toContainText("Research: heat pumps in old buildings");
});
