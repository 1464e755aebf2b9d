import { createHash } from "node:crypto";

/** SHA-256, in hex, of a value's JSON with its members sorted: what pawl.HashOf makes in Go. */
export function hashOf(value: unknown): string {
  const json: unknown = JSON.parse(JSON.stringify(value ?? null)); // undefined members, dates and toJSON are gone
  return createHash("sha256").update(canonical(json)).digest("hex");
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value).sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    return `{${members.map(([name, v]) => `${text(name)}:${canonical(v)}`).join(",")}}`;
  }
  return typeof value === "string" ? text(value) : JSON.stringify(value);
}

/** A text as Go's encoding/json writes it. */
function text(s: string): string {
  return JSON.stringify(s).replace(/[<>&\u2028\u2029]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}
