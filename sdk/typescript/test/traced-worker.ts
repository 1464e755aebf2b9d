// A worker that sends its spans to a collector, as its users write one: node traced-worker.ts SERVER TYPE.
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { detectResources, envDetector } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { pawl, PawlIds, RetryAfter, work } from "../src/index.ts";

const [server = "", type = ""] = process.argv.slice(2);
const provider = new NodeTracerProvider({
  idGenerator: new PawlIds(),
  resource: detectResources({ detectors: [envDetector] }), // OTEL_SERVICE_NAME
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();
const over = new AbortController();
for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => over.abort());
await work(pawl(server), { workerId: "ts-worker", types: [type], signal: over.signal }, async ({ lease, step, reserve, spawn }) => {
  if (lease.attempt === 1) throw new RetryAfter(0, "not yet");
  const { budget, child } = lease.input as { budget?: string; child?: string };
  if (budget) await (await reserve(budget, 10)).settle(7);
  return step("think", async () => (child ? (await spawn("only", { type: child, payload: {} })).id : "done"));
});
await provider.shutdown();
