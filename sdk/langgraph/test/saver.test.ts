// What the validation suite does not ask: graphs, requests, sizes, and the package.
import { Annotation, Command, END, INTERRUPT, interrupt, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint, uuid6, type Checkpoint, type CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { execFileSync } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunnableConfig } from "@langchain/core/runnables";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PawlSaver } from "../src/index.ts";
import { databases, Server } from "./servers.ts";

const metadata: CheckpointMetadata = { source: "loop", step: 1, parents: {} };
const root = join(import.meta.dirname, "..");

/** Puts a checkpoint in which each channel has a new version. */
async function saved(saver: PawlSaver, values: { [channel: string]: unknown }, before: RunnableConfig, step: number): Promise<RunnableConfig> {
  const versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, step]));
  const checkpoint: Checkpoint = { ...emptyCheckpoint(), id: uuid6(step), channel_values: values, channel_versions: versions };
  return saver.put(before, checkpoint, { ...metadata, step }, versions);
}

const fresh = (): RunnableConfig => ({ configurable: { thread_id: randomUUID(), checkpoint_ns: "" } });

const State = Annotation.Root({ said: Annotation<string[]>({ reducer: (old, more) => [...old, ...more], default: () => [] }) });

function graph(saver: PawlSaver, ran: string[]) {
  return new StateGraph(State)
    .addNode("think", () => (ran.push("think"), { said: ["a plan"] }))
    .addNode("ask", () => ({ said: [interrupt<string, string>("may I?")] }))
    .addEdge(START, "think")
    .addEdge("think", "ask")
    .addEdge("ask", END)
    .compile({ checkpointer: saver });
}

describe.each(databases)("on %s", (database) => {
  let server: Server;
  beforeAll(async () => void (server = await Server.start(database)));
  afterAll(() => server.stop());

  test("a graph goes on in another process", async () => {
    const config = { configurable: { thread_id: "t" } };
    const ran: string[] = [];
    const out = (await graph(new PawlSaver(server.url), ran).invoke({ said: ["hello"] }, config)) as { [INTERRUPT]?: { value: unknown }[] };
    expect(out[INTERRUPT]?.[0]?.value).toBe("may I?");
    const after = await graph(new PawlSaver(server.url), ran).invoke(new Command({ resume: "yes" }), config);
    expect(after.said).toEqual(["hello", "a plan", "yes"]);
    expect(ran).toEqual(["think"]);
    const history = [];
    for await (const state of graph(new PawlSaver(server.url), ran).getStateHistory(config)) history.push(state);
    expect(history.length).toBeGreaterThanOrEqual(4);
    await new PawlSaver(server.url).deleteThread("t");
    expect(await new PawlSaver(server.url).getTuple(config)).toBeUndefined();
    await new PawlSaver(server.url).deleteThread("t"); // it is gone
  });

  test("branches of a thread keep their own values", async () => {
    const config = fresh();
    const chat = new StateGraph(State)
      .addNode("say", ({ said }) => ({ said: [`to ${said.at(-1)}`] }))
      .addEdge(START, "say")
      .addEdge("say", END)
      .compile({ checkpointer: new PawlSaver(server.url) });
    await chat.invoke({ said: ["first"] }, config);
    const base = (await chat.getState(config)).config;
    for (const said of ["X", "Y"]) {
      const out = await chat.invoke({ said: [said] }, base);
      expect(out.said).toEqual(["first", "to first", said, `to ${said}`]);
      expect((await chat.getState(config)).values).toEqual(out);
    }
  });

  test("a put is one request, and so is a read of the newest checkpoint", async () => {
    const asked: string[] = [];
    const saver = new PawlSaver(server.url, { fetch: (request, init) => (asked.push((request as Request).method), fetch(request, init)) });
    let config = fresh();
    for (let step = 1; step <= 3; step++) config = await saved(saver, { a: [step], b: `text ${step}` }, config, step);
    await saver.putWrites(config, [["a", 1], ["b", 2]], "task-1");
    expect(asked).toEqual(["POST", "POST", "POST", "POST"]);
    asked.length = 0;
    const { checkpoint_id: _, ...newest } = config.configurable!;
    const got = await saver.getTuple({ configurable: newest });
    expect([asked, got?.checkpoint.channel_values, got?.pendingWrites]).toEqual([["GET"], { a: [3], b: "text 3" }, [["task-1", "a", 1], ["task-1", "b", 2]]]);
  });

  test("values of any size and any text come back", async () => {
    const saver = new PawlSaver(server.url);
    const values = { large: "x".repeat(3_000_000), bytes: randomBytes(2_000_000).toString("base64"), text: "\0 \u{1f9ab} \ud800 \"\\ / * %", ["a/b*c%2F"]: 1, none: null };
    const config = await saved(saver, values, fresh(), 1);
    expect((await saver.getTuple(config))?.checkpoint.channel_values).toEqual(values);
  });

  test("many channels need more than one request, and threads with like names are apart", async () => {
    const saver = new PawlSaver(server.url);
    const values = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`channel ${n} ${"x".repeat(60)}`, n]));
    const config = await saved(saver, values, fresh(), 1);
    expect((await saver.getTuple(config))?.checkpoint.channel_values).toEqual(values);
    const long = `${"y".repeat(300)}`;
    for (const thread_id of [long, `${long}z`]) await saved(saver, { of: thread_id }, { configurable: { thread_id, checkpoint_ns: "" } }, 1);
    for (const thread_id of [long, `${long}z`]) expect((await saver.getTuple({ configurable: { thread_id } }))?.checkpoint.channel_values).toEqual({ of: thread_id });
  });
});

