// What would be published holds what its package.json promises, and works where it says.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { build } from "esbuild";
import { must, pawl } from "../src/index.ts";
import { Fixture } from "./fixture.ts";
import { create } from "./works.ts";

const root = join(import.meta.dirname, "..");
const run = (cwd: string, command: string, ...args: string[]) => execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
const npm = (...args: string[]) => run(root, "npm", ...args);

type Pack = { name: string; filename: string; files: { path: string }[] };

test("the package can be published", async () => {
  npm("run", "--silent", "build");
  const [pack] = JSON.parse(npm("pack", "--dry-run", "--json", "--ignore-scripts")) as [Pack];
  const files = pack.files.map((f) => f.path);
  const about = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  assert.equal(pack.name, "@pawl-work/sdk");
  assert.equal(about.private, undefined);
  for (const member of ["license", "repository", "homepage", "publishConfig"]) assert.ok(about[member], member);
  assert.deepEqual([Object.keys(about.dependencies), about.optionalDependencies], [["openapi-fetch"], undefined]);
  for (const peer of Object.keys(about.peerDependencies)) assert.ok(about.peerDependenciesMeta[peer].optional, peer);
  const entries = Object.values(about.exports as Record<string, { types: string; default: string }>).flatMap((e) => [e.types, e.default]);
  for (const path of [...entries, "dist/beat.js", "package.json", "README.md"]) assert.ok(files.includes(path.replace("./", "")), path);
  assert.deepEqual(files.filter((f) => !/^(dist\/|package\.json$|README\.md$)/.test(f)), []);
});

test("programs that use require get every entry", () => {
  npm("run", "--silent", "build");
  for (const major of [20, 22, 24] as const) {
    for (const entry of major === 20 ? ["index", "testing", "ui"] : ["index", "ai", "testing", "ui"]) {
      const said = run(root, node(major), "-e", `console.log(Object.keys(require("./dist/${entry}.js")).length > 0)`);
      assert.equal(said.trim(), "true", `${entry} under Node ${major}`);
    }
  }
});

// require of an ES module came with these versions.
test("engines and README name the oldest Nodes that the package needs", async () => {
  for (const folder of [root, join(root, "../langgraph")]) {
    const about = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    assert.equal(about.engines.node, "^20.19 || >=22.12");
    assert.match(await readFile(join(folder, "README.md"), "utf8"), /Node 20\.19 or 22\.12, or newer/);
  }
});

test("bundles work, in either form", { timeout: 120_000 }, async () => {
  npm("run", "--silent", "build");
  await using fixture = await Fixture.open("sqlite");
  const { url } = await fixture.serve();
  const p = pawl(url);
  const program = join(fixture.dir, "program.js");
  await writeFile(program, bundled);
  for (const format of ["cjs", "esm"] as const) {
    const outfile = join(fixture.dir, `${format}.${format === "cjs" ? "cjs" : "mjs"}`);
    const external = ["@opentelemetry/api"]; // an optional peer that is not there
    await build({ entryPoints: [program], outfile, bundle: true, platform: "node", format, external, alias: { "@pawl-work/sdk": join(root, "dist/index.js") }, logLevel: "error", logOverride: { "empty-import-meta": "silent" } });
    for (const major of [20, 24] as const) {
      const task = await create(p, `${format}${major}`);
      run(fixture.dir, node(major), outfile, url, `${format}${major}`);
      const { payload } = await must(p.GET("/v1/tasks/{id}/result", { params: { path: { id: (await task()).id } } }));
      assert.equal(payload, `done in ${format}${major}`);
    }
  }
});

const bundled = `
import { pawl, work } from "@pawl-work/sdk";
const [url, type] = process.argv.slice(2);
const ending = new AbortController();
(async () => {
  await work(pawl(url), { workerId: "w1", types: [type], leaseSeconds: 2, log: false, signal: ending.signal }, async ({ step }) => {
    await new Promise((resolve) => setTimeout(resolve, 3000)); // longer than the lease: heartbeats are sent
    ending.abort();
    return step("done", () => "done in " + type);
  });
})();
`;

