import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: ".",
  outputDir: "../../.work/browser/results",
  workers: 1,
  retries: process.env.CI ? 1 : 0, // a test that passes the second time is listed as flaky
  timeout: 240_000,
  expect: { timeout: 45_000 }, // on a busy machine, hints are rare: a page then reads itself every 30 s
  reporter: [["list"]],
  forbidOnly: true,
  use: {
    timezoneId: "Europe/Berlin",
    locale: "en-GB",
    launchOptions: {
      executablePath: "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-component-update", "--disable-background-networking",
        "--disable-sync"],
    },
  },
});
