"""One claimed item in a worker: what its handler, its heartbeats and its context share."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from . import types as t
from ._errors import LeaseLostError
from ._lease import LeaseState

if TYPE_CHECKING:
    from ._trace import Attempt


class State(enum.Enum):
    """Where a claim stands in this worker."""

    RUNNING = "running"
    SUSPENDED = "suspended"  # or being suspended
    LOST = "lost"
    CANCELLED = "cancelled"  # the item was cancelled
    STOPPING = "stopping"  # the worker stops, and its grace is over
    RETURNED = "returned"  # the handler has returned
    ABANDONED = "abandoned"  # given back while the handler still runs


class Job:
    """A claim. Its lock guards what changes."""

    def __init__(self, lease: t.Lease, at: float) -> None:
        self.lease = lease
        self.claimed_at = at
        self.lock = threading.Lock()
        self.state = State.RUNNING
        self.cause: Exception | None = None  # why the claim is over
        self.keeper = LeaseState(lease, at)
        self.beaten = False  # a heartbeat was sent
        self.on_end: Callable[[], object] | None = None  # told once, when the claim ends under its handler
        self.on_lost: Callable[[Job, Exception], object] | None = None  # told once, when it was lost or cancelled
        self.on_stopped: dict[str, Callable[[], None]] = {}  # by message: it was stopped
        self.span: Attempt | None = None  # since the handler started
        self.closing: list[Callable[[], Any]] = []  # what is to be sent before the result

    def now(self) -> datetime:
        """The database's clock, estimated."""
        with self.lock:
            return self.keeper.now(time.monotonic())

    def may_hold(self) -> bool:
        """Whether the lease may still be valid."""
        with self.lock:
            over = self.state in (State.LOST, State.CANCELLED, State.ABANDONED)
            return not over and time.monotonic() < self.keeper.expires_at

    def left(self) -> float:
        """Seconds until the lease expires."""
        with self.lock:
            return self.keeper.expires_at - time.monotonic()

    def move(self, before: State, after: State) -> bool:
        """A compare-and-set of the state."""
        with self.lock:
            if self.state is not before:
                return False
            self.state = after
            return True

    def end(self, state: State, why: Exception) -> bool:
        """Ends a running claim: the handler is told, and nothing more is written."""
        with self.lock:
            if self.state is not State.RUNNING:
                return False
            self.state, self.cause = state, why
            tell, report = self.on_end, self.on_lost
        if tell is not None:
            tell()
        if report is not None and state in (State.LOST, State.CANCELLED):
            report(self, why)
        return True

    def check(self) -> None:
        """Raises why the claim is over, if it is."""
        with self.lock:
            state, cause = self.state, self.cause
        if state is State.RUNNING:
            return
        if cause is not None:
            raise cause
        raise LeaseLostError(f"the claim is over: {state.value}", op="write")
