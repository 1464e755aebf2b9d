// How LangGraph's checkpoints are kept in Pawl: names, bodies of calls, and what is read back.
//
// A thread is a task. Its checkpoints, the values of its channels and its pending writes are
// checkpoints of that task, each under a name:
//
//   c/NAMESPACE/CHECKPOINT/                  a checkpoint without the values of its channels
//   b/NAMESPACE/CHANNEL/VERSION/PIECE/       a piece of the value that a channel has in a version
//   d/NAMESPACE/CHANNEL/BASE/VERSION/        what differs from an earlier version; the version BASE is stored whole
//   w/NAMESPACE/CHECKPOINT/TASK/NUMBER/      a pending write
//
// A checkpoint refers to its writes and to its small values, so one request reads them with it. Large
// values are read by their names, unless the saver has them: it keeps the last ones, and sends what
// differs from them. A value is stored once for each version of its channel. A name ends with a
// slash, so none is the beginning of another. The Python package has the same layout; its
// serializer is another one.
import { createHash } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import { compareWritesSortKeys, WRITES_IDX_MAP, writesSortKey, type ChannelVersions, type Checkpoint, type CheckpointMetadata, type CheckpointTuple, type PendingWrite, type SerializerProtocol } from "@langchain/langgraph-checkpoint";
import type { Schemas } from "@pawl-work/sdk";
import { chainRoom, channelKey, compose, diff, inserted, joined, maxDelta, maxDepth, minDelta, type Op, type Ref, type Segment, type Stored } from "./deltas.ts";

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
  values: { [channel: string]: Ref } | string[]; // a list of what the names begin with, as earlier versions of this package wrote it
}

/** What differs from an earlier version of a value. */
interface Difference {
  of: string;
  kind: string;
  ops: (readonly [number, number] | [how: string, text: string])[];
  chain: number;
  depth: number;
}

export interface Write {
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
  const bytes = bufferOf(data);
  if (longer > data.length / 3) return ["base64", bytes.toString("base64")];
  return ["text", bytes.toString("latin1").replaceAll("\0", zero)];
}

function read(how: string, text: string): Buffer {
  return how === "base64" ? Buffer.from(text, "base64") : Buffer.from(text.replaceAll(zero, "\0"), "latin1");
}

const bufferOf = (data: Uint8Array): Buffer => Buffer.from(data.buffer, data.byteOffset, data.byteLength);

/** How a value is stored, and the rows of it. */
function storedOf(ns: string, channel: string, version: string, kind: string, data: Buffer, old: Stored | undefined): [Stored, New[]] {
  if (old?.kind === kind && data.length >= minDelta && old.data.length >= minDelta) {
    const ops = diff(old.data, data);
    const size = inserted(ops);
    const [chain, depth] = [old.chain + size, old.depth + 1];
    if (size <= Math.min(data.length >> 1, maxDelta) && chain <= 2 * data.length + chainRoom && depth <= maxDepth) {
      const ref = nameOf("d", ns, channel, old.base, version);
      const snapshot: Difference = { of: old.version, kind, ops: ops.map((op) => (Buffer.isBuffer(op) ? written(op) : op)), chain, depth };
      return [{ ref, base: old.base, version, kind, data, chain, depth }, [rowOf(ref, snapshot, "keep")]];
    }
  }
  const ref = nameOf("b", ns, channel, version);
  const rows: New[] = [];
  for (let at = 0; at === 0 || at < data.length; at += maxPiece) {
    const piece: Piece = [kind, ...written(data.subarray(at, at + maxPiece))];
    rows.push(rowOf(`${ref}${rows.length}/`, piece, "keep"));
  }
  return [{ ref, base: version, version, kind, data, chain: data.length, depth: 0 }, rows];
}

export const refOf = (v: Stored): Ref => (v.depth === 0 && v.data.length < minDelta ? [v.ref] : [v.ref, v.version, v.base]);

/** Whether a reference is to a version of a value. */
export const isOf = (ref: Ref, ns: string, channel: string, version: string): boolean => (ref.length > 1 ? ref[1] === version : ref[0] === nameOf("b", ns, channel, version));

/** What a checkpoint refers to is not there: it was removed since the checkpoint was read. */
export class Gone extends Error {
  constructor() {
    super("a value of a checkpoint is not there");
  }
}

/** A value that is stored whole, of its pieces. It throws Gone if it is not there. */
export function wholeOf(pieces: Iterable<Row>): [kind: string, data: Buffer] {
  const found: Piece[] = [];
  let n = 0;
  for (const { name, snapshot } of pieces) {
    found[Number(name!.split("/").at(-2))] = snapshot as Piece;
    n++;
  }
  if (n === 0 || found.length !== n) throw new Gone();
  return [found[0]![0], Buffer.concat(found.map(([, how, text]) => read(how, text)))];
}

/** A value that is stored whole, and all versions that are stored as what differs from one another. */
export class Chain {
  readonly #base: string;
  readonly #kind: string;
  readonly #size: number;
  readonly #segments = new Map<string, Segment[]>();
  readonly #rows = new Map<string, Difference>();