test("Node 20 makes the types", () => {
  run(root, node(20), "generate.js");
});

const worker = `
import { must, pawl, work, type Job } from "@pawl-work/sdk";
const [url, type] = process.argv.slice(2) as [string, string];
const ending = new AbortController();
await work(pawl(url), { workerId: "w1", types: [type], log: false, signal: ending.signal }, async ({ step, progress }: Job): Promise<string> => {
  await progress(50, "half way");
  for (const end = Date.now() + 300; Date.now() < end; );
  const version: string = await step("version", () => process.version);
  ending.abort();
  return version;
});
void must;
`;

const agent = `
import { pawl, type Job } from "@pawl-work/sdk";
import { pawlStream, type PawlStream } from "@pawl-work/sdk/ai";
import { chatMessages } from "@pawl-work/sdk/ui";
import type { LanguageModel, ToolSet } from "ai";
export const say = (job: Job, model: LanguageModel): Promise<PawlStream<ToolSet>> => pawlStream({ ...job, model });
console.log(typeof pawlStream, typeof pawl, typeof chatMessages, process.version);
`;

/** A Node of a major version. */
function node(major: 20 | 22 | 24): string {
  if (major === 24) return process.execPath;
  const path = join(root, `../../.work/npm/sdk/typescript/test/nodes/node_modules/node${major}-${process.arch}/bin/node`);
  assert.ok(existsSync(path), `${path} is missing: ./run brings it`);
  return path;
}

/** An empty folder with the package in it, and a program that its types fit; those of `ai` do not fit each other. */
async function installed(dir: string, program: string, skipLibCheck: boolean, ...beside: string[]): Promise<string> {
  const [{ filename }] = JSON.parse(npm("pack", "--json", "--ignore-scripts", "--pack-destination", dir)) as [Pack];
  const to = join(dir, "app");
  await mkdir(to, { recursive: true });
  await writeFile(join(to, "package.json"), '{"type": "module", "private": true}');
  run(to, "npm", "install", "--no-audit", "--no-fund", "--loglevel=error", join(dir, filename), ...beside);
  await writeFile(join(to, "app.ts"), program);
  const compilerOptions = { target: "es2023", module: "nodenext", strict: true, skipLibCheck, types: ["node"], typeRoots: [join(root, "node_modules/@types")] };
  await writeFile(join(to, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["app.ts"] }));
  run(to, process.execPath, join(root, "node_modules/typescript/bin/tsc"));
  return to;
}

test("the core works in an empty folder under Node 20, 22 and 24", { timeout: 300_000 }, async () => {
  await using fixture = await Fixture.open("sqlite");
  const app = await installed(fixture.dir, worker, false);
  assert.deepEqual([existsSync(join(app, "node_modules/ai")), existsSync(join(app, "node_modules/@opentelemetry/api"))], [false, false]);
  const { url } = await fixture.serve();
  const p = pawl(url);
  for (const major of [20, 22, 24] as const) {
    const task = await create(p, `node${major}`);
    run(app, node(major), "app.js", url, `node${major}`);
    const { payload } = await must(p.GET("/v1/tasks/{id}/result", { params: { path: { id: (await task()).id } } }));
    assert.match(String(payload), new RegExp(`^v${major}\\.`));
  }
});

test("the entry for the AI SDK works under Node 22 and 24", { timeout: 300_000 }, async () => {
  await using fixture = await Fixture.open("sqlite");
  const { devDependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { devDependencies: { ai: string } };
  const app = await installed(fixture.dir, agent, true, `ai@${devDependencies.ai}`);
  for (const major of [22, 24] as const) assert.match(run(app, node(major), "app.js"), new RegExp(`^function function function v${major}\\.`));
});
