import openapiTS, { astToString } from "openapi-typescript";
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { head } from "../generate.js";

test("the types are those of the server's description", async () => {
  const want = head + astToString(await openapiTS(new URL("../../../server/testdata/openapi.json", import.meta.url)));
  assert.ok(want === (await readFile(new URL("../src/openapi.ts", import.meta.url), "utf8")), "src/openapi.ts is of another description: npm run generate");
});
