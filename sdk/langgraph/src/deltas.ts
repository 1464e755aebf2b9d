// Values that are stored as what differs from an earlier version, and what a saver knows of a thread.

export const minDelta = 4096; // bytes of values that are stored as differences
export const maxDelta = 400_000; // inserted bytes of one difference
export const maxDepth = 1000; // differences on one value that is stored whole
export const chainRoom = 64 << 10; // bytes that a value and its differences may have beyond twice its length
const maxEdits = 8; // places of one difference
const near = 16; // bytes that an edit may replace or insert, besides the end
const same = 16; // bytes that are the same after an edit
const maxKnown = 64 << 20; // bytes of values that a saver keeps
const maxThreads = 10_000; // that a saver knows something of

/** A range of the older value, or bytes of the new one. */
export type Op = readonly [from: number, to: number] | Buffer;

/** A part of some bytes. */
export type Segment = readonly [data: Buffer, from: number, to: number];

/** What makes the new value of the old one. It finds a few small edits, and one end or middle of any length. */
export function diff(old: Buffer, next: Buffer): Op[] {
  const ops: Op[] = [];
  let [i, j] = [0, 0];
  for (let edits = 0; edits < maxEdits; edits++) {
    const n = common(old, i, next, j);
    if (n > 0) ops.push([i, i + n]);
    [i, j] = [i + n, j + n];
    const skip = nextSame(old, i, next, j);
    if (!skip) break;
    if (skip[1] > 0) ops.push(next.subarray(j, j + skip[1]));
    [i, j] = [i + skip[0], j + skip[1]];
  }
  const n = commonEnd(old, i, next, j);
  if (j < next.length - n) ops.push(next.subarray(j, next.length - n));
  if (n > 0) ops.push([old.length - n, old.length]);
  return ops;
}

/** How many bytes a difference inserts. */
export const inserted = (ops: readonly Op[]): number => ops.reduce((n, op) => n + (Buffer.isBuffer(op) ? op.length : 0), 0);

/** How many of the most bytes are the same: equal tells it of a part. */
function countSame(most: number, equal: (from: number, to: number) => boolean): number {
  let n = 0;
  for (let step = 64 << 10; n < most; ) {
    const k = Math.min(step, most - n);
    if (equal(n, n + k)) n += k;
    else if (k === 1) break;
    else step = k >> 1;
  }
  return n;
}

/** How many bytes are the same from two places on. */
const common = (a: Buffer, i: number, b: Buffer, j: number): number =>
  countSame(Math.min(a.length - i, b.length - j), (from, to) => a.subarray(i + from, i + to).equals(b.subarray(j + from, j + to)));

/** How many bytes at the ends are the same, not before two places. */
const commonEnd = (a: Buffer, i: number, b: Buffer, j: number): number =>
  countSame(Math.min(a.length - i, b.length - j), (from, to) => a.subarray(a.length - to, a.length - from).equals(b.subarray(b.length - to, b.length - from)));

/** How many bytes of each to skip until they go on in the same way. */
function nextSame(a: Buffer, i: number, b: Buffer, j: number): [number, number] | undefined {
  for (let total = 1; total <= near; total++) {
    for (let skip = 0; skip <= total; skip++) {
      const part = a.subarray(i + skip, i + skip + same);
      const to = j + total - skip;
      if (part.length === same && part.equals(b.subarray(to, to + same))) return [skip, total - skip];
    }
  }
  return undefined;
}

/** The segments of a value that is made of an older one. */
export function compose(older: readonly Segment[], ops: readonly Op[]): Segment[] {
  const ends: number[] = [];
  for (const [, from, to] of older) ends.push((ends.at(-1) ?? 0) + to - from);
  const out: Segment[] = [];
  for (const op of ops) {
    if (Buffer.isBuffer(op)) {
      out.push([op, 0, op.length]);
      continue;
    }
    let at = op[0];
    for (let n = firstAfter(ends, at); at < op[1]; n++) {
      const [data, low] = older[n]!;
      const begin = n > 0 ? ends[n - 1]! : 0;
      const end = Math.min(op[1], ends[n]!);
      out.push([data, low + at - begin, low + end - begin]);
      at = end;
    }
  }
  return out;
}

/** The index of the first of sorted numbers that is greater. */
function firstAfter(sorted: readonly number[], than: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! > than) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The bytes of segments. */
export function joined(segments: readonly Segment[]): Buffer {
  const parts = segments.map(([data, from, to]) => data.subarray(from, to));
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}

/** Where a value is: what its name begins with; of a large one its version, and the one that is stored whole. */
export type Ref = [name: string] | [name: string, version: string, base: string];

/** A value that the server has. */
export interface Stored {
  ref: string; // what its name begins with
  base: string; // the version of the value that is stored whole
  version: string;
  kind: string;
  data: Buffer;
  chain: number; // bytes that are stored of it and what it is made of
  depth: number; // of differences
}

/** The key of a channel's value among those of a thread. */
export const channelKey = (namespace: string, channel: string): string => JSON.stringify([namespace, channel]);

/** What a saver knows of a thread: its task, the number of the task's newest checkpoint, its last values, and where the last values are. */
export class Thread {
  task: string | undefined;
  newest: number | undefined;
  values = new Map<string, Stored>();
  refs = new Map<string, Ref>();
  #last: Promise<unknown> = Promise.resolve();

  /** Runs appends one after the other, so that the number is right. */
  inTurn<T>(run: () => Promise<T>): Promise<T> {
    const out = this.#last.then(run);
    this.#last = out.catch(() => undefined);
    return out;
  }

  /** Forgets what is known of another task. */
  ofTask(task: string): void {
    if (this.task === task) return;
    this.forget();
    this.task = task;
  }

  /** Forgets all: another program has changed the thread. */
  forget(): void {
    [this.task, this.newest, this.values, this.refs] = [undefined, undefined, new Map(), new Map()];
  }

  /** The bytes of its values. */
  get size(): number {
    let n = 0;
    for (const v of this.values.values()) n += v.data.length;
    return n;
  }
}

/** What a saver knows of the threads that it used last. */
export class Threads {
  readonly #threads = new Map<string, Thread>();

  /** What is known of a thread. */
  of(name: string): Thread {
    const out = this.#threads.get(name) ?? new Thread();
    this.#threads.delete(name);
    this.#threads.set(name, out);
    return out;
  }

  /** Forgets what was used longest ago, if the values have too many bytes. */
  bound(): void {
    let left = 0;
    for (const thread of this.#threads.values()) left += thread.size;
    for (const [name, thread] of this.#threads) {
      if ((left <= maxKnown && this.#threads.size <= maxThreads) || this.#threads.size === 1) return;
      left -= thread.size;
      this.#threads.delete(name);
    }
  }
}
