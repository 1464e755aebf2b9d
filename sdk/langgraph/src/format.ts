// How LangGraph's checkpoints are kept in Pawl: names, bodies of calls, and what is read back.
//
// A thread is a task. Its checkpoints, the values of its channels and its pending writes are
// checkpoints of that task, each under a name:
//
//   c/NAMESPACE/CHECKPOINT/                  a checkpoint without the values of its channels
//   b/NAMESPACE/CHANNEL/VERSION/PIECE/       a piece of the value that a channel has in a version
//   w/NAMESPACE/CHECKPOINT/TASK/NUMBER/      a pending write
//
// A checkpoint refers to its values and writes, so one request reads all of it. A value is stored
// once for each version of its channel. A name ends with a slash, so none is the beginning of
// another. The Python package has the same layout; its serializer is another one.
import { createHash } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import { compareWritesSortKeys, WRITES_IDX_MAP, writesSortKey, type ChannelVersions, type Checkpoint, type CheckpointMetadata, type CheckpointTuple, type PendingWrite, type SerializerProtocol } from "@langchain/langgraph-checkpoint";
import type { Schemas } from "@pawl-work/sdk";

/** The type of the tasks that are threads. */
export const THREAD_TYPE = "langgraph.thread";

const never = "2200-01-01T00:00:00Z"; // when the item of a thread may be claimed: the task holds no work

const maxKey = 255; // characters of a unique key
const maxPart = 200; // characters of one part of a name, of which there are at most four
const maxRefs = 12_000; // bytes of the references in the metadata of a checkpoint, which has 16 KiB
const maxPiece = 700_000; // bytes of a piece: as JSON it has at most 4/3 of it, and a snapshot may have 1 MiB
export const maxAppend = 1000; // checkpoints of one append
const maxAppendBytes = 4 << 20; // characters of snapshots in one append

const zero = "\u0100"; // stands for the byte 0, which no text in Pawl has: it is behind the characters of other bytes

export type Row = Schemas["Checkpoint"];
export type Append = Schemas["CheckpointAppend"];
type New = Schemas["AppendedCheckpoint"];

/** A value as JSON: its type, how its bytes are written, and the bytes. */
type Piece = [kind: string, how: string, text: string];

/** What is stored of a checkpoint. */
export interface Snapshot {
  thread: string;
  namespace: string;
  id: string;
  parent: string | null;
  checkpoint: Piece;
  metadata: Piece;
  values: string[]; // what its values' names begin with
}

interface Write {
  task: string;
  path: string;
  number: number;
  channel: string;
  value: Piece;
}

const digest = (text: string) => `sha256-${createHash("sha256").update(text).digest("hex")}`;

