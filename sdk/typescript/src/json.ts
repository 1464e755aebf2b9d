/**
 * A value as JSON. It refuses what JSON would change without a word: a number that is not finite, a whole
 * number beyond 2^53, whose last digits are not exact, and a Map or Set, of which nothing would be left.
 */
export function textOf(value: unknown): string {
  const text: string | undefined = JSON.stringify(value, (_, v: unknown) => {
    if (v instanceof Map || v instanceof Set) throw new TypeError(`a ${v.constructor.name} is no value of JSON`);
    if (typeof v !== "number" || Number.isSafeInteger(v)) return v;
    if (!Number.isFinite(v)) throw new TypeError(`${v} is no number of JSON`);
    if (Number.isInteger(v) && Math.abs(v) < 1e21) throw new TypeError(`${v} is beyond 2^53, so its last digits are not exact: write it as a text`);
    return v;
  });
  if (text === undefined) throw new TypeError(`a ${typeof value} is no value of JSON`);
  return text;
}

/** What a value is after its way through JSON. */
export const plain = (value: unknown): unknown => JSON.parse(textOf(value ?? null));
