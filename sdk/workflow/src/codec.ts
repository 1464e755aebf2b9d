/** The JSON that is stored and sent: bytes and times keep their types. */
export function encode(value: unknown): unknown {
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") };
  if (value instanceof Date) return { $time: value.toISOString() };
  if (Array.isArray(value)) return value.map((v) => encode(v) ?? null);
  if (typeof value !== "object" || value === null) return value;
  const out: Record<string, unknown> = {};
  for (const [name, v] of Object.entries(value)) if (v !== undefined) out[name.startsWith("$") ? `$${name}` : name] = encode(v);
  return out;
}

export function decode(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(decode);
  if (typeof value !== "object" || value === null) return value;
  if ("$bytes" in value && typeof value.$bytes === "string") return new Uint8Array(Buffer.from(value.$bytes, "base64"));
  if ("$time" in value && typeof value.$time === "string") return new Date(value.$time);
  return Object.fromEntries(Object.entries(value).map(([name, v]) => [name.startsWith("$$") ? name.slice(1) : name, decode(v)]));
}
