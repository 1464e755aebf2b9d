"""Spans of a worker, in the form of OpenTelemetry; docs/traces.md has the table.

Without the package opentelemetry-api there are none, and calls about an item carry the trace context of its task.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from . import types as t
from ._errors import PawlError, Suspended
from ._job import Job, State

if TYPE_CHECKING:
    from ._outcome import Outcome

try:
    from opentelemetry import context as _context
    from opentelemetry import trace as _api
except ImportError:
    _api = None  # type: ignore[assignment]

SCOPE = "github.com/pawl-work/pawl"
OUTCOMES = {"complete": "completed", "submit": "completed", "fail": "failed", "release": "released"}

#: The ids of the attempt's span that starts now, of its trace and of itself; see pawl.tracing.PawlIds.
asked: ContextVar[tuple[int, int] | None] = ContextVar("pawl_ids", default=None)

_claim: ContextVar[t.Lease | None] = ContextVar("pawl_claim", default=None)  # that the caller works on

_TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def headers() -> dict[str, str]:
    """The trace context of a call: of the current span, or else of the task of the caller's claim."""
    if _api is not None:
        at = _api.get_current_span().get_span_context()
        if at.is_valid:
            out = {"traceparent": f"00-{at.trace_id:032x}-{at.span_id:016x}-{at.trace_flags:02x}"}
            return {**out, "tracestate": at.trace_state.to_header()} if at.trace_state else out
    lease: Mapping[str, Any] = _claim.get() or {}
    return {k: lease[k] for k in ("traceparent", "tracestate") if lease.get("traceparent") and lease.get(k)}


def _hash(of: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(f"pawl:{of}".encode()).digest()[:size], "big")


def _span_of(lease: t.Lease, attempt: int) -> int:
    return _hash(f"{lease['id']}/{attempt}", 8)


class Attempt:
    """The span of an attempt: a child of the span that created the task, and linked to it."""

    def __init__(self, lease: t.Lease) -> None:
        self.about: dict[str, str] = {}  # what log lines say of it
        self._lease = lease
        if _api is None:
            return
        parent = _remote(lease)
        creator = _api.get_current_span(parent).get_span_context()
        attributes: dict[str, str | int] = {
            "messaging.system": "pawl",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": lease["type"],
            "messaging.message.id": lease["id"],
            "pawl.task.id": lease["task_id"],
            "pawl.item.id": lease["id"],
            "pawl.item.type": lease["type"],
            "pawl.attempt": lease["attempt"],
            "pawl.worker.id": lease["worker_id"],
        }
        links = [_api.Link(creator, {"pawl.link": "creator"})] if creator.is_valid else []
        mine = _span_of(lease, lease["attempt"])
        token = asked.set((_hash(lease["id"], 16), mine))
        try:
            self._span = _api.get_tracer(SCOPE).start_span(
                f"process {lease['type']}", parent, _api.SpanKind.CONSUMER, attributes, links
            )
        finally:
            asked.reset(token)
        at = self._span.get_span_context()
        if lease["attempt"] > 1 and at.span_id == mine and hasattr(self._span, "add_link"):  # since version 1.23
            before = _api.SpanContext(
                at.trace_id, _span_of(lease, lease["attempt"] - 1), True, at.trace_flags, at.trace_state
            )
            self._span.add_link(before, {"pawl.link": "previous_attempt"})
        if at.is_valid:
            self.about = {"trace_id": f"{at.trace_id:032x}", "span_id": f"{at.span_id:016x}"}
        self._inner = _api.set_span_in_context(self._span, parent)

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        """Calls and spans in it belong to the attempt."""
        claim = _claim.set(self._lease)
        token = _context.attach(self._inner) if _api is not None else None
        try:
            yield
        finally:
            if token is not None:
                _context.detach(token)
            _claim.reset(claim)

    def end(self, job: Job, outcome: Outcome | None) -> None:
        """Ends it, with what is reported; None = nothing."""
        if _api is None:
            return
        without = {State.SUSPENDED: "suspended", State.CANCELLED: "cancelled"}.get(job.state, "lease_lost")
        self._span.set_attribute("pawl.outcome", OUTCOMES[outcome.verb] if outcome else without)
        if outcome and outcome.verb == "fail":
            error = outcome.body["error"]
            _fail(self._span, error.get("code") or "_OTHER", error["message"])
        self._span.end()


