"""Real servers for the tests, on SQLite and, where PAWL_TEST_POSTGRES names one, on PostgreSQL."""

from __future__ import annotations

import functools
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import pawl
import pawl.testing
from pawl.tracing import PawlIds

ROOT = Path(__file__).resolve().parents[3]
DATABASES = ["sqlite", *(["postgres"] if os.environ.get("PAWL_TEST_POSTGRES") else [])]


def database(kind: str) -> str | None:
    """A database of its own; None = a temporary SQLite."""
    if kind == "sqlite":
        return None
    url = os.environ["PAWL_TEST_POSTGRES"]
    return f"{url}{'&' if '?' in url else '?'}schema=pawl_py_{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session", params=DATABASES)
def shared(request: pytest.FixtureRequest) -> Iterator[pawl.testing.Server]:
    """A server for all tests that leave it alone."""
    with pawl.testing.serve(db=database(request.param)) as server:
        yield server


@pytest.fixture(params=DATABASES)
def own(request: pytest.FixtureRequest) -> Iterator[pawl.testing.Server]:
    """A server that the test may kill."""
    with pawl.testing.serve(db=database(request.param)) as server:
        yield server


@pytest.fixture
def client(shared: pawl.testing.Server) -> pawl.Client:
    """A client of the shared server."""
    return shared.client()


@pytest.fixture
def kind() -> str:
    """A type of items that no other test uses."""
    return f"t.{uuid.uuid4().hex[:12]}"


class Kept(InMemorySpanExporter):
    """The spans that have ended."""

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of a name, in the order of their ends."""
        return [s for s in self.get_finished_spans() if s.name == name]


@functools.cache
def traced() -> Kept:
    """Where spans go from now on. A process has one provider."""
    kept = Kept()
    provider = TracerProvider(id_generator=PawlIds())
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    return kept


@pytest.fixture
def kept() -> Kept:
    """The spans of the test."""
    traced().clear()
    return traced()


def until(holds: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Waits until something holds, and returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        out = holds()
        if out:
            return out
        time.sleep(0.02)
    raise AssertionError("it did not come to it in time")


class Running:
    """A worker that runs in a thread, for as long as the with statement."""

    def __init__(self, server: pawl.testing.Server, handlers: dict[str, Any], **options: Any) -> None:
        self.worker = pawl.Worker(server.url, **{"stop_grace": 5.0, "wait_seconds": 2, **options})
        for kind, fn in handlers.items():
            self.worker.add(kind, fn)
        self.summary: pawl.Summary | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.summary = self.worker.run()
        except BaseException as e:
            self.error = e

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        until(lambda: self.worker._runner is not None or not self._thread.is_alive())
        self.worker.stop()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the worker does not stop"
        if self.error is not None:
            raise self.error


def state(client: pawl.Client, task: pawl.types.Task) -> str:
    """The state of a task."""
    return client.get_task(task["id"])["state"]


def ended(client: pawl.Client, task: pawl.types.Task, want: str = "completed") -> pawl.types.TaskView:
    """Waits until a task is in a state, and reads it."""
    until(lambda: state(client, task) == want)
    return client.get_task(task["id"])
