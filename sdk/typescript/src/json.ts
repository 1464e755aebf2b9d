/**
 * What a value is after its way through JSON. It refuses what JSON would change without a word: a
 * number that is not finite, and a whole number beyond 2^53, whose last digits are not exact.
 */
export function plain(value: unknown): unknown {
  const text: string | undefined = JSON.stringify(value ?? null, (_, v: unknown) => {
    if (typeof v !== "number" || Number.isSafeInteger(v)) return v;
    if (!Number.isFinite(v)) throw new TypeError(`${v} is no number of JSON`);
    if (Number.isInteger(v) && Math.abs(v) < 1e21) throw new TypeError(`${v} is beyond 2^53, so its last digits are not exact: write it as a text`);
    return v;
  });
  if (text === undefined) throw new TypeError(`a ${typeof value} is no value of JSON`);
  return JSON.parse(text);
}
