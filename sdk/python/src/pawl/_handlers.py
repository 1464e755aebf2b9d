"""Handlers: plain or async functions, with their input and result as their annotations say."""

from __future__ import annotations

import dataclasses
import inspect
import queue
import threading
from collections.abc import Callable
from typing import Any

from ._async.context import AsyncContext
from ._codec import decode, hints_of
from ._errors import Permanent
from ._sync.context import Context


@dataclasses.dataclass(frozen=True)
class Handler:
    """A function that handles the items of a type."""

    type: str  # "" = every type without a handler of its own
    fn: Callable[..., Any]
    is_async: bool
    context_at: str | None  # the parameter that gets the context
    input_at: str | None  # the parameter that gets the input
    input_kind: Any

    def arguments(self, context: AsyncContext | Context, value: Any) -> dict[str, Any]:
        """The arguments of a call. An input that does not fit is permanent: another try has the same input."""
        out: dict[str, Any] = {}
        if self.context_at:
            out[self.context_at] = context
        if self.input_at:
            try:
                out[self.input_at] = decode(self.input_kind, value)
            except (ValueError, TypeError) as e:
                message = f"the input does not fit the handler of {context.lease['type']}: {e}"
                raise Permanent(message, code="invalid_input") from e
        return out


def handler_of(type: str, fn: Callable[..., Any]) -> Handler:
    """Reads a function's parameters: one for the context, by annotation or the name ctx, and one for the input."""
    call = fn if inspect.isfunction(fn) or inspect.ismethod(fn) else type_call(fn)
    is_async = inspect.iscoroutinefunction(call)
    hints = hints_of(call)
    context_at: str | None = None
    others: list[inspect.Parameter] = []
    for p in inspect.signature(fn).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        if p.kind is p.POSITIONAL_ONLY:
            raise TypeError(f"the handler of {type!r} has a positional-only parameter {p.name!r}")
        hint = hints.get(p.name)
        if context_at is None and (hint in (Context, AsyncContext) or (hint is None and p.name in ("ctx", "context"))):
            if hint is (Context if is_async else AsyncContext):
                want = "AsyncContext" if is_async else "Context"
                raise TypeError(f"the handler of {type!r} needs {want}: it is {'async' if is_async else 'not async'}")
            context_at = p.name
        else:
            others.append(p)
    needed = [p for p in others if p.default is p.empty]
    if len(needed) > 1:
        names = ", ".join(p.name for p in needed)
        raise TypeError(f"the handler of {type!r} takes a context and an input, not {names}")
    given = needed or others[:1]
    input_at = given[0].name if given else None
    return Handler(type, fn, is_async, context_at, input_at, hints.get(input_at, Any) if input_at else Any)


def type_call(fn: Any) -> Any:
    """The function behind a callable object or a partial."""
    while hasattr(fn, "func"):
        fn = fn.func
    return fn if inspect.isfunction(fn) or inspect.ismethod(fn) else type(fn).__call__


class Threads:
    """Runs plain functions, in at most so many threads. They are daemons: one that hangs does not keep the process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def run(self, fn: Callable[[], None]) -> None:
        """Runs a function, which does not raise, in a thread."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._threads += 1
                name = f"pawl-handler-{self._threads}"
                threading.Thread(target=self._loop, name=name, daemon=True).start()
        self._work.put(fn)

    def _loop(self) -> None:
        while True:
            fn = self._work.get()
            if fn is None:
                return
            fn()
            with self._lock:
                self._idle += 1

    def close(self) -> None:
        """Lets the threads end that are idle, and the others when they are done."""
        for _ in range(self._threads):
            self._work.put(None)