test("storage is linear: messages that grow by 4 KB in each of 200 turns, put whole each time", async () => {
  const server = await Server.start("sqlite");
  try {
    const saver = new PawlSaver(server.url);
    let config = fresh();
    let messages: string[] = [];
    for (let step = 1; step <= 200; step++) {
      messages = [...messages, randomBytes(2000).toString("hex")];
      config = await saved(saver, { messages }, config, step);
    }
    expect((await saver.getTuple(config))?.checkpoint.channel_values).toEqual({ messages });
    const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
    const db = new DatabaseSync(server.db.replace("sqlite:", ""), { readOnly: true });
    const sum = (query: string) => Number(Object.values(db.prepare(query).get()!)[0]);
    const stored = sum("SELECT SUM(LENGTH(body)) FROM blobs") + sum("SELECT SUM(COALESCE(LENGTH(snapshot), 0) + LENGTH(metadata) + LENGTH(name)) FROM checkpoints");
    db.close();
    expect(stored / (messages.length * 4000)).toBeLessThan(1.3);
  } finally {
    await server.stop();
  }
});

test("the package works in an empty folder", { timeout: 300_000 }, async () => {
  const dir = await mkdtemp(join(tmpdir(), "pawl-langgraph-"));
  const server = await Server.start("sqlite");
  const run = (cwd: string, command: string, ...args: string[]) => execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  try {
    run(root, "npm", "run", "--silent", "build");
    const packed = [root, join(root, "../typescript")].map((from) => {
      const [pack] = JSON.parse(run(from, "npm", "pack", "--json", "--ignore-scripts", "--pack-destination", dir)) as { filename: string; files: { path: string }[] }[];
      expect(pack!.files.filter((f) => !/^(dist\/|package\.json$|README\.md$)/.test(f.path))).toEqual([]);
      return join(dir, pack!.filename);
    });
    const { devDependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { devDependencies: { [name: string]: string } };
    const beside = ["@langchain/core", "@langchain/langgraph-checkpoint"].map((name) => `${name}@${devDependencies[name]}`);
    await writeFile(join(dir, "package.json"), '{"type": "module", "private": true}');
    run(dir, "npm", "install", "--no-audit", "--no-fund", "--loglevel=error", ...packed, ...beside);
    await writeFile(join(dir, "app.ts"), `import { PawlSaver } from "@pawl-work/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
const saver: BaseCheckpointSaver = new PawlSaver(process.argv[2]);
console.log(await saver.getTuple({ configurable: { thread_id: "none" } }));
`);
    const compilerOptions = { target: "es2023", module: "nodenext", strict: true, skipLibCheck: true, types: ["node"], typeRoots: [join(root, "node_modules/@types")] };
    await writeFile(join(dir, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["app.ts"] }));
    run(dir, process.execPath, join(root, "node_modules/typescript/bin/tsc"));
    expect(run(dir, process.execPath, "app.js", server.url)).toBe("undefined\n");
  } finally {
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  }
});

test("the TypeScript of the README compiles", async () => {
  const blocks = [...(await readFile(join(root, "README.md"), "utf8")).matchAll(/^```ts\n(.*?)^```$/gms)].map((m) => m[1]!);
  expect(blocks.length).toBe(1);
  const given = `import { Annotation, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ said: Annotation<string[]>() });
const builder = new StateGraph(State).addNode("think", () => ({})).addEdge("__start__", "think");
`;
  const file = join(root, "test/snippet.ts");
  try {
    await writeFile(file, given + blocks[0]!.replace('"@pawl-work/langgraph"', '"../src/index.ts"'));
    execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "--noEmit", "-p", root], { stdio: ["ignore", "inherit", "inherit"] });
  } finally {
    await rm(file, { force: true });
  }
});
