"""Real servers for the tests, on SQLite and, where PAWL_TEST_POSTGRES names one, on PostgreSQL."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pawl
import pawl.testing

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


def until(holds: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Waits until something holds, and returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        out = holds()
        if out:
            return out
        time.sleep(0.02)
    raise AssertionError("it did not come to it in time")
