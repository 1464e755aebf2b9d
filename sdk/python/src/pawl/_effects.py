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


class NotDone(Exception):
    """Raised by the function of an effect: it is known not to have happened. After any other error it is unknown."""


@contextlib.contextmanager
def not_sent() -> Iterator[None]:
    """Raises `NotDone` in place of an error that says that no request has left; any other error stays as it is.

    It knows the errors of httpx, urllib and sockets: the name of the host is not known, the connection was refused or
    not made in time, the host's certificate is not trusted. An error after a redirect is not such an error, because
    the request before it was answered.
    """
    try:
        yield
    except Exception as e:
        cause = e.reason if isinstance(e, URLError) else e
        if (isinstance(e, NEVER_SENT) or isinstance(cause, NO_CONNECTION)) and not _redirected(e):
            raise NotDone(str(e) or type(e).__qualname__) from e
        raise


def _redirected(e: BaseException) -> bool:
    """Whether the error comes from a request that httpx or urllib made to follow a redirect."""
    at = e.__traceback__
    while at is not None:
        name, values = at.tb_frame.f_code.co_name, at.tb_frame.f_locals
        if name == "http_error_302" or (name == "_send_handling_redirects" and values.get("history")):
            return True
        at = at.tb_next
    return False


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
