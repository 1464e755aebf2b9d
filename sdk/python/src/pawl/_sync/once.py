# Made of src/pawl/_async/once.py by tools/unasync.py: do not edit.
"""Effects outside of Pawl that happen once for a key."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from .. import types as t
from .._codec import decode, hints_of
from .._errors import ConflictError, NotFoundError, PawlError
from .._json import dumps, hash_of, loads
from .._outcome import text_of
from . import _io
from .connection import Call
from .operations import OperationCalls

T = TypeVar("T")

SCOPE = "once"  # as in Go and TypeScript
RENEWALS = 3  # in the time that a key is locked
RENEWAL_TIMEOUT = 10.0
TRIES = 30  # to keep a result
PASSING = ("unavailable", "limit", "key_in_flight", "internal")  # errors that the next try may not meet


class Once(OperationCalls):
    """The calls of operators, and `once`."""

    def once(self, key: str, request: Any, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Calls `fn(*args, **kwargs)` once for a key and a request, and returns its result.

        A later call with the same request gets the first result, as JSON. While the first runs, it
        raises a KeyInFlightError, and with another request a KeyReusedError. What `fn` raises is kept to be
        read, and the next call runs again.

        The key is renewed while `fn` runs. If the process dies in `fn`, or does not reach the server for 60 s,
        another call may run it again; then this one raises a ConflictError after `fn` has returned. A result that
        cannot be kept at once is sent again while the key is held. Keys are shared with `pawl.Once` in Go and
        `once` in TypeScript.
        """
        kind = hints_of(fn).get("return", Any)
        body = {"scope": SCOPE, "request_hash": hash_of(request)}
        begun: t.KeyBegun = self._with(tries=1).call("begin_key", key, body)
        if not begun["run"]:
            first: T = decode(kind, begun["key"].get("response"))
            return first
        token = begun.get("token", "")
        renewal = _Renewal(self._with(timeout=RENEWAL_TIMEOUT, tries=1), key, begun)
        try:
            made = _io.resolve(fn(*args, **kwargs))
            result = loads(dumps(made, "the result"))
        except BaseException as e:
            renewal.end()
            try:
                self.fail_key(key, token, {"message": text_of(e)}, scope=SCOPE)
            except PawlError:
                pass  # what fn raised says more
            raise
        try:
            _io.finish(renewal.complete(result))
        finally:
            renewal.end()
        out: T = decode(kind, result)
        return out

    def _with(self, **config: Any) -> Call:
        return Call(self._call.connection, dataclasses.replace(self._call.config, **config))


class _Renewal:
    """Renews a key until its end, or until another call has it."""

    def __init__(self, call: Call, key: str, begun: t.KeyBegun) -> None:
        self._call = call
        self._key = key
        seconds = begun.get("lock_seconds", 60)
        self._body = {"token": begun.get("token", ""), "scope": SCOPE, "lock_seconds": seconds}
        self._every = seconds / RENEWALS
        self._over = False
        self._refused = False
        self._missed = 0  # renewals in a row that failed
        self._timer = _io.Timer(self._every, self._renew)

    def _renew(self) -> None:
        if self._over:
            return
        try:
            self._call.call("renew_key", self._key, self._body)
        except (ConflictError, NotFoundError):
            self._refused = True
            return
        except PawlError:
            self._missed += 1  # the next one may succeed
        else:
            self._missed = 0
        self._timer = _io.Timer(self._every, self._renew)

    def complete(self, result: Any) -> Any:
        """Keeps the result, and tries that again while the key is held."""
        body = {"token": self._body["token"], "scope": SCOPE, "response": result}
        pause = 0.05
        for left in range(TRIES, 0, -1):
            last = left == 1 or self._refused or self._missed >= RENEWALS
            try:
                self._call.call("complete_key", self._key, body)
                return
            except PawlError as e:
                if last or e.code not in PASSING:
                    raise
            _io.sleep(pause)
            pause = min(2 * pause, self._every)

    def end(self) -> None:
        self._over = True
        self._timer.cancel()
