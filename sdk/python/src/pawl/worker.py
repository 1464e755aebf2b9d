"""A worker: it claims items, runs a handler for each under heartbeats, and reports what it came to.

    worker = pawl.Worker("http://127.0.0.1:7033")

    @worker.handler("mail.send")
    async def send(ctx: pawl.AsyncContext, mail: Mail) -> Receipt:
        return await ctx.step("send", deliver, mail)

    worker.run()

Delivery is at least once: a handler may run more than once for an item, but only one result is
accepted. A worker that loses a lease cancels the handler, and everything that it writes is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import platform
import secrets
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from . import types as t
from ._async.client import AsyncClient
from ._handlers import Handler, handler_of
from ._runner import Runner, Summary
from ._sync.client import Client

__all__ = ["Options", "Summary", "Worker"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a worker; see `Worker`."""

    worker_id: str
    name: str
    version: str
    concurrency: int
    lease_seconds: int | None
    wait_seconds: int
    task_id: str
    stop_grace: float
    flush_seconds: float
    prefetch: bool
    drain: bool
    logger: logging.Logger
    on_lease_lost: Callable[[t.Lease, Exception], None] | None


class Worker:
    """Claims items and runs handlers.

    Args:
        server: the address of the server, or a client, whose options are taken over. The worker makes
            connections of its own, so the client must not have `http`.
        key: the token of an API key, with an address.
        worker_id: one per process; without it the host's name, the process and a random part.
        name: what the list of workers shows.
        version: what the list of workers shows.
        concurrency: how many handlers run at once.
        lease_seconds: how long a claim lasts without a heartbeat; None = the lease of each item's type.
        wait_seconds: how long a claim waits for work, at most 60.
        task_id: only this task's items; "" = any.
        stop_grace: how long handlers may go on after the worker is to stop. Then they are cancelled,
            and their items are given back, which counts as no failure.
        flush_seconds: how long the words of a message are gathered before they are sent, at most 1.
        prefetch: whether fast handlers get items ahead of time.
        drain: whether the worker ends when a claim finds nothing and all results are reported.
        logger: gets a line for each item, never its input or result; "pawl.worker" without it.
        on_lease_lost: is called in a thread when a lease was lost under its handler, or a handler
            went on after its cancellation.
    """

    def __init__(
        self,
        server: str | Client | AsyncClient = "http://127.0.0.1:7033",
        key: str = "",
        *,
        worker_id: str = "",
        name: str = "",
        version: str = "",
        concurrency: int = 10,
        lease_seconds: int | None = None,
        wait_seconds: int = 30,
        task_id: str = "",
        stop_grace: float = 30.0,
        flush_seconds: float = 0.1,
        prefetch: bool = True,
        drain: bool = False,
        logger: logging.Logger | None = None,
        on_lease_lost: Callable[[t.Lease, Exception], None] | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be 1 or more")
        if lease_seconds is not None and not 1 <= lease_seconds <= 86400:
            raise ValueError("lease_seconds must be from 1 to 86400")
        if not 1 <= wait_seconds <= 60:
            raise ValueError("wait_seconds must be from 1 to 60")
        self._source = Client(server, key) if isinstance(server, str) else server
        if not self._source._call.connection.owned:
            raise ValueError("a worker makes connections of its own: give its client `verify` in place of `http`")
        self.options = Options(
            worker_id=worker_id or f"{platform.node()[:200]}-{os.getpid()}-{secrets.token_hex(4)}",
            name=name,
            version=version,
            concurrency=concurrency,
            lease_seconds=lease_seconds,
            wait_seconds=wait_seconds,
            task_id=task_id,
            stop_grace=max(stop_grace, 0.0),
            flush_seconds=min(max(flush_seconds, 0.0), 1.0),
            prefetch=prefetch,
            drain=drain,
            logger=logger or logging.getLogger("pawl.worker"),
            on_lease_lost=on_lease_lost,
        )
        self._handlers: dict[str, Handler] = {}
        self._lock = threading.Lock()
        self._runner: Runner | None = None

    @property
    def worker_id(self) -> str:
        """Who claims."""
        return self.options.worker_id

    def handler(self, *types: str) -> Callable[[F], F]:
        """Registers a function as the handler of types; without a type, of all that have no other.

        The function may be plain, which runs in a thread, or async. Its parameter that is annotated
        as `Context` or `AsyncContext`, or named ctx, gets the context; another gets the item's input, as
        its annotation says: a dataclass, a pydantic model, or the JSON itself. Both may be left out.
        What it returns is the result: any JSON, a dataclass or a pydantic model.
        """
        if any(not isinstance(type, str) for type in types):
            raise TypeError('handler takes the names of types: @worker.handler("mail.send")')

        def register(fn: F) -> F:
            for type in types or ("",):
                self.add(type, fn)
            return fn

        return register

    def add(self, type: str, fn: Callable[..., Any]) -> None:
        """Registers a function as the handler of a type; see `handler`."""
        if type in self._handlers:
            raise ValueError(f"there are two handlers of {type!r}")
        self._handlers[type] = handler_of(type, fn)

    def run(self, *, signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> Summary:
        """Works until `stop` is called or a signal comes; returns what was done.

        After the first signal it claims nothing more and lets the handlers run for `stop_grace`; a
        second one ends the grace. It raises a PawlError if the server refuses this worker's claims.
        """
        with contextlib.suppress(RuntimeError):
            if asyncio.get_running_loop():
                raise TypeError("an event loop runs here, as in a notebook: call `await worker.run_async()`")
        show_logs(self.options.logger)
        return asyncio.run(self._main(signals))

    async def run_async(self) -> Summary:
        """As run, in the caller's event loop and without handlers of signals.

        If its task is cancelled, the handlers are cancelled at once and their items given back.
        """
        return await self._main(())

    def stop(self) -> None:
        """Ends the work, as a signal does. It may be called from any thread, and twice to end the grace."""
        with self._lock:
            runner = self._runner
        if runner is not None:
            runner.stop_soon()

    async def _main(self, signals: Sequence[signal.Signals]) -> Summary:
        if not self._handlers:
            raise ValueError("the worker has no handler")
        runner = Runner(self._source, self.options, dict(self._handlers))
        with self._lock:
            if self._runner is not None:
                raise RuntimeError("the worker runs already")
            self._runner = runner
        try:
            with _signals(signals, runner.stop_soon):
                return await runner.run()
        finally:
            with self._lock:
                self._runner = None


@contextlib.contextmanager
def _signals(signals: Sequence[signal.Signals], fn: Callable[[], None]) -> Any:
    """Calls fn for each of the signals while it is entered. Only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        signals = ()
    before = {s: signal.signal(s, lambda *_: fn()) for s in signals}
    try:
        yield
    finally:
        for s, old in before.items():
            signal.signal(s, old)


def show_logs(log: logging.Logger) -> None:
    """Has the worker's lines from INFO on written to stderr, if the program says nothing about logs."""
    if log.hasHandlers() or log.getEffectiveLevel() < logging.WARNING:
        return
    to_stderr = logging.StreamHandler()
    to_stderr.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.addHandler(to_stderr)
    log.setLevel(logging.INFO)
