/** Thrown by a handler: the item fails for good, whatever is left of its attempts. */
export class Permanent extends Error {
  override readonly name = "Permanent";
  /** Of the item's error, for programs; "" = none. */
  readonly code: string;
  constructor(message: string, options: ErrorOptions & { code?: string } = {}) {
    super(message, options);
    this.code = options.code ?? "";
  }
}

/** Thrown by a handler: the item fails, and its next attempt comes after `seconds`, 0 = at once. */
export class RetryAfter extends Error {
  override readonly name = "RetryAfter";
  readonly seconds: number;
  constructor(seconds: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.seconds = seconds;
  }
}

/** What an error says, in a form that the server takes. */
export function wordsOf(error: unknown): string {
  const said = (error instanceof Error ? error.message || error.name : String(error)) || "unknown error";
  return Array.from(said, (c) => (/[\0\ud800-\udfff]/.test(c) && c.length === 1 ? "\ufffd" : c)).slice(0, 4000).join("");
}