/** A part of a name: without slashes and stars, and of a bounded length. */
function part(text: string): string {
  const out = encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`).replace(/%(3A|7C|40|20)/g, (c) => decodeURIComponent(c));
  return out.length <= maxPart ? out : digest(text);
}

/** The name of a checkpoint of the task, or what such names begin with. */
export const nameOf = (kind: string, ...parts: string[]): string => `${[kind, ...parts.map(part)].join("/")}/`;

export function threadOf(config: RunnableConfig): string {
  const id: unknown = config.configurable?.thread_id;
  if (id === undefined || id === null || id === "") throw new Error('the config has no "thread_id" in "configurable"');
  return String(id);
}

export const namespaceOf = (config: RunnableConfig): string => String(config.configurable?.checkpoint_ns ?? "");

/** The unique key of the task of a thread. */
export const keyOf = (thread: string): string => (Array.from(thread).length <= maxKey ? thread : digest(thread));

/** The task of a thread, which is created once. */
const taskOf = (thread: string): Schemas["NewTask"] => ({
  type: THREAD_TYPE,
  payload: { thread_id: thread },
  run_at: never,
  unique: { by: "key", key: keyOf(thread), on_conflict: "return" },
});

/** How bytes are written as a text of JSON: mostly-ASCII ones as characters of their own, so that the server finds what two versions of a value have in common. */
function written(data: Uint8Array): [how: string, text: string] {
  let longer = 0;
  for (const b of data) longer += b === 0x22 || b === 0x5c ? 1 : b > 0 && b < 0x20 ? 5 : b === 0 || b > 0x7e ? 1 : 0;
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (longer > data.length / 3) return ["base64", bytes.toString("base64")];
  return ["text", bytes.toString("latin1").replaceAll("\0", zero)];
}

function read(how: string, text: string): Uint8Array {
  return new Uint8Array(how === "base64" ? Buffer.from(text, "base64") : Buffer.from(text.replaceAll(zero, "\0"), "latin1"));
}

const rowOf = (name: string, snapshot: unknown, on_conflict: "replace" | "keep"): New => ({ type: "custom", name, snapshot, on_conflict });

export const configOf = (thread: string, namespace: string, id: string): RunnableConfig => ({
  configurable: { thread_id: thread, checkpoint_ns: namespace, checkpoint_id: id },
});

/** Metadata by which the server finds a checkpoint: its short texts, whole numbers and truth values. */
export function foundBy(metadata: object): { [name: string]: unknown } {
  const short = Object.entries(metadata).filter(([k, v]) => k.length <= 60 && ((typeof v === "string" && v.length <= 200) || typeof v === "boolean" || Number.isSafeInteger(v)));
  return Object.fromEntries(short.slice(0, 20).map(([k, v]) => [`m.${k}`, v]));
}

/** Turns LangGraph's objects into snapshots and back, with the serializer of a saver. */
export class Format {
  readonly #serde: SerializerProtocol;

  constructor(serde: SerializerProtocol) {
    this.#serde = serde;
  }

  async #dump(value: unknown): Promise<Piece> {
    const [kind, data] = await this.#serde.dumpsTyped(value);
    return [kind, ...written(data)];
  }

  /** A value in pieces that are not too large for a snapshot. */
  async #pieces(value: unknown): Promise<Piece[]> {
    const [kind, data] = await this.#serde.dumpsTyped(value);
    const out: Piece[] = [];
    for (let at = 0; at === 0 || at < data.length; at += maxPiece) out.push([kind, ...written(data.subarray(at, at + maxPiece))]);
    return out;
  }

  #load(...pieces: Piece[]): Promise<unknown> {
    return this.#serde.loadsTyped(pieces[0]![0], Buffer.concat(pieces.map(([, how, text]) => read(how, text))));
  }

  metadataOf(s: Snapshot): Promise<CheckpointMetadata> {
    return this.#load(s.metadata) as Promise<CheckpointMetadata>;
  }

  /** The append that stores a checkpoint with the new values of its channels. */
  async put(config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, versions: ChannelVersions): Promise<Append> {
    const [thread, ns] = [threadOf(config), namespaceOf(config)];
    const { channel_values: values, ...bare } = checkpoint;
    const has = (channel: string) => Object.hasOwn(values, channel) && values[channel] !== undefined;
    const rows: New[] = [];
    for (const [channel, version] of Object.entries(versions)) {
      if (!has(channel)) continue;
      for (const [at, piece] of (await this.#pieces(values[channel])).entries()) rows.push(rowOf(nameOf("b", ns, channel, String(version), String(at)), piece, "keep"));
    }
    const refs = Object.entries(checkpoint.channel_versions).flatMap(([channel, version]) => (has(channel) ? [nameOf("b", ns, channel, String(version))] : []));
    const parent = (config.configurable?.checkpoint_id as string | undefined) ?? null;
    const snapshot: Snapshot = { thread, namespace: ns, id: checkpoint.id, parent, checkpoint: await this.#dump(bare), metadata: await this.#dump(metadata), values: refs };
    const found: { [name: string]: unknown } = foundBy(metadata);
    const wanted = [...refs, nameOf("w", ns, checkpoint.id)].map((ref) => `${ref}*`);
    if (refs.length < maxAppend && wanted.reduce((n, ref) => n + ref.length + 3, 0) < maxRefs) found.refs = wanted;
    return { create: taskOf(thread), checkpoints: [...rows, { ...rowOf(nameOf("c", ns, checkpoint.id), snapshot, "replace"), metadata: found }] };
  }

  /** The append that stores pending writes. Those of special channels replace earlier ones. */
  async writes(config: RunnableConfig, writes: PendingWrite[], task: string, path: string): Promise<Append> {
    const id: unknown = config.configurable?.checkpoint_id;
    if (typeof id !== "string" || id === "") throw new Error('the config has no "checkpoint_id" in "configurable"');
    const rows = new Map<string, New>();
    for (const [at, [channel, value]] of writes.entries()) {
      const number = WRITES_IDX_MAP[channel as string] ?? at;
      const name = nameOf("w", namespaceOf(config), id, task, String(number));
      const snapshot: Write = { task, path, number, channel: channel as string, value: await this.#dump(value) };
      rows.set(name, rowOf(name, snapshot, number < 0 ? "replace" : "keep"));
    }
    return { create: taskOf(threadOf(config)), checkpoints: [...rows.values()] };
  }

  /** The checkpoint of a row and of the rows that it refers to. */
  async tupleOf(row: Row, parts: Row[]): Promise<CheckpointTuple> {
    const s = row.snapshot as Snapshot;
    const pieces = new Map<string, Piece[]>();
    const writes: Write[] = [];
    for (const { name = "", snapshot } of parts) {
      if (name.startsWith("w/")) writes.push(snapshot as Write);
      const of = /^(b\/.*\/)(\d+)\/$/.exec(name);
      if (!of) continue;
      const all = pieces.get(of[1]!) ?? [];
      all[Number(of[2])] = snapshot as Piece;
      pieces.set(of[1]!, all);
    }
    const bare = (await this.#load(s.checkpoint)) as Omit<Checkpoint, "channel_values">;
    const values: { [channel: string]: unknown } = {};
    for (const [channel, version] of Object.entries(bare.channel_versions)) {
      const found = pieces.get(nameOf("b", s.namespace, channel, String(version)));
      if (found) values[channel] = await this.#load(...found);
    }
    const sorted = writes.map((w) => ({ w, key: writesSortKey(w.path, w.task, w.number) })).sort((a, b) => compareWritesSortKeys(a.key, b.key));
    return {
      config: configOf(s.thread, s.namespace, s.id),
      checkpoint: { ...bare, channel_values: values },
      metadata: await this.metadataOf(s),
      ...(s.parent ? { parentConfig: configOf(s.thread, s.namespace, s.parent) } : {}),
      pendingWrites: await Promise.all(sorted.map(async ({ w }): Promise<[string, string, unknown]> => [w.task, w.channel, await this.#load(w.value)])),
    };
  }
}

/** An append in calls that are not too large. A call of a put is one unless its values are very large. */
export function* appends(body: Append): Generator<Append> {
  let rows: New[] = [];
  let size = 0;
  for (const row of body.checkpoints) {
    const n = JSON.stringify(row.snapshot).length;
    if (rows.length === maxAppend || (rows.length > 0 && size + n > maxAppendBytes)) {
      yield { ...body, checkpoints: rows };
      [rows, size] = [[], 0];
    }
    rows.push(row);
    size += n;
  }
  if (rows.length > 0) yield { ...body, checkpoints: rows };
}
