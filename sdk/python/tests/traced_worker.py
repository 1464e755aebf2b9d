"""A worker that sends its spans to a collector, as its users write one: python traced_worker.py SERVER TYPE."""

from __future__ import annotations

import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import pawl
from pawl.tracing import PawlIds

server, kind = sys.argv[1:]
provider = TracerProvider(id_generator=PawlIds())  # its resource has OTEL_SERVICE_NAME
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
worker = pawl.Worker(server, worker_id="py-worker")


@worker.handler(kind)
async def handle(ctx: pawl.AsyncContext) -> str:
    """Fails once, and then runs a step."""
    if ctx.attempt == 1:
        raise pawl.RetryAfter(0, "not yet")

    def think() -> str:
        return "done"

    return await ctx.step("think", think)


worker.run()
provider.shutdown()
