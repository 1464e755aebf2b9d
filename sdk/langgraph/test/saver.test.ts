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
import { compose, diff, inserted, joined, type Segment } from "../src/deltas.ts";
import { PawlSaver } from "../src/index.ts";
import { databases, Server } from "./servers.ts";

const metadata: CheckpointMetadata = { source: "loop", step: 1, parents: {} };
const root = join(import.meta.dirname, "..");

const ids = new Map<number, string>(); // of the last checkpoint of each step

/** Puts a checkpoint in which each channel has a new version. */
async function saved(saver: PawlSaver, values: { [channel: string]: unknown }, before: RunnableConfig, step: number): Promise<RunnableConfig> {
  const versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, step]));
  const id = uuid6(step);
  ids.set(step, id);
  const checkpoint: Checkpoint = { ...emptyCheckpoint(), id, channel_values: values, channel_versions: versions };
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

/** A graph whose list grows by two entries in each turn. */
function chat(saver: PawlSaver) {
  return new StateGraph(State)
    .addNode("say", () => ({ said: [randomBytes(1500).toString("hex")] }))
    .addEdge(START, "say")
    .addEdge("say", END)
    .compile({ checkpointer: saver });
}

test("differences make the new value", () => {
  const below = (n: number) => Math.floor(Math.random() * n);
  for (let round = 0; round < 20; round++) {
    const old = randomBytes([0, 5, 5000, 200_000][round % 4]!);
    let [value, segments]: [Buffer, Segment[]] = [old, [[old, 0, old.length]]];
    for (let edit = 0; edit < 30; edit++) {
      const [at, to] = [below(value.length + 1), below(value.length + 1)].sort((a, b) => a - b) as [number, number];
      const next = [
        Buffer.concat([value, randomBytes(100)]),
        Buffer.concat([value.subarray(0, at), randomBytes(below(20)), value.subarray(at)]),
        Buffer.concat([value.subarray(0, at), value.subarray(to)]),
        Buffer.concat([Buffer.of(1), value.subarray(1), Buffer.from("end")]),
        value,
      ][below(5)]!;
      segments = compose(segments, diff(value, next));
      expect(joined(segments).equals(next)).toBe(true);
      value = next;
    }
    const [before, after] = [Buffer.concat([Buffer.of(0xdc, 0, 0x10), old]), Buffer.concat([Buffer.of(0xdc, 0, 0x11), old, Buffer.from("new")])];
    expect(inserted(diff(before, after))).toBeLessThanOrEqual(3 + 16);
  }
});

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

  test("a turn sends what is new, and a large value is read once", async () => {
    let [requests, sent] = [0, 0];
    const counting = async (request: Request | URL | string, init?: RequestInit) => {
      requests++;
      sent += (await (request as Request).clone().arrayBuffer()).byteLength;
      return fetch(request, init);
    };
    const saver = new PawlSaver(server.url, { fetch: counting as typeof fetch });
    const config = { configurable: { thread_id: randomUUID() } };
    const turns: number[] = [];
    for (let turn = 0; turn < 60; turn++) {
      const before = sent;
      await chat(saver).invoke({ said: [randomBytes(1500).toString("hex")] }, config);
      turns.push(sent - before);
    }
    expect(Math.max(...turns.slice(10)), turns.join(" ")).toBeLessThan(2 * Math.max(...turns.slice(1, 10)));
    const before = requests;
    const { values } = await chat(saver).getState(config);
    expect(requests).toBe(before + 1); // it has the value that it has sent
    requests = 0;
    const other = chat(new PawlSaver(server.url, { fetch: counting as typeof fetch })); // which has to read all
    const said: string[][] = [];
    for await (const state of other.getStateHistory(config)) said.push(state.values.said ?? []);
    expect(said.filter((_, n) => n % 3 === 0).map((s) => s.length)).toEqual(Array.from({ length: 60 }, (_, n) => 120 - 2 * n));
    for (const some of said) expect(some).toEqual(values.said.slice(0, some.length));
    expect(requests).toBeLessThan(20);
    expect((await other.getState(config)).values).toEqual(values);
  });

  test("several programs write a thread", async () => {
    const [one, two] = [new PawlSaver(server.url), new PawlSaver(server.url)];
    const config = { configurable: { thread_id: randomUUID() } };
    let said: string[] = [];
    for (let turn = 0; turn < 12; turn++) {
      const out = await chat(turn % 3 ? two : one).invoke({ said: [`turn ${turn} `.repeat(200)] }, config);
      expect(out.said.slice(0, said.length)).toEqual(said);
      said = out.said;
    }
    expect((await chat(one).getState(config)).values.said).toEqual(said);
    await two.deleteThread(config.configurable.thread_id);
    for (const saver of [one, two]) expect(await saver.getTuple(config)).toBeUndefined();
    const out = await chat(one).invoke({ said: ["anew ".repeat(1000)] }, config);
    expect(out.said.length).toBe(2);
    expect((await chat(two).getState(config)).values).toEqual(out);
  });

  test("a put keeps the values that are not new, also those of another saver", async () => {
    const [one, text] = [new PawlSaver(server.url), "z".repeat(5000)];
    const first = await saved(one, { large: text, small: 1 }, fresh(), 1);
    const second = await saved(one, { large: `${text}!`, small: 1 }, first, 2); // as a difference
    const put = async (saver: PawlSaver, before: RunnableConfig) => {
      const checkpoint: Checkpoint = { ...emptyCheckpoint(), id: uuid6(3), channel_values: { large: `${text}!`, small: 1, more: 2 }, channel_versions: { large: 2, small: 2, more: 3 } };
      return saver.put(before, checkpoint, metadata, { more: 3 });
    };
    const read = new PawlSaver(server.url);
    await read.getTuple(second);
    for (const saver of [one, read, new PawlSaver(server.url)]) {
      const got = await new PawlSaver(server.url).getTuple(await put(saver, second));
      expect(got?.checkpoint.channel_values).toEqual({ large: `${text}!`, small: 1, more: 2 });
    }
  });

  test("appends of one saver at once", async () => {
    const saver = new PawlSaver(server.url);
    const [text, config] = ["x".repeat(10_000), await saved(saver, { large: "x".repeat(10_000) }, fresh(), 1)];
    await Promise.all([2, 3, 4, 5].map((step) => saved(saver, { large: `${text}${step}` }, config, step)));
    for (const step of [2, 3, 4, 5]) {
      const { thread_id } = config.configurable!;
      const got = await new PawlSaver(server.url).getTuple({ configurable: { thread_id, checkpoint_ns: "", checkpoint_id: ids.get(step)! } });
      expect(got?.checkpoint.channel_values).toEqual({ large: `${text}${step}` });
    }
  });

  test("what an earlier version of this package stored is read, and goes on", async () => {
    const [saver, config] = [new PawlSaver(server.url), fresh()];
    const at = await saved(saver, { small: 1, large: "y".repeat(6000) }, config, 1);
    const of = `task_type=langgraph.thread&task_key=${config.configurable!.thread_id}&own=true`;
    const { items } = (await (await fetch(`${server.url}/v1/checkpoints?${of}&name_prefix=c/`)).json()) as { items: { task_id: string; name: string; snapshot: { [name: string]: unknown }; metadata: object }[] };
    const [{ task_id, name, snapshot, metadata }] = items as [(typeof items)[0]];
    const values = ["b//small/1/", "b//large/1/"];
    const row = { type: "custom", name, on_conflict: "replace", snapshot: { ...snapshot, values }, metadata: { ...metadata, refs: [...values, `w//${at.configurable!.checkpoint_id}/`].map((ref) => `${ref}*`) } };
    const answer = await fetch(`${server.url}/v1/tasks/${task_id}:append`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ checkpoints: [row] }) });
    expect(answer.status).toBe(201);
    const other = new PawlSaver(server.url);
    expect((await other.getTuple(at))?.checkpoint.channel_values).toEqual({ small: 1, large: "y".repeat(6000) });
    const next = await saved(other, { small: 2, large: `${"y".repeat(6000)}z` }, at, 2);
    expect((await saver.getTuple(next))?.checkpoint.channel_values).toEqual({ small: 2, large: `${"y".repeat(6000)}z` });
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
