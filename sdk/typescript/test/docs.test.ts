// What the documents show compiles as it stands.
import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import ts from "typescript";

const given = `
import { DefaultChatTransport, type LanguageModel } from "ai";
declare const model: LanguageModel;
declare function lookUp(place: string): Promise<string>;
declare function pay(order: unknown, key: string): Promise<{ charge: string }>;
declare function deliver(to: string, text: string): Promise<{ deferred: boolean }>;
`;

test("the TypeScript of the documents compiles", async () => {
  const root = join(import.meta.dirname, "..");
  const blocks: string[] = [];
  for (const doc of ["README.md", "../../docs/messages.md", "../../docs/migrating.md", "../../docs/effects.md"]) {
    const text = await readFile(join(root, doc), "utf8");
    blocks.push(...[...text.matchAll(/^```ts\n(.*?)^```$/gms)].map((m) => m[1]!));
  }
  assert.equal(blocks.length, 17);
  const files = blocks.map((_, n) => join(root, `test/snippet-${n}.ts`));
  try {
    const uses = 'import { must, pawl, type Job } from "@pawl-work/sdk";\n';
    await Promise.all(blocks.map((b, n) => writeFile(files[n]!, given + (b.includes("import ") ? "" : uses) + b + "export {};\nvoid [model, lookUp, deliver, pay, DefaultChatTransport];\n")));
    const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile);
    const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
    const program = ts.createProgram(files, { ...options, noUnusedLocals: false, paths: { "@pawl-work/sdk": ["./src/index.ts"], "@pawl-work/sdk/ai": ["./src/ai.ts"], "@pawl-work/sdk/testing": ["./src/testing.ts"], "@pawl-work/sdk/ui": ["./src/ui.ts"] }, pathsBasePath: root });
    const faults = ts.getPreEmitDiagnostics(program).map((d) => ts.flattenDiagnosticMessageText(d.messageText, "\n"));
    assert.deepEqual(faults, []);
  } finally {
    await Promise.all(files.map((f) => rm(f, { force: true })));
  }
});
