// All pages: accessible, in both colours; nothing is wider than a narrow screen; small.
import AxeBuilder from "@axe-core/playwright";
import { expect } from "@playwright/test";
import { pagesOf, start, test } from "./showcase.mjs";

async function faults(page, ...rules) {
  const axe = new AxeBuilder({ page }).setLegacyMode(); // no page has frames
  if (rules.length) axe.withRules(rules);
  else axe.withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]);
  const { violations } = await axe.analyze();
  return violations.filter(v => ["serious", "critical"].includes(v.impact) || v.id === "heading-order")
    .map(v => `${v.id}: ${v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join("\n    ")}`);
}

for (const name of Object.keys(pagesOf({}))) {
  test(`axe finds nothing serious: ${name}`, async ({ page, showcase }) => {
    await page.emulateMedia({ colorScheme: "light" });
    await page.goto(pagesOf(showcase)[name]);
    expect.soft(await faults(page), "light").toEqual([]);
    await page.emulateMedia({ colorScheme: "dark" });
    expect.soft(await faults(page, "color-contrast"), "dark").toEqual([]);
  });
}

test("empty pages are accessible and name a command", async ({ page }) => {
  const empty = await start("-empty");
  for (const path of ["/ui/", "/ui/queues", "/ui/schedules", "/ui/budgets", "/ui/effects", "/ui/workers", "/ui/types", "/ui/relays", "/ui/keys"]) {
    await page.goto(empty.url + path);
    expect.soft(await faults(page), path).toEqual([]);
    await expect.soft(page.locator("#main .empty code").first(), path).toContainText("pawl ");
  }
  await empty.stop();
});

test("nothing is wider than 380 pixels", async ({ browser, showcase }) => {
  const context = await browser.newContext({ viewport: { width: 380, height: 800 }, baseURL: showcase.url });
  const page = await context.newPage();
  for (const [name, path] of Object.entries(pagesOf(showcase))) {
    await page.goto(path);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    expect.soft(width, name).toBeLessThanOrEqual(380);
  }
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("link", { name: "Budgets" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Budgets");
  await context.close();
});

test("cards and forms of a narrow screen show what they have", async ({ browser, showcase }) => {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, baseURL: showcase.url });
  const page = await context.newPage();
  await page.goto("/ui/");
  const beyond = await page.locator(".tiles a:visible").evaluateAll(tiles => tiles
    .filter(t => t.querySelector(".state").getBoundingClientRect().right > t.getBoundingClientRect().right).map(t => t.textContent));
  expect.soft(beyond, "states wider than their tiles").toEqual([]);
  await page.goto("/ui/queues/summarise-report");
  const height = await page.getByText("8 leased at once").evaluate(line => line.getBoundingClientRect().height);
  expect.soft(height, "a limit has one line").toBeLessThan(30);
  await page.goto("/ui/messages");
  expect.soft(await page.getByLabel("stalled only").evaluate(box => box.getBoundingClientRect().width), "a box to tick").toBeLessThan(30);
  await page.goto("/ui/queues");
  await expect.soft(page.locator("#queue-edit-page [data-label=queued]"), "nothing is queued").toBeHidden();
  await context.close();
});

test("the first page needs at most 80 KB", async ({ page, showcase }) => {
  let bytes = 0;
  const seen = new Set(); // a page that follows the feed is read again, which is not its first load
  page.on("requestfinished", async request => {
    if (seen.has(request.url())) return;
    seen.add(request.url());
    const s = await request.sizes();
    bytes += s.responseBodySize + s.responseHeadersSize;
  });
  await page.goto("/ui/");
  await page.waitForTimeout(1_000);
  expect(bytes).toBeGreaterThan(5_000);
  expect(bytes).toBeLessThanOrEqual(80_000);
});

test("nothing breaks the content security policy, and no script fails", async ({ page, showcase }) => {
  const said = [];
  page.on("console", message => { if (message.type() === "error") said.push(message.text()); });
  page.on("pageerror", error => said.push(String(error)));
  for (const [name, path] of Object.entries(pagesOf(showcase))) if (name !== "problem") await page.goto(path);
  expect(said).toEqual([]);
});