  constructor(base: string, [kind, data]: [kind: string, data: Buffer]) {
    [this.#base, this.#kind, this.#size] = [base, kind, data.length];
    this.#segments.set(part(base), [[data, 0, data.length]]);
  }

  /** Adds differences, each behind what it differs from. It throws Gone if that is not there. */
  add(rows: Iterable<Row>): void {
    for (const { name, snapshot } of rows) {
      const s = snapshot as Difference;
      const version = name!.split("/").at(-2)!;
      const older = this.#segments.get(part(s.of));
      if (!older) throw new Gone();
      const ops = s.ops.map((op): Op => (typeof op[0] === "number" ? (op as [number, number]) : read(...(op as [string, string]))));
      this.#segments.set(version, compose(older, ops));
      this.#rows.set(version, s);
    }
  }

  /** Whether a version is there. */
  has(version: string): boolean {
    return this.#segments.has(part(version));
  }

  /** A version. It throws Gone if it is not there. */
  stored(ref: string, version: string): Stored {
    const segments = this.#segments.get(part(version));
    if (!segments) throw new Gone();
    const { chain, depth } = this.#rows.get(part(version)) ?? { chain: this.#size, depth: 0 };
    return { ref, base: this.#base, version, kind: this.#kind, data: joined(segments), chain, depth };
  }
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

  async #load([kind, how, text]: Piece): Promise<unknown> {
    return this.#serde.loadsTyped(kind, new Uint8Array(read(how, text)));
  }

  metadataOf(s: Snapshot): Promise<CheckpointMetadata> {
    return this.#load(s.metadata) as Promise<CheckpointMetadata>;
  }

  /**
   * The append that stores a checkpoint with the new values of its channels, and these values. A value
   * is stored as what differs from the known value of its channel, where that pays. find returns where
   * a value is that is neither new nor known.
   */
  async put(config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, versions: ChannelVersions, known: ReadonlyMap<string, Stored>, find: (channel: string, version: string) => Promise<Ref | undefined>): Promise<{ body: Append; stored: Map<string, Stored> }> {
    const [thread, ns] = [threadOf(config), namespaceOf(config)];
    const { channel_values: values, ...bare } = checkpoint;
    const rows: New[] = [];
    const stored = new Map<string, Stored>();
    const refs: { [channel: string]: Ref } = Object.create(null);
    for (const [channel, number] of Object.entries(checkpoint.channel_versions)) {
      if (!Object.hasOwn(values, channel) || values[channel] === undefined) continue;
      const version = String(number);
      const old = known.get(channelKey(ns, channel));
      if (old?.version === version) refs[channel] = refOf(old);
      else if (Object.hasOwn(versions, channel)) {
        const [kind, data] = await this.#serde.dumpsTyped(values[channel]);
        const [value, some] = storedOf(ns, channel, version, kind, bufferOf(data), old);
        stored.set(channelKey(ns, channel), value);
        rows.push(...some);
        refs[channel] = refOf(value);
      } else refs[channel] = (await find(channel, version)) ?? [nameOf("b", ns, channel, version)];
    }
    const parent = (config.configurable?.checkpoint_id as string | undefined) ?? null;
    const snapshot: Snapshot = { thread, namespace: ns, id: checkpoint.id, parent, checkpoint: await this.#dump(bare), metadata: await this.#dump(metadata), values: refs };
    const found: { [name: string]: unknown } = foundBy(metadata);
    const small = Object.values(refs).flatMap((ref) => (ref.length === 1 ? [`${ref[0]}0/`] : []));
    const wanted = [...small, `${nameOf("w", ns, checkpoint.id)}*`];
    if (small.length < maxAppend && wanted.reduce((n, ref) => n + ref.length + 3, 0) < maxRefs) found.refs = wanted;
    const row = { ...rowOf(nameOf("c", ns, checkpoint.id), snapshot, "replace"), metadata: found };
    return { body: { create: taskOf(thread), checkpoints: [...rows, row] }, stored };
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

  /** Where the values of a checkpoint's channels are. */
  async refs(row: Row): Promise<{ [channel: string]: Ref }> {
    const s = row.snapshot as Snapshot;
    if (!Array.isArray(s.values)) return s.values;
    const named = new Set(s.values);
    const { channel_versions } = (await this.#load(s.checkpoint)) as Checkpoint;
    const refs = Object.entries(channel_versions).map(([channel, version]): [string, Ref] => [channel, [nameOf("b", s.namespace, channel, String(version))]]);
    return Object.fromEntries(refs.filter(([, [ref]]) => named.has(ref)));
  }

  /** The checkpoint of a row, of the values of its channels, and of its writes. */
  async tupleOf(row: Row, values: ReadonlyMap<string, Stored>, writes: Write[]): Promise<CheckpointTuple> {
    const s = row.snapshot as Snapshot;
    const bare = (await this.#load(s.checkpoint)) as Omit<Checkpoint, "channel_values">;
    const channel_values: { [channel: string]: unknown } = {};
    for (const [channel, { kind, data }] of values) channel_values[channel] = await this.#serde.loadsTyped(kind, new Uint8Array(data));
    const sorted = writes.map((w) => ({ w, key: writesSortKey(w.path, w.task, w.number) })).sort((a, b) => compareWritesSortKeys(a.key, b.key));
    return {
      config: configOf(s.thread, s.namespace, s.id),
      checkpoint: { ...bare, channel_values },
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
