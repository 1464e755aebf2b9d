import { again, type PawlCalls } from "./client.ts";
import type { paths } from "./openapi.ts";

type Answered<P extends keyof paths> = paths[P] extends { get: { responses: { 200: { content: { "application/json": infer A } } } } } ? A : never;

/** What a list has, by its path; `never` for what is no list. */
export type Listed<P extends keyof paths> = Answered<P> extends { items: (infer T)[]; next?: string } ? T : never;

/** The paths of all lists, such as /v1/tasks, /v1/failures or /v1/schedules/{id}/firings. */
export type ListPath = { [P in keyof paths]: [Listed<P>] extends [never] ? never : P }[keyof paths];

export interface Page<T> {
  items: T[];
  /** The cursor of the next page; without it this is the last one. */
  next?: string;
  /** The server has looked at many rows without filling the page: read on at `next`. */
  incomplete?: boolean;
}

/** A list that is read page by page: iterate over it, or read one page. */
export class List<T> implements AsyncIterable<T> {
  /** One page: the first, or the one that a `next` names. */
  readonly page: (cursor?: string) => Promise<Page<T>>;
  constructor(page: (cursor?: string) => Promise<Page<T>>) {
    this.page = page;
  }
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (let page = await this.page(); ; page = await this.page(page.next)) {
      yield* page.items;
      if (!page.next) return;
    }
  }
  /** Everything, in one array. */
  async all(): Promise<T[]> {
    const all: T[] = [];
    for await (const one of this) all.push(one);
    return all;
  }
}

/** The arguments of a call as a list takes them. */
interface Given {
  params?: { path?: object; query?: object };
  signal?: AbortSignal | null;
}

/** The list at a path. A page is asked for again while the server cannot be reached. */
export function listOf<P extends ListPath>(calls: PawlCalls, path: P, init: Given = {}): List<Listed<P>> {
  const get = calls.GET as unknown as (path: P, init: object) => Promise<{ data?: Page<Listed<P>>; error?: unknown; response: Response }>;
  return new List((cursor) => {
    const query = { ...init.params?.query, ...(cursor ? { cursor } : {}) };
    return again(() => get(path, { ...init, params: { ...init.params, query } }), init.signal ?? undefined);
  });
}
