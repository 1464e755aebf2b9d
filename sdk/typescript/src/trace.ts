import { createHash, randomBytes } from "node:crypto";
import type { Context, Span, SpanContext } from "@opentelemetry/api";
import type { Lease } from "./client.ts";
import type { Outcome } from "./handin.ts";

type Api = typeof import("@opentelemetry/api");

/** The API of OpenTelemetry where the program has it; without it there are no spans. */
let found: Api | undefined;

/**
 * Settles when the API was looked for; calls and workers wait for it. A top-level await instead would keep
 * the package from programs that use require, and from bundles in that form.
 */
export const lookedFor: Promise<void> = import("@opentelemetry/api").then(
  (api) => {
    found = api;
  },
  () => {},
);

const scope = "github.com/pawl-work/pawl";

/** Of a span. The declarations of the package must not need those of the optional `@opentelemetry/api`. */
export type Attributes = { [name: string]: string | number | boolean | string[] | undefined };

type Kind = "INTERNAL" | "CLIENT" | "PRODUCER";

/** The ids of spans that were asked for by the attempt that starts now; see PawlIds. */
let asked: { trace: string; span: string } | undefined;

/**
 * An idGenerator for a TracerProvider. The ids of attempts follow from the item and the number
 * of the attempt, so an attempt links to the one before it also when that died in another
 * process. All other ids are random.
 */
export class PawlIds {
  generateTraceId(): string {
    return asked?.trace ?? randomBytes(16).toString("hex");
  }
  generateSpanId(): string {
    return asked?.span ?? randomBytes(8).toString("hex");
  }
}

const hash = (of: string, bytes: number) => createHash("sha256").update(`pawl:${of}`).digest("hex").slice(0, 2 * bytes);
const spanOf = (id: string, attempt: number) => hash(`${id}/${attempt}`, 8);

/** The headers of the active span, or else of the task of a claim. */
export function traceHeaders(lease?: Lease): { traceparent?: string; tracestate?: string } {
  const api = found;
  const at = api?.trace.getSpanContext(api.context.active());
  if (api && at && api.isSpanContextValid(at)) {
    const tracestate = at.traceState?.serialize();
    return { traceparent: `00-${at.traceId}-${at.spanId}-${at.traceFlags.toString(16).padStart(2, "0")}`, ...(tracestate ? { tracestate } : {}) };
  }
  return lease?.traceparent ? { traceparent: lease.traceparent, ...(lease.tracestate ? { tracestate: lease.tracestate } : {}) } : {};
}

/** The context that continues the trace context of a claim's task. */
function remote(api: Api, { traceparent, tracestate }: Lease): Context {
  const [, traceId, spanId, flags] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(traceparent ?? "") ?? [];
  if (!traceId || !spanId || !flags) return api.ROOT_CONTEXT;
  const at: SpanContext = { traceId, spanId, traceFlags: parseInt(flags, 16), isRemote: true, ...(tracestate ? { traceState: api.createTraceState(tracestate) } : {}) };
  return api.trace.setSpanContext(api.ROOT_CONTEXT, at);
}

/** The span of an attempt; without OpenTelemetry it does nothing. */
export interface Attempt {
  /** What log lines say of it. */
  about: { trace_id?: string; span_id?: string };
  within<T>(fn: () => T): T;
  end(outcome: Outcome | undefined, cancelled: boolean): void;
}

const outcomes = { complete: "completed", submit: "completed", fail: "failed", suspend: "suspended", release: "released" };

