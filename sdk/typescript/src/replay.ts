import { createHash, randomUUID } from "node:crypto";
import type { ToolSet } from "ai";
import { fence, report, type Lease, type Pawl, type Schemas } from "./client.ts";
import { begin, type Going } from "./trace.ts";
import type { Writer } from "./writer.ts";

/** Where tools that have run are looked up, and kept. */
export interface Memory {
  pawl: Pawl;
  lease: Lease;
  writer: Writer;
  signal: AbortSignal;
  /** The checkpoints of earlier attempts, by name. */
  steps: { [name: string]: Schemas["Checkpoint"] };
  /** The number of the step under way, from 1. */
  step: number;
}

/**
 * The same tools, each run once for a call in a step: its result is saved before it
 * is used, and an attempt that makes the step again gets it without running. A call is
 * known by the step, the tool, its input, and which of several equal ones it is. An item that was
 * sent back for rework runs its tools again.
 */
export function recorded<TOOLS extends ToolSet>(tools: TOOLS, record: Memory): TOOLS {
  const seen = new Map<string, number>();
  const again = record.lease.rework ? `rework ${record.lease.rework}:` : "";
  const out: ToolSet = {};
  for (const [name, tool] of Object.entries(tools)) {
    const execute = tool.execute;
    if (!execute) {
      out[name] = tool;
      continue;
    }
    const once = (input: unknown, options: Parameters<typeof execute>[1]) => {
      const call = `tool:${again}${record.step}:${name.slice(0, 120)}:${fingerprint(input)}`;
      const nth = (seen.get(call) ?? 0) + 1;
      seen.set(call, nth);
      const key = `${call}:${nth}`;
      const known = record.steps[key];
      if (known) return (known.snapshot as { output: unknown }).output;
      const about = { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": options.toolCallId };
      const span = begin(`execute_tool ${name}`, "INTERNAL", { ...about, "pawl.item.id": record.lease.id });
      const save = (output: unknown) => keep(record, key, name, input, output);
      try {
        const result: unknown = span.within(() => execute(input as never, options));
        return isStream(result) ? streamed(result, span, save) : settled(result, span, save);
      } catch (error) {
        span.end(error ?? new Error("undefined was thrown"));
        throw error;
      }
    };
    out[name] = { ...tool, execute: once } as ToolSet[string];
  }
  return out as TOOLS;
}

async function settled(result: unknown, span: Going, save: (output: unknown) => Promise<void>): Promise<unknown> {
  try {
    const output = await result;
    await save(output);
    span.end();
    return output;
  } catch (error) {
    span.end(error ?? new Error("undefined was thrown"));
    throw error;
  }
}

/** Of a tool that yields what it has so far, the last is its result. */
async function* streamed(result: AsyncIterable<unknown>, span: Going, save: (output: unknown) => Promise<void>): AsyncGenerator<unknown> {
  let output: unknown;
  try {
    for await (output of result) yield output;
    await save(output);
  } catch (error) {
    span.end(error ?? new Error("undefined was thrown"));
    throw error;
  } finally {
    span.end();
  }
}

function isStream(v: unknown): v is AsyncIterable<unknown> {
  return typeof v === "object" && v !== null && Symbol.asyncIterator in v;
}

async function keep({ pawl, lease, writer, signal }: Memory, name: string, tool_name: string, input: unknown, output: unknown): Promise<void> {
  const snapshot = { tool_name, input: input ?? null, output: output ?? null };
  const body = { ...fence(lease), type: "tool_executed" as const, name, snapshot };
  const header = { "Idempotency-Key": randomUUID() }; // a call whose answer was lost saves nothing twice
  await writer.try(() => report(() => pawl.POST("/v1/items/{id}:checkpoint", { params: { path: { id: lease.id }, header }, body }), signal)); // also when the signal has ended: the tool has run
  signal.throwIfAborted();
}

/** The same for equal JSON, whatever the order of its members. */
function fingerprint(value: unknown): string {
  const text = JSON.stringify(value ?? null, (_, v: unknown) =>
    v && typeof v === "object" && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v,
  );
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}
