// Writes src/openapi.ts from the server's description: npm run generate.
import openapiTS, { astToString } from "openapi-typescript";
import { writeFile } from "node:fs/promises";

export const head = "// Generated from server/testdata/openapi.json by npm run generate: do not edit.\n";

if (import.meta.main) {
  const types = await openapiTS(new URL("../../server/testdata/openapi.json", import.meta.url));
  await writeFile(new URL("src/openapi.ts", import.meta.url), head + astToString(types));
}
