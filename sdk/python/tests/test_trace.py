"""The spans of a worker, and the trace context that its calls carry; docs/traces.md has the table."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

import pawl
import pawl.testing

from .conftest import Kept, Running, ended, until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CREATOR = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=one"}


def create(server: pawl.testing.Server, type: str, headers: dict[str, str] = CREATOR) -> str:
    """Creates a task, with the headers of a creator that traces."""
    response = httpx.post(f"{server.url}/v1/tasks", json={"type": type, "payload": {}}, headers=headers)
    return str(response.json()["id"])


def first_event(client: pawl.Client, task_id: str) -> dict[str, Any]:
    return httpx.get(f"{client._call.connection.url}/v1/tasks/{task_id}/events").json()["items"][0]  # type: ignore[no-any-return]


def about(span: ReadableSpan) -> tuple[str, str]:
    """The trace and the parent of a span."""
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}", f"{span.parent.span_id:016x}" if span.parent else ""


def id_of(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return f"{context.span_id:016x}"


def linked(span: ReadableSpan, why: str) -> list[str]:
    return [f"{n.context.span_id:016x}" for n in span.links if (n.attributes or {}).get("pawl.link") == why]


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record)


def logger() -> tuple[logging.Logger, Lines]:
    log, lines = logging.Logger("test", logging.DEBUG), Lines()
    log.addHandler(lines)
    return log, lines


def work_async(child_type: str) -> Any:
    async def handle(ctx: pawl.AsyncContext) -> str:
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0, "not yet")
        reservation = await ctx.reserve("llm", 10)
        await reservation.settle(7)

        async def make() -> str:
            return (await ctx.spawn("only", child_type))["id"]

        made: str = await ctx.step("make@1", make)
        assert made
        return await ctx.step("make@1", make)

    return handle


def work_plain(child_type: str) -> Any:
    def handle(ctx: pawl.Context) -> str:
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0, "not yet")
        ctx.reserve("llm", 10).settle(7)

        def make() -> str:
            return ctx.spawn("only", child_type)["id"]

        ctx.step("make@1", make)
        return ctx.step("make@1", make)

    return handle


@pytest.mark.parametrize("make", [work_async, work_plain])
def test_attempts_steps_budgets_and_children_are_spans_of_the_creators_trace(
    shared: pawl.testing.Server, client: pawl.Client, kind: str, kept: Kept, make: Any
) -> None:
    client.put_budget("llm", unit="tokens", limit=1_000_000)
    task = create(shared, kind)
    log, lines = logger()
    with Running(shared, {kind: make(f"{kind}.child")}, logger=log):
        until(lambda: client.get_task(task)["state"] == "completed")
        until(lambda: len(kept.named(f"process {kind}")) == 2)
    child = client.task_result(task)["payload"]
    first, second = kept.named(f"process {kind}")
    for span in (first, second):
        assert span.kind is trace.SpanKind.CONSUMER
        assert about(span) == (TRACE, PARENT)
        assert linked(span, "creator") == [PARENT]
        context = span.get_span_context()
        assert context is not None and context.trace_state.to_header() == "vendor=one"
    assert (first.attributes or {})["pawl.outcome"] == "failed"
    assert (first.attributes or {})["error.type"] == "_OTHER"
    assert first.status.status_code is trace.StatusCode.ERROR
    assert (second.attributes or {})["pawl.outcome"] == "completed"
    assert linked(second, "previous_attempt") == [id_of(first)]
    assert [(e.name, dict(e.attributes or {})) for e in second.events] == [
        ("pawl.step.replayed", {"pawl.step.name": "make@1"})
    ]
    traced = [line for line in lines.lines if getattr(line, "trace_id", "") == TRACE]
    assert {getattr(line, "span_id", "") for line in traced} == {id_of(first), id_of(second)}
    [step], [made] = kept.named("step make"), kept.named(f"create {kind}.child")
    assert (step.attributes or {})["pawl.step.name"] == "make@1"
    assert about(step) == (TRACE, id_of(second))
    assert about(made) == (TRACE, id_of(step))
    assert made.kind is trace.SpanKind.PRODUCER
    assert (made.attributes or {})["pawl.child.id"] == child
    [reserve], [settle] = kept.named("reserve llm"), kept.named("settle llm")
    amounts = [(s.attributes or {})["pawl.budget.amount"] for s in (reserve, settle)]
    assert (amounts, (second.attributes or {})["pawl.cost.llm"]) == ([10, 7], 7)
    assert first_event(client, str(child))["traceparent"] == f"00-{TRACE}-{id_of(made)}-01"


def test_what_an_attempt_came_to(shared: pawl.testing.Server, client: pawl.Client, kind: str, kept: Kept) -> None:
    task = client.create_task(kind, {})

    async def handle(ctx: pawl.AsyncContext) -> None:
        async def nap() -> str:
            await ctx.sleep("a moment", 1)
            return ""

        rested: str = await ctx.step("nap", nap) if ctx.attempt == 1 else ""
        assert rested == ""
        if ctx.attempt == 2:
            raise pawl.Snooze(0)
        raise pawl.Permanent("it is broken", code="broken")

    with Running(shared, {kind: handle}):
        ended(client, task, "failed")
        until(lambda: len(kept.named(f"process {kind}")) == 3)
    spans = kept.named(f"process {kind}")
    assert [(s.attributes or {})["pawl.outcome"] for s in spans] == ["suspended", "released", "failed"]
    assert [(s.attributes or {}).get("error.type") for s in spans] == [None, None, "broken"]
    assert len({about(s)[0] for s in spans}) == 1  # the attempts of a task without a trace are one trace
    assert linked(spans[2], "previous_attempt") == [id_of(spans[1])]
    [nap] = kept.named("step nap")
    assert nap.status.status_code is trace.StatusCode.UNSET  # to be suspended is no error


def test_a_call_carries_the_trace_context_of_the_current_span(client: pawl.Client, kind: str, kept: Kept) -> None:
    with trace.get_tracer("test").start_as_current_span("request") as span:
        context = span.get_span_context()
        task = client.create_task(kind, {})
    assert first_event(client, task["id"])["traceparent"] == f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


def test_without_opentelemetry_the_trace_of_the_creator_goes_on(
    shared: pawl.testing.Server, client: pawl.Client, kind: str
) -> None:
    task = create(shared, kind)
    program = f"""
        import sys
        sys.modules["opentelemetry"] = None
        import pawl
        worker = pawl.Worker({shared.url!r}, drain=True)

        @worker.handler({kind!r})
        async def handle(ctx: pawl.AsyncContext) -> str:
            reservation = await ctx.reserve("llm", 1)
            await reservation.settle(1)
            return (await ctx.spawn("only", {kind + ".child"!r}))["id"]

        print(worker.run().completed)
    """
    client.put_budget("llm", unit="tokens", limit=1_000_000)
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert (out.returncode, out.stdout) == (0, "1\n"), out.stderr
    event = first_event(client, str(client.task_result(task)["payload"]))
    assert {k: event[k] for k in CREATOR} == CREATOR
