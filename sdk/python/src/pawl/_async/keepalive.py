"""Leases that a program has claimed itself, kept alive."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import types as t
from .._errors import InvalidError
from .._lease import LeaseState
from . import _io

if TYPE_CHECKING:
    from .client import AsyncClient

MAX_TIMEOUT = 10.0  # of a heartbeat


class AsyncKeepAlive:
    """Sends the heartbeats of a lease until `stop`, or until the lease is lost. It is a context manager, too."""

    def __init__(
        self,
        client: AsyncClient,
        lease: t.Lease,
        interval: float | None,
        max_failures: int,
        on_lost: Callable[[Exception], Awaitable[None] | None] | None,
    ) -> None:
        if max_failures < 1:
            raise InvalidError("max_failures must be at least 1", op="keep_alive")
        if interval is not None and not 0 < interval < lease["lease_seconds"]:
            raise InvalidError("interval must be above 0 and below the seconds of the lease", op="keep_alive")
        self._lease = lease
        self._state = LeaseState(lease, time.monotonic(), interval, max_failures)
        self._client = client.with_options(timeout=min(MAX_TIMEOUT, max(self._state.interval, 0.5)), tries=1)
        self._on_lost = on_lost
        self._mutex = threading.Lock()  # guards what follows
        self._over = False
        self._lost: Exception | None = None
        self._timer = _io.Timer(self._state.first_after, self._beat)

    @property
    def running(self) -> bool:
        """Whether the lease is kept: it was not stopped, and the lease is not lost."""
        return not self._over

    @property
    def lost(self) -> Exception | None:
        """Why the lease is not ours any more: LeaseLostError or ItemCancelled. None = as far as is known it is."""
        return self._lost

    @property
    def failures(self) -> int:
        """How many heartbeats in a row have failed."""
        return self._state.misses

    def stop(self) -> None:
        """Ends the heartbeats. The lease stays until it is completed, failed or released, or ends."""
        with self._mutex:
            self._over = True
            self._timer.cancel()

    async def _beat(self) -> None:
        if self._over:
            return
        sent = time.monotonic()
        gone: Exception | None
        try:
            beat: Any = await self._client.heartbeat(self._lease)
            gone = self._state.extended(sent, time.monotonic(), beat)
        except Exception as e:  # a client that was closed raises others
            gone = self._state.missed(sent, time.monotonic(), e)
        with self._mutex:
            if self._over:  # it was stopped meanwhile
                return
            if gone is None:
                self._timer = _io.Timer(max(self._state.next_due - time.monotonic(), 0.0), self._beat)
                return
            self._over, self._lost = True, gone
        if self._on_lost is not None:
            await _io.resolve(self._on_lost(gone))

    async def __aenter__(self) -> AsyncKeepAlive:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
