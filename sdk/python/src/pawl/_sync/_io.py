"""What differs between asyncio and threads. The asyncio side has a file of its own with the same names."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

Lock = threading.Lock


def sleep(seconds: float) -> None:
    """Waits."""
    time.sleep(seconds)


def resolve(value: T) -> T:
    """The value. An awaitable is a TypeError: a plain function cannot wait for it."""
    if inspect.isawaitable(value):
        close = getattr(value, "close", None)
        if close:
            close()
        raise TypeError("an async function was passed where a plain one is needed; make the handler async")
    return value


def finish(value: T) -> T:
    """What was done is saved: nothing cancels a thread."""
    return value


class Timer:
    """Calls a function once, after a time, unless it is cancelled."""

    def __init__(self, seconds: float, fn: Callable[[], Any]) -> None:
        self._timer = threading.Timer(seconds, fn)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Keeps the function from being called, if it has not been."""
        self._timer.cancel()


def transport(uds: str | None, verify: Any, limits: httpx.Limits) -> httpx.HTTPTransport | None:
    """How a client connects to a Unix socket; None = as httpx does."""
    return httpx.HTTPTransport(uds=uds, verify=verify, limits=limits) if uds else None