/** Starts the span of an attempt: a child of the span that created the task, and linked to it. */
export function attempt(lease: Lease): Attempt {
  const api = found;
  if (!api) return { about: {}, within: (fn) => fn(), end: () => {} };
  const parent = remote(api, lease);
  const creator = api.trace.getSpanContext(parent);
  const attributes: Attributes = {
    "messaging.system": "pawl",
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
    "messaging.destination.name": lease.type,
    "messaging.message.id": lease.id,
    "pawl.task.id": lease.task_id,
    "pawl.item.id": lease.id,
    "pawl.item.type": lease.type,
    "pawl.attempt": lease.attempt,
    "pawl.worker.id": lease.worker_id,
  };
  const links = creator ? [{ context: creator, attributes: { "pawl.link": "creator" } }] : [];
  asked = { trace: hash(lease.id, 16), span: spanOf(lease.id, lease.attempt) };
  let span: Span;
  try {
    span = api.trace.getTracer(scope).startSpan(`process ${lease.type}`, { kind: api.SpanKind.CONSUMER, attributes, links }, parent);
  } finally {
    asked = undefined;
  }
  const at = span.spanContext();
  if (lease.attempt > 1 && at.spanId === spanOf(lease.id, lease.attempt)) {
    span.addLink({ context: { ...at, spanId: spanOf(lease.id, lease.attempt - 1) }, attributes: { "pawl.link": "previous_attempt" } });
  }
  const context = api.trace.setSpan(parent, span);
  return {
    about: api.isSpanContextValid(at) ? { trace_id: at.traceId, span_id: at.spanId } : {},
    within: (fn) => api.context.with(context, fn),
    end(outcome, cancelled) {
      span.setAttribute("pawl.outcome", outcome ? outcomes[outcome.verb] : cancelled ? "cancelled" : "lease_lost");
      if (outcome?.verb === "fail") failed(span, outcome.error.code ?? "_OTHER", outcome.error.message);
      span.end();
    },
  };
}

function failed(span: Span, type: string, message: string): void {
  span.setAttribute("error.type", type);
  span.setStatus({ code: found!.SpanStatusCode.ERROR, message });
}

/** A span that is under way; without OpenTelemetry it does nothing. */
export interface Going {
  within<T>(fn: () => T): T;
  set(attributes: Attributes): void;
  /** An error that says Suspended is none. */
  end(error?: unknown): void;
}

const none: Going = { within: (fn) => fn(), set: () => {}, end: () => {} };

/** Starts a span below the active one. */
export function begin(name: string, kind: Kind, attributes: Attributes): Going {
  const api = found;
  if (!api) return none;
  const at = api.context.active();
  const span = api.trace.getTracer(scope).startSpan(name, { kind: api.SpanKind[kind], attributes }, at);
  const inner = api.trace.setSpan(at, span);
  let ended = false;
  return {
    within: (fn) => api.context.with(inner, fn),
    set: (more) => void span.setAttributes(more),
    end(error) {
      if (ended) return;
      ended = true;
      if (error !== undefined && !(error instanceof Error && error.name === "Suspended")) {
        const code = error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
        failed(span, code || "_OTHER", error instanceof Error ? error.message : String(error));
      }
      span.end();
    },
  };
}

/** Runs a function in a span. */
export async function inSpan<T>(name: string, kind: Kind, attributes: Attributes, fn: (span: Going) => Promise<T> | T): Promise<T> {
  const span = begin(name, kind, attributes);
  try {
    const result = await span.within(() => fn(span));
    span.end();
    return result;
  } catch (error) {
    span.end(error ?? new Error("undefined was thrown"));
    throw error;
  }
}

/** Returns a function that adds what is settled of a budget to the attribute pawl.cost.BUDGET of the active span. */
export function costs(): (budget: string, amount: number) => void {
  const sums = new Map<string, number>();
  return (budget, amount) => {
    const span = found?.trace.getActiveSpan();
    if (!span) return;
    const key = `${span.spanContext().spanId} ${budget}`;
    const sum = (sums.get(key) ?? 0) + amount;
    sums.set(key, sum);
    span.setAttribute(`pawl.cost.${budget}`, sum);
  };
}

/** Says on the active span that a step's saved result was returned. */
export function replayedStep(name: string): void {
  found?.trace.getActiveSpan()?.addEvent("pawl.step.replayed", { "pawl.step.name": name });
}

/** The name of a step's span: what follows an @ is left out. */
export const stepSpan = (name: string): string => `step ${name.split("@", 1)[0]}`;

/** What the conventions for generative AI call the providers of the AI SDK that they name otherwise. */
const providers: { [name: string]: string } = {
  "amazon-bedrock": "aws.bedrock",
  azure: "azure.ai.openai",
  google: "gcp.gemini",
  mistral: "mistral_ai",
  vertex: "gcp.vertex_ai",
  xai: "x_ai",
};

/** The attributes of a turn of a model, whose provider the AI SDK calls "openai.responses" or the like. */
export function modelAttributes(model: { modelId: string; provider: string } | string): Attributes {
  const id = typeof model === "string" ? model : model.modelId;
  const [name = ""] = (typeof model === "string" ? "" : model.provider).split(".", 1);
  const provider = providers[name] ?? name;
  return { "gen_ai.operation.name": "chat", "gen_ai.request.model": id, ...(provider ? { "gen_ai.provider.name": provider } : {}) };
}
