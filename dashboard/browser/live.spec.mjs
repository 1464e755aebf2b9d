// Open pages change as the work does, and leave alone what the user does with them.
import { expect } from "@playwright/test";
import { test } from "./showcase.mjs";

test("a change is shown within seconds, without a reload", async ({ page, api }) => {
  await page.goto("/ui/tasks?type=live");
  await expect(page.locator("#live")).toContainText("Live");
  await page.evaluate(() => { window.same = true; });
  const { id } = await api("/v1/tasks", { type: "live", title: "Just created" });
  await expect(page.getByRole("link", { name: "Just created" })).toBeVisible();
  await api(`/v1/tasks/${id}:cancel`, {});
  await expect(page.locator("main .state").filter({ hasText: "cancelled" })).toBeVisible();
  expect(await page.evaluate(() => window.same)).toBe(true);
});

test("focus, selection, opened details and filled-in fields stay", async ({ page, api }) => {
  await api("/v1/tasks", { type: "stay", title: "The first" });
  await page.goto("/ui/queues/stay");
  await page.getByText("Change the limits").click();
  await page.getByLabel("leased at once").fill("7");
  await page.locator(".commands summary").click();
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector("h1")));
  await api("/v1/tasks", { type: "stay", title: "The second" });
  await expect(page.getByRole("link", { name: "The second" })).toBeVisible();
  await expect(page.getByLabel("leased at once")).toHaveValue("7");
  await expect(page.locator(".commands")).toHaveAttribute("open", "");
  expect(await page.evaluate(() => getSelection().toString())).toBe("Queue stay");
  await page.getByRole("link", { name: "The first" }).focus();
  await api("/v1/tasks", { type: "stay", title: "The third" });
  await expect(page.getByRole("link", { name: "The third" })).toBeVisible();
  await expect(page.getByRole("link", { name: "The first" })).toBeFocused();
});

test("a page can be paused, and goes on", async ({ page, api }) => {
  await page.goto("/ui/tasks?type=pause");
  await page.locator("#live").click();
  await expect(page.locator("#live")).toHaveText("Paused: resume");
  await api("/v1/tasks", { type: "pause", title: "Not seen yet" });
  await page.waitForTimeout(3_000);
  await expect(page.getByRole("link", { name: "Not seen yet" })).toHaveCount(0);
  await page.locator("#live").click();
  await expect(page.getByRole("link", { name: "Not seen yet" })).toBeVisible();
});

test("times are in the zone that the user chose", async ({ page, showcase }) => {
  await page.goto(`/ui/tasks/${showcase.task}`);
  const time = page.locator("main time[title]").first();
  await expect(time).toHaveAttribute("title", /UTC$/);
  await page.getByRole("button", { name: "your zone" }).click();
  await expect(time).toHaveAttribute("title", /(GMT\+\d|CES?T)$/);
  await page.getByRole("button", { name: "UTC" }).click();
  await expect(time).toHaveAttribute("title", /UTC$/);
});

test("the colours that the user chose stay", async ({ page }) => {
  const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: "light" });
  await page.goto("/ui/");
  const light = await colour();
  await page.getByRole("button", { name: "dark" }).click();
  await page.goto("/ui/queues");
  expect(await colour()).not.toBe(light);
  await page.getByRole("button", { name: "system" }).click();
  expect(await colour()).toBe(light);
});

test("without the stream, a page asks", async ({ page, api }) => {
  await page.route("**/ui/live", route => route.abort());
  await page.goto("/ui/tasks?type=asked");
  await expect(page.locator("#live")).toContainText("Every 5 s");
  await api("/v1/tasks", { type: "asked", title: "Found by asking" });
  await expect(page.getByRole("link", { name: "Found by asking" })).toBeVisible();
});
