import { defineConfig } from "vitest/config";

export default defineConfig({ test: { globals: true, testTimeout: 60_000, hookTimeout: 60_000, include: ["test/*.test.ts"] } }); // the validation suite wants the globals
