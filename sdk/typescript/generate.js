// Writes src/openapi.ts from the server's description: npm run generate. It is JavaScript, so that Node 20 can pack the package.
import openapiTS, { astToString } from "openapi-typescript";
import { realpath, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

export const head = "// Generated from server/testdata/openapi.json by npm run generate: do not edit.\n";

if (process.argv[1] && (await realpath(process.argv[1])) === fileURLToPath(import.meta.url)) {
  const types = await openapiTS(new URL("../../server/testdata/openapi.json", import.meta.url));
  await writeFile(new URL("src/openapi.ts", import.meta.url), head + astToString(types));
}
