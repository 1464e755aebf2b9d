import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: ".",
  outputDir: "../../.work/browser/results",
  workers: 1,
  timeout: 120_000,
  expect: { timeout: 15_000 },
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
