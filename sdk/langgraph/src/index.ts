import type { RunnableConfig } from "@langchain/core/runnables";
import { BaseCheckpointSaver, getCheckpointId, maxChannelVersion, TASKS, type ChannelVersions, type Checkpoint, type CheckpointListOptions, type CheckpointMetadata, type CheckpointTuple, type PendingWrite, type SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { again, pawl, PawlError, type Pawl, type PawlOptions } from "@pawl-work/sdk";
import { channelKey, Threads, type Ref, type Stored, type Thread } from "./deltas.ts";
import { appends, Chain, configOf, Format, foundBy, Gone, isOf, keyOf, nameOf, namespaceOf, refOf, THREAD_TYPE, threadOf, wholeOf, type Append, type Row, type Snapshot, type Write } from "./format.ts";

export { THREAD_TYPE };

/** What selects checkpoints: the query of `GET /v1/checkpoints`. */
interface Query {
  task_type: string;
  task_key: string;
  own?: boolean;
  order?: "desc";
  refs?: boolean;
  brief?: boolean;
  name?: string[];
  name_prefix?: string;
  metadata?: { [name: string]: string };
  limit?: number;
  cursor?: string;
}

export interface PawlSaverOptions extends PawlOptions {
  /** A client in place of a URL. */
  client?: Pawl;
  serde?: SerializerProtocol;
}

/**
 * Keeps the checkpoints of LangGraph.js in Pawl.
 *
 * A thread is a task of the type `langgraph.thread`. To put a checkpoint is one request, and so is
 * to read the newest one, unless it has large values that this saver has neither read nor written
 * last. A value of a channel is stored once, whatever number of checkpoints have it, and a large one
 * as what differs from the version before. `pawl checkpoint list` shows what there is.
 */
export class PawlSaver extends BaseCheckpointSaver {
  readonly #pawl: Pawl;
  readonly #format: Format;
  readonly #known = new Threads();

  constructor(url = "http://127.0.0.1:7033", { client, serde, ...options }: PawlSaverOptions = {}) {
    super(serde);
    this.#pawl = client ?? pawl(url, options);
    this.#format = new Format(this.serde);
  }

  /**
   * A version that no other branch of the thread has: a whole number and a random fraction. A value
   * is stored under its version, so that two values never have the same one.
   */
  override getNextVersion(current: number | undefined): number {
    return Math.floor(current ?? 0) + 1 + Math.random();
  }

  /** Reads a checkpoint, or the newest one of the thread and namespace. */
  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    if (config.configurable?.thread_id === undefined) return undefined;
    const query = queryOf(threadOf(config), namespaceOf(config), undefined, getCheckpointId(config));
    for (let left = 2; ; left--) {
      try {
        return await this.#newest({ ...query, limit: 1 });
      } catch (error) {
        if (!(error instanceof Gone) || left === 0) throw error; // it was removed meanwhile
      }
    }
  }

  async #newest(query: Query): Promise<CheckpointTuple | undefined> {
    for await (const row of this.#rows(query)) {
      const { thread, namespace } = row.snapshot as Snapshot;
      const known = this.#known.of(thread);
      const { newest } = known;
      const reading = new Reading(known.task === row.task_id ? known.values.values() : []);
      const tuple = await this.#whole(row, reading);
      if (known.newest === newest && (newest === undefined || known.task === row.task_id)) {
        known.ofTask(row.task_id);
        for (const [channel, value] of reading.values) {
          known.values.set(channelKey(namespace, channel), value);
          known.refs.set(channelKey(namespace, channel), refOf(value));
        }
        this.#known.bound();
      }
      return tuple;
    }
    return undefined;
  }

  /** Reads checkpoints, newest first: of a thread and namespace, of a thread, or of all threads. `filter` compares members of the metadata. */
  async *list(config: RunnableConfig, { limit, before, filter }: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { thread_id, checkpoint_ns, checkpoint_id } = config.configurable ?? {};
    const earlier: string | undefined = before?.configurable?.checkpoint_id;
    const threads = thread_id === undefined ? await this.#threads() : [threadOf(config)];
    let left = limit ?? Infinity;
    for (const thread of threads) {
      const query = queryOf(thread, checkpoint_ns, filter, checkpoint_id);
      const reading = new Reading([]);
      for await (const row of this.#rows({ ...query, limit: filter ? 100 : Math.max(1, Math.min(left, 100)) })) {
        if (left <= 0) return;
        const s = row.snapshot as Snapshot;
        if ((checkpoint_id && s.id !== checkpoint_id) || (earlier && s.id >= earlier)) continue;
        if (filter && !(await this.#fits(s, filter))) continue;
        const tuple = await this.#whole(row, reading).catch((error: unknown) => {
          if (!(error instanceof Gone)) throw error;
          return undefined; // it was removed meanwhile
        });
        if (!tuple) continue;
        left--;
        yield tuple;
      }
    }
  }

  /**
   * Stores a checkpoint and the new values of its channels, in one transaction. A large value is sent as
   * what differs from the last one of its channel that the saver knows. That one is there: the append is
   * refused if the task has another newest checkpoint than the saver knows of.
   */
  async put(config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, newVersions: ChannelVersions): Promise<RunnableConfig> {
    const known = this.#known.of(threadOf(config));
    await known.inTurn(async () => {
      for (;;) {
        const values = known.newest === undefined ? new Map<string, Stored>() : known.values;
        const find = this.#finder(config, known);
        const { body, stored } = await this.#format.put(config, checkpoint, metadata, newVersions, values, find);
        const only = values.size > 0 && known.task !== undefined;
        const { create: _, ...rest } = body;
        try {
          await this.#append(only ? { ...rest, task_id: known.task!, expected: known.newest! } : body, known);
        } catch (error) {
          if (!only || !(error instanceof PawlError && (error.code === "conflict" || missing(error)))) throw error;
          known.forget(); // another program has changed the thread
          continue;
        }
        for (const [key, value] of stored) {
          known.values.set(key, value);
          known.refs.set(key, refOf(value));
        }
        return;
      }
    });
    this.#known.bound();
    return configOf(threadOf(config), namespaceOf(config), checkpoint.id);
  }

  /** Finds where a value is that a put does not store: as the saver knows, or as the checkpoint before says. */
  #finder(config: RunnableConfig, known: Thread): (channel: string, version: string) => Promise<Ref | undefined> {
    const [ns, id] = [namespaceOf(config), getCheckpointId(config)];
    let before: Promise<{ [channel: string]: Ref }> | undefined;
    const read = async (): Promise<{ [channel: string]: Ref }> => {
      const query = { task_type: THREAD_TYPE, task_key: keyOf(threadOf(config)), own: true, name: [nameOf("c", ns, id)], limit: 1 };
      const [row] = id ? await this.#all(query) : [];
      return row ? this.#format.refs(row) : {};
    };
    return async (channel, version) => {
      const ref = known.refs.get(channelKey(ns, channel));
      if (ref && isOf(ref, ns, channel, version)) return ref;
      const found = (await (before ??= read()))[channel];
      return found && isOf(found, ns, channel, version) ? found : undefined;
    };
  }

  /** Stores pending writes of a checkpoint, in one transaction. */
  async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    const known = this.#known.of(threadOf(config));
    await known.inTurn(async () => this.#append(await this.#format.writes(config, writes, taskId, taskPath), known));
  }

  /** Deletes a thread: its task, with all checkpoints. The record keeps one event. */
  async deleteThread(threadId: string): Promise<void> {
    const query = { task_type: THREAD_TYPE, task_key: keyOf(threadId), brief: true, limit: 1 };
    for await (const { task_id } of this.#rows(query)) {
      try {
        await again(() => this.#pawl.DELETE("/v1/tasks/{id}", { params: { path: { id: task_id } } }));
      } catch (error) {
        if (!missing(error)) throw error; // another call has deleted it
      }
      return;
    }
  }

  async #fits(s: Snapshot, filter: { [name: string]: unknown }): Promise<boolean> {
    const metadata = (await this.#format.metadataOf(s)) as unknown as { [name: string]: unknown };
    return Object.entries(filter).every(([name, value]) => metadata[name] === value);
  }

  /** To repeat an append changes nothing, so it needs no idempotency key. */
  async #append(body: Append, known: Thread): Promise<void> {
    for (const call of appends(body)) {
      const item = body.expected === undefined ? call : { ...call, expected: known.newest! };
      const before = known.newest;
      const { results } = await again(() => this.#pawl.POST("/v1/tasks:append", { body: { items: [item] } }));
      const { error, value } = results[0]!;
      if (error) throw new PawlError(error);
      known.ofTask(value!.task_id);
      const made = value!.checkpoints.filter((c) => !c.kept).length;
      if (before === undefined || value!.newest - made !== before) known.values = new Map(); // what was read before may be gone
      known.newest = value!.newest;
    }
  }

  /** Checkpoints as the server has them. A thread that does not exist has none. */
  async *#rows(query: Query): AsyncGenerator<Row> {
    for (let cursor: string | undefined; ; ) {
      const params = { query: { ...query, ...(cursor ? { cursor } : {}) } };
      const page = await again(() => this.#pawl.GET("/v1/checkpoints", { params })).catch((error: unknown) => {
        if (!missing(error)) throw error;
        return undefined;
      });
      if (!page) return;
      yield* page.items;
      cursor = page.next;
      if (!cursor) return;
    }
  }

  async #all(query: Query): Promise<Row[]> {
    const out: Row[] = [];
    for await (const row of this.#rows(query)) out.push(row);
    return out;
  }

  /** A checkpoint with the values of its channels and its writes. */
  async #whole(row: Row, reading: Reading): Promise<CheckpointTuple> {
    const s = row.snapshot as Snapshot;
    const of = { task_type: THREAD_TYPE, task_key: keyOf(s.thread), own: true, limit: 1000 };
    const refs = await this.#format.refs(row);
    let found = row.refs ?? [];
    if (row.refs_left || !(row.metadata as { refs?: unknown } | null)?.refs) {
      const all = new Map(found.map((r) => [r.name, r]));
      const small = Object.values(refs).flatMap((ref) => (ref.length === 1 ? [ref[0]] : []));
      for (const name_prefix of [...small, nameOf("w", s.namespace, s.id)]) {
        for (const r of await this.#all({ ...of, name_prefix })) all.set(r.name, r);
      }
      found = [...all.values()];
    }
    const pieces = new Map<string, Row[]>();
    for (const r of found) {
      if (!r.name?.startsWith("b/")) continue;
      const of = r.name.replace(/[^/]*\/$/, "");
      pieces.set(of, [...(pieces.get(of) ?? []), r]);
    }
    reading.values = new Map();
    for (const [channel, ref] of Object.entries(refs)) {
      const [name] = ref;
      if (ref.length > 1) reading.values.set(channel, reading.known.get(name) ?? (await this.#large(of, s.namespace, channel, ref, reading)));
      else if (pieces.has(name)) {
        const version = decodeURIComponent(name.split("/").at(-2)!);
        reading.values.set(channel, new Chain(version, wholeOf(pieces.get(name)!)).stored(name, version));
      }
    }
    const writes = found.flatMap((r) => (r.name?.startsWith("w/") ? [r.snapshot as Write] : []));
    const tuple = await this.#format.tupleOf(row, reading.values, writes);
    if (tuple.checkpoint.v < 4 && s.parent) await this.#migrate(tuple.checkpoint, s);
    return tuple;
  }

  /** A large value, with what it is made of. */
  async #large(of: Query, namespace: string, channel: string, ref: Ref, reading: Reading): Promise<Stored> {
    const [name, version, base] = ref as [string, string, string];
    const whole = nameOf("b", namespace, channel, base);
    let chain = reading.chains.get(whole);
    if (!chain) reading.chains.set(whole, (chain = new Chain(base, wholeOf(await this.#all({ ...of, name_prefix: whole })))));
    if (!chain.has(version)) chain.add(await this.#all({ ...of, name_prefix: nameOf("d", namespace, channel, base) }));
    return chain.stored(name, version);
  }

  /** Adds what LangGraph kept as pending sends before version 4: writes of the checkpoint's parent. */
  async #migrate(checkpoint: Checkpoint, { thread, namespace, parent }: Snapshot): Promise<void> {
    const before = await this.getTuple(configOf(thread, namespace, parent!));
    const sends = (before?.pendingWrites ?? []).filter(([, channel]) => channel === TASKS).map(([, , value]) => value);
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_values[TASKS] = sends;
    checkpoint.channel_versions[TASKS] = versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
  }

  /** All threads, the newest first. */
  async #threads(): Promise<string[]> {
    const out: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const query = { type: [THREAD_TYPE], limit: 1000, ...(cursor ? { cursor } : {}) };
      const page = await again(() => this.#pawl.GET("/v1/tasks", { params: { query } }));
      out.push(...page.items.map((t) => (t.payload as { thread_id: string }).thread_id));
      cursor = page.next;
      if (!cursor) return out;
    }
  }
}

/** Reads checkpoints of a thread with what they refer to, large values once. */
class Reading {
  readonly known: ReadonlyMap<string, Stored>; // by what their names begin with
  readonly chains = new Map<string, Chain>();
  values = new Map<string, Stored>(); // of the channels of the checkpoint that was read last

  constructor(known: Iterable<Stored>) {
    this.known = new Map([...known].map((v) => [v.ref, v]));
  }
}

const missing = (error: unknown) => error instanceof PawlError && error.code === "not_found";

/** What selects checkpoints of a thread, newest first, with what they refer to. */
function queryOf(thread: string, namespace: string | undefined, filter?: object, id?: string): Query {
  const found = Object.entries(foundBy(filter ?? {})).filter(([, v]) => typeof v !== "boolean");
  return {
    task_type: THREAD_TYPE,
    task_key: keyOf(thread),
    own: true,
    order: "desc",
    refs: true,
    ...(namespace !== undefined && id ? { name: [nameOf("c", namespace, id)] } : { name_prefix: namespace === undefined ? "c/" : nameOf("c", namespace) }),
    ...(found.length > 0 ? { metadata: Object.fromEntries(found.map(([k, v]) => [k, String(v)])) } : {}),
  };
}