def _remote(lease: t.Lease) -> _context.Context:
    """A context with the trace context of a claim's task, and nothing else."""
    found = _TRACEPARENT.fullmatch(lease.get("traceparent") or "")
    if found is None:
        return _context.Context()
    trace_id, span_id, flags = (int(s, 16) for s in found.groups())
    state = _api.TraceState.from_header([lease.get("tracestate") or ""])
    at = _api.SpanContext(trace_id, span_id, True, _api.TraceFlags(flags), state)
    return _api.set_span_in_context(_api.NonRecordingSpan(at), _context.Context())


def _fail(span: _api.Span, type: str, message: str) -> None:
    span.set_attribute("error.type", type)
    span.set_status(_api.Status(_api.StatusCode.ERROR, message))


class Span:
    """A span that is under way; without OpenTelemetry it does nothing."""

    def __init__(self, span: _api.Span | None) -> None:
        self._span = span

    def set(self, attributes: Mapping[str, Any]) -> None:
        """Adds attributes."""
        if self._span is not None:
            self._span.set_attributes(attributes)


@contextlib.contextmanager
def span(name: str, kind: str, attributes: Mapping[str, Any]) -> Iterator[Span]:
    """A span below the current one. An error ends it as one; Suspended is none."""
    if _api is None:
        yield Span(None)
        return
    made = _api.get_tracer(SCOPE).start_span(name, kind=_api.SpanKind[kind], attributes=attributes)
    token = _context.attach(_api.set_span_in_context(made))
    try:
        yield Span(made)
    except BaseException as e:
        if not isinstance(e, Suspended):
            code = e.code if isinstance(e, PawlError) else ""
            _fail(made, code or "_OTHER", str(e))
        raise
    finally:
        _context.detach(token)
        made.end()


def step(name: str, item_id: str) -> contextlib.AbstractContextManager[Span]:
    """The span of a step. What follows an @ is left out of its name."""
    return span(f"step {name.split('@', 1)[0]}", "INTERNAL", {"pawl.step.name": name, "pawl.item.id": item_id})


def replayed(name: str) -> None:
    """Says on the current span that a step's saved result was returned."""
    if _api is not None:
        _api.get_current_span().add_event("pawl.step.replayed", {"pawl.step.name": name})


def create(type: str, key: str, item_id: str) -> contextlib.AbstractContextManager[Span]:
    """The span of the creation of a child."""
    attributes = {
        "messaging.system": "pawl",
        "messaging.operation.name": "create",
        "messaging.operation.type": "create",
        "messaging.destination.name": type,
        "pawl.child.key": key,
        "pawl.task.type": type,
        "pawl.item.id": item_id,
    }
    return span(f"create {type}", "PRODUCER", attributes)


def budget(verb: str, name: str, amount: int, item_id: str) -> contextlib.AbstractContextManager[Span]:
    """The span of a reservation or a settlement."""
    attributes = {"pawl.budget.name": name, "pawl.budget.amount": amount, "pawl.item.id": item_id}
    return span(f"{verb} {name}", "CLIENT", attributes)


def chat(model: str, provider: str, item_id: str) -> contextlib.AbstractContextManager[Span]:
    """The span of a turn of a model; a provider that is not known is left out."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model, "pawl.item.id": item_id}
    if provider:
        attributes["gen_ai.provider.name"] = provider
    return span(f"chat {model}", "CLIENT", attributes)


def tool(name: str, call_id: str, item_id: str) -> contextlib.AbstractContextManager[Span]:
    """The span of a call of a tool."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "pawl.item.id": item_id,
    }
    return span(f"execute_tool {name}", "INTERNAL", attributes)


class Costs:
    """What was settled in the spans of an attempt."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[tuple[int, str], int] = {}

    def add(self, budget: str, amount: int) -> None:
        """Adds an amount, and says the sum on the current span."""
        if _api is None:
            return
        around = _api.get_current_span()
        key = (around.get_span_context().span_id, budget)
        with self._lock:
            total = self._sums[key] = self._sums.get(key, 0) + amount
        around.set_attribute(f"pawl.cost.{budget}", total)
