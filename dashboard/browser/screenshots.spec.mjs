// The pictures of docs/img: every page light, dark and on a narrow screen.
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect } from "@playwright/test";
import { pagesOf, test } from "./showcase.mjs";

const folder = process.env.PAWL_SCREENSHOTS;
test.skip(!folder, "only `make screenshots` draws pictures");

const looks = {
  light: { colorScheme: "light", viewport: { width: 1280, height: 800 } },
  dark: { colorScheme: "dark", viewport: { width: 1280, height: 800 } },
  380: { colorScheme: "light", viewport: { width: 380, height: 800 } },
};
const names = ["overview", "queues", "tasks", "task", "items", "item", "message", "approvals", "failures", "schedules", "budgets",
  "workers", "types"];

for (const [look, options] of Object.entries(looks)) {
  test(look, async ({ browser, showcase }) => {
    mkdirSync(folder, { recursive: true });
    test.setTimeout(600_000);
    const context = await browser.newContext({ ...options, baseURL: showcase.url, deviceScaleFactor: 1, reducedMotion: "reduce" });
    const page = await context.newPage();
    for (const [name, path] of Object.entries(pagesOf(showcase))) {
      if (process.env.PAWL_ALL_PAGES !== "1" && !names.includes(name)) continue;
      await page.goto(path);
      await page.locator("#live, h1").first().waitFor();
      const file = join(folder, `${name}-${look}.png`);
      const height = Math.min(1000, await page.evaluate(() => document.documentElement.scrollHeight));
      await page.setViewportSize({ ...options.viewport, height });
      await page.screenshot({ path: file, animations: "disabled", caret: "hide" });
      await page.setViewportSize(options.viewport);
      expect(statSync(file).size, file).toBeLessThan(300_000);
    }
    await context.close();
  });
}
