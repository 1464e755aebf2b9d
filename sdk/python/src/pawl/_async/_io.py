"""What differs between asyncio and threads. The sync side has a file of its own with the same names."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

Lock = asyncio.Lock


async def sleep(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


async def resolve(value: Awaitable[T] | T) -> T:
    """The value, awaited if it is to be."""
    return await value if inspect.isawaitable(value) else value


async def finish(value: Awaitable[T]) -> T:
    """Awaits the saving of what was done, also while the caller is cancelled: the cancellation is raised after it."""
    saving = asyncio.ensure_future(value)
    cancelled: asyncio.CancelledError | None = None
    while not saving.done():
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError as e:
            cancelled = e
        except Exception:
            break  # it is raised below
    if cancelled is not None and not saving.cancelled():
        saving.exception()  # it is known
        raise cancelled
    return saving.result()


class Timer:
    """Calls a function once, after a time, unless it is cancelled."""

    def __init__(self, seconds: float, fn: Callable[[], Awaitable[Any]]) -> None:
        self._fn = fn
        self._handle = asyncio.get_running_loop().call_later(seconds, self._start)
        self._task: asyncio.Future[Any] | None = None

    def _start(self) -> None:
        self._task = asyncio.ensure_future(self._fn())

    def cancel(self) -> None:
        """Keeps the function from being called, if it has not been."""
        self._handle.cancel()


def transport(uds: str | None, verify: Any, limits: httpx.Limits) -> httpx.AsyncHTTPTransport | None:
    """How a client connects to a Unix socket; None = as httpx does."""
    return httpx.AsyncHTTPTransport(uds=uds, verify=verify, limits=limits) if uds else None
