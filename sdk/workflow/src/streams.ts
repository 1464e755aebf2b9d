import { again, PawlError, type Chunk, type Pawl, type Schemas } from "@pawl-work/sdk";
import type { GetChunksOptions, StreamChunksResponse, StreamInfoResponse } from "@workflow/world";
import { setTimeout as pause } from "node:timers/promises";
import { follow } from "./follow.ts";
import { pageOf } from "./page.ts";
import type { Runs } from "./runs.ts";

type Opened = Schemas["OpenedMessage"];

/** A stream as one program writes it: one append after the other. */
interface Writer {
  message: Promise<Opened>;
  offset: number;
  last: Promise<unknown>;
}

const batch = 100; // chunks in an append

/** The streams of runs: each is a message that the run's task has itself, in a thread of the stream's name. */
export class Streams {
  readonly #pawl: Pawl;
  readonly #runs: Runs;
  readonly #place: { url: string; headers: Record<string, string> };
  readonly #writers = new Map<string, Writer>();

  constructor(pawl: Pawl, runs: Runs, place: { url: string; headers: Record<string, string> }) {
    this.#pawl = pawl;
    this.#runs = runs;
    this.#place = place;
  }

  write = (runId: string, name: string, chunk: string | Uint8Array) => this.writeMulti(runId, name, [chunk]);

  writeMulti = async (runId: string, name: string, chunks: (string | Uint8Array)[]): Promise<void> => {
    const said = chunks.map((c): Chunk => ({ type: "data", data: Buffer.from(c as Uint8Array).toString("base64") }));
    await this.#inTurn(runId, name, async (w, { id, writer }) => {
      for (let from = 0; from < said.length; from += batch) {
        const part = said.slice(from, from + batch);
        for (;;) {
          try {
            const body = { writer: writer ?? "", offset: w.offset, chunks: part };
            w.offset = (await again(() => this.#pawl.POST("/v1/messages/{id}:append", { params: { path: { id } }, body }))).offset;
            break;
          } catch (error) {
            const expected = error instanceof PawlError ? error.problem.expected : undefined;
            if (expected === undefined) throw error;
            w.offset = expected; // another program wrote to it
          }
        }
      }
    });
  };

  close = async (runId: string, name: string): Promise<void> => {
    await this.#inTurn(runId, name, async (_, { id, writer, status }) => {
      if (status !== "streaming") return;
      await again(() => this.#pawl.POST("/v1/messages/{id}:finish", { params: { path: { id } }, body: { writer: writer ?? "" } })).catch((error: unknown) => {
        if (!(error instanceof PawlError) || error.code !== "conflict") throw error; // it is closed already
      });
    });
    this.#writers.delete(`${runId} ${name}`);
  };

  get = async (runId: string, name: string, startIndex = 0): Promise<ReadableStream<Uint8Array>> => {
    const gone = new AbortController();
    const message = await this.#there(runId, name);
    if (!message) return new ReadableStream<Uint8Array>({ start: (to) => to.close() });
    const frames = follow(this.#place, message.id, startIndex, gone.signal);
    return new ReadableStream<Uint8Array>({
      async pull(to) {
        const { value, done } = await frames.next();
        if (done) to.close();
        else for (const c of value.chunks) to.enqueue(bytesOf(c.data));
      },
      cancel: () => gone.abort(),
    });
  };

  list = async (runId: string): Promise<string[]> => {
    const { taskId } = await this.#runs.read(runId);
    const names = new Set<string>();
    for (let cursor: string | undefined; ; ) {
      const query = { task: taskId, limit: 1000, ...(cursor ? { cursor } : {}) };
      const page = await again(() => this.#pawl.GET("/v1/messages", { params: { query } }));
      for (const m of page.items) if (m.offset > 0 || m.status !== "streaming") names.add(m.thread ?? ""); // the others were only read
      if (!(cursor = page.next)) return [...names];
    }
  };

  getChunks = async (runId: string, name: string, options: GetChunksOptions = {}): Promise<StreamChunksResponse> => {
    const message = await this.#there(runId, name);
    if (!message) return { data: [], cursor: null, hasMore: false, done: true };
    const { id, offset, status } = message;
    const { from, until, cursor, hasMore } = pageOf(offset, options);
    const data: StreamChunksResponse["data"] = [];
    const enough = new AbortController();
    if (from < until) {
      for await (const { offset: at, chunks } of follow(this.#place, id, from, enough.signal)) {
        chunks.forEach((c, n) => at + n < until && data.push({ index: at + n, data: bytesOf(c.data) }));
        if (at + chunks.length >= until) break;
      }
      enough.abort();
    }
    return { data, cursor: hasMore ? cursor : null, hasMore, done: status !== "streaming" };
  };

  getInfo = async (runId: string, name: string): Promise<StreamInfoResponse> => {
    const message = await this.#there(runId, name);
    return message ? { tailIndex: message.offset - 1, done: message.status !== "streaming" } : { tailIndex: -1, done: true };
  };

  /** The message of a stream for a reader; undefined if the run has ended without it. */
  async #there(runId: string, name: string): Promise<Opened | undefined> {
    try {
      return await this.#open(runId, name);
    } catch (error) {
      if (error instanceof PawlError && error.code === "conflict") return undefined;
      throw error;
    }
  }

  /** The message of a stream, which is opened if it is not there: a reader may be earlier than the writer. */
  async #open(runId: string, name: string): Promise<Opened> {
    const { taskId } = await this.#runs.read(runId);
    const body = { role: "assistant", thread: name, on_conflict: "return" };
    return again(() => this.#pawl.POST("/v1/tasks/{id}/messages", { params: { path: { id: taskId } }, body }));
  }

  async #inTurn(runId: string, name: string, fn: (w: Writer, m: Opened) => Promise<void>): Promise<void> {
    const at = `${runId} ${name}`;
    let w = this.#writers.get(at);
    if (!w) this.#writers.set(at, (w = { message: this.#soon(runId, name), offset: 0, last: Promise.resolve() }));
    const writer = w;
    const turn = writer.last.catch(() => {}).then(async () => fn(writer, await writer.message));
    writer.last = turn;
    await turn.catch((error: unknown) => {
      this.#writers.delete(at);
      throw error;
    });
  }

  /** Opens a stream. The run may be created a moment after the first write. */
  async #soon(runId: string, name: string): Promise<Opened> {
    for (let n = 0; ; n++) {
      try {
        return await this.#open(runId, name);
      } catch (error) {
        if (error instanceof PawlError || n === 20) throw error;
      }
      await pause(250);
    }
  }
}

function bytesOf(data: unknown): Uint8Array {
  return new Uint8Array(Buffer.from(String(data), "base64"));
}
