"""What is said about effects."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.error import URLError

import httpx

# What httpx raises before a connection is there, or before it asks for one.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL)

# What sockets and urllib raise in the same cases. Other errors of a connection come from one that was there, too.
NO_CONNECTION = (ConnectionRefusedError, socket.gaierror, ssl.SSLCertVerificationError)

# Of libraries that need not be installed: the names of classes, after that of the library.
NO_REQUEST = {
    "aiohttp.InvalidURL",
    "aiohttp.NonHttpUrlClientError",
    "requests.InvalidSchema",
    "requests.InvalidURL",
    "requests.MissingSchema",
}
AIOHTTP_CONNECTS = {"aiohttp.ClientConnectorError", "aiohttp.ConnectionTimeoutError"}
URLLIB3_CONNECTS = {"urllib3.ConnectTimeoutError", "urllib3.NewConnectionError"}
IDEMPOTENT = {"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"}  # of these aiohttp sends a request again by itself


class NotDone(Exception):
    """Raised by the function of an effect: it is known not to have happened. After any other error it is unknown."""


@contextlib.contextmanager
def not_sent() -> Iterator[None]:
    """Raises `NotDone` in place of an error that says that no request has left; any other error stays as it is.

    It knows the errors of httpx, requests, urllib3, aiohttp, urllib and sockets: the name of the host is not known, the
    connection was refused or not made in time, the host's certificate is not trusted. An error after a redirect, or
    after a try of the same request that may have left, is not such an error.

        def charge(key: str) -> str:
            with pawl.not_sent():
                return requests.post(url, headers={"Idempotency-Key": key}, timeout=10).text
    """
    try:
        yield
    except Exception as e:
        if _never_left(e) and not _redirected(e):
            raise NotDone(str(e) or type(e).__qualname__) from e
        raise


def _never_left(e: object) -> bool:
    """Whether an error says that its request has not left."""
    names = _names(e)
    if names & AIOHTTP_CONNECTS:
        return _first_of_aiohttp(e)
    if isinstance(e, (*NEVER_SENT, *NO_CONNECTION)) or names & NO_REQUEST:
        return True
    if isinstance(e, URLError):
        return isinstance(e.reason, NO_CONNECTION)
    if "requests.ConnectionError" in names:  # which ConnectTimeout, SSLError and ProxyError are
        args: tuple[Any, ...] = getattr(e, "args", ())
        return bool(args) and "urllib3.HTTPError" in _names(args[0]) and _never_left(args[0])
    if "urllib3.MaxRetryError" in names:
        return _no_connection_of_urllib3(getattr(e, "reason", None)) and _first_of_urllib3(e)
    return _no_connection_of_urllib3(e) and _first_of_urllib3(e)


def _names(e: object) -> set[str]:
    """The names of an error's classes, after those of their libraries. Nothing is imported for it."""
    return {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(e).__mro__}


def _no_connection_of_urllib3(e: object) -> bool:
    """Whether a try of urllib3 ended before its connection was there."""
    names = _names(e)
    if "urllib3.ProxyError" in names:
        inner = getattr(e, "original_error", None)
    elif "urllib3.SSLError" in names:
        inner = next(iter(getattr(e, "args", ())), None)
    else:
        return bool(names & URLLIB3_CONNECTS)
    return isinstance(inner, ssl.SSLCertVerificationError) or _no_connection_of_urllib3(inner)


def _first_of_urllib3(e: object) -> bool:
    """Whether the tries before, which urllib3 counts, did not leave either."""
    for name, values in _frames(e):
        if name == "increment":
            history = getattr(values.get("self"), "history", None)
            return history is not None and all(_no_connection_of_urllib3(h.error) for h in history)
    return False


def _first_of_aiohttp(e: object) -> bool:
    """Whether aiohttp has sent nothing before, by itself or for a redirect."""
    for name, values in _frames(e):
        if name == "_request" and "history" in values:
            again = values.get("retry_persistent_connection") is False and values.get("method") in IDEMPOTENT
            return not (values["history"] or values.get("effective_middlewares") or again)
    return False


def _redirected(e: object) -> bool:
    """Whether the error comes from a request that was made to follow a redirect."""
    for name, values in _frames(e):
        if name in ("http_error_302", "resolve_redirects"):  # of urllib and requests
            return True
        if name in ("_send_handling_redirects", "_request") and values.get("history"):  # of httpx and aiohttp
            return True
    return False


def _frames(e: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names of the functions that an error has passed, and their variables."""
    at = getattr(e, "__traceback__", None)
    while at is not None:
        yield at.tb_frame.f_code.co_name, at.tb_frame.f_locals
        at = at.tb_next


@dataclasses.dataclass(frozen=True)
class Probed:
    """What the outside says about the key of an effect, and with `happened` its answer."""

    happened: bool
    answer: Any = None


@dataclasses.dataclass(frozen=True)
class EffectOptions:
    """How an effect is sent; see `Context.effect`."""

    unknown: str
    key: str | None
    request: Any
    budget: str | None
    amount: int | None
    approve: bool
    repeatable: bool

    @property
    def repeats(self) -> bool:
        """Whether an unknown effect may be sent again."""
        return self.repeatable or self.unknown == "repeat"
