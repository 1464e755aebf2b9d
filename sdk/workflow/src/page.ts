import type { PaginatedResponse, PaginationOptions } from "@workflow/world";

/** Which of n things are on a page. A cursor is the number of things before or, in descending order, below it. */
export function pageOf(n: number, { limit = 100, cursor, sortOrder = "asc" }: PaginationOptions): { from: number; until: number; cursor: string; hasMore: boolean } {
  const at = cursor === undefined ? NaN : Number(cursor);
  if (sortOrder === "desc") {
    const until = Math.min(Number.isInteger(at) && at >= 0 ? at : n, n);
    const from = Math.max(0, until - limit);
    return { from, until, cursor: String(from), hasMore: from > 0 };
  }
  const from = Math.min(Number.isInteger(at) && at >= 0 ? at : 0, n);
  const until = Math.min(n, from + limit);
  return { from, until, cursor: String(until), hasMore: until < n };
}

/** A page of things that are in their order of creation. */
export function page<T>(all: T[], options: PaginationOptions = {}): PaginatedResponse<T> {
  const { from, until, cursor, hasMore } = pageOf(all.length, options);
  const data = all.slice(from, until);
  return { data: options.sortOrder === "desc" ? data.reverse() : data, cursor, hasMore };
}
