import type { RunnableConfig } from "@langchain/core/runnables";
import { BaseCheckpointSaver, getCheckpointId, maxChannelVersion, TASKS, type ChannelVersions, type Checkpoint, type CheckpointListOptions, type CheckpointMetadata, type CheckpointTuple, type PendingWrite, type SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { again, pawl, PawlError, type Pawl, type PawlOptions } from "@pawl-work/sdk";
import { appends, configOf, Format, foundBy, keyOf, nameOf, namespaceOf, THREAD_TYPE, threadOf, type Append, type Row, type Snapshot } from "./format.ts";

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
 * to read the newest one. A value of a channel is stored once, whatever number of checkpoints have
 * it, and large values as differences from the version before. `pawl checkpoint list` shows what
 * there is.
 */
export class PawlSaver extends BaseCheckpointSaver {
  readonly #pawl: Pawl;
  readonly #format: Format;

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
    for await (const row of this.#rows({ ...query, limit: 1 })) return this.#whole(row);
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
      for await (const row of this.#rows({ ...query, limit: filter ? 100 : Math.max(1, Math.min(left, 100)) })) {
        if (left <= 0) return;
        const s = row.snapshot as Snapshot;
        if ((checkpoint_id && s.id !== checkpoint_id) || (earlier && s.id >= earlier)) continue;
        if (filter && !(await this.#fits(s, filter))) continue;
        left--;
        yield await this.#whole(row);
      }
    }
  }

  /** Stores a checkpoint and the new values of its channels, in one transaction. */
  async put(config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, newVersions: ChannelVersions): Promise<RunnableConfig> {
    await this.#append(await this.#format.put(config, checkpoint, metadata, newVersions));
    return configOf(threadOf(config), namespaceOf(config), checkpoint.id);
  }

  /** Stores pending writes of a checkpoint, in one transaction. */
  async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    await this.#append(await this.#format.writes(config, writes, taskId, taskPath));
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
  async #append(body: Append): Promise<void> {
    for (const call of appends(body)) {
      const { results } = await again(() => this.#pawl.POST("/v1/tasks:append", { body: { items: [call] } }));
      const error = results[0]?.error;
      if (error) throw new PawlError(error);
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

  /** A checkpoint with what it refers to, which a large one needs more requests for. */
  async #whole(row: Row): Promise<CheckpointTuple> {
    const s = row.snapshot as Snapshot;
    let refs = row.refs ?? [];
    if (row.refs_left || !(row.metadata as { refs?: unknown } | null)?.refs) {
      const of = { task_type: THREAD_TYPE, task_key: keyOf(s.thread), own: true, limit: 1000 };
      const found = new Map(refs.map((r) => [r.name, r]));
      for (const name_prefix of [...s.values, nameOf("w", s.namespace, s.id)]) {
        for await (const r of this.#rows({ ...of, name_prefix })) found.set(r.name, r);
      }
      refs = [...found.values()];
    }
    const tuple = await this.#format.tupleOf(row, refs);
    if (tuple.checkpoint.v < 4 && s.parent) await this.#migrate(tuple.checkpoint, s);
    return tuple;
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
