# Made of src/pawl/_async/client.py by tools/unasync.py: do not edit.
"""The client."""

from __future__ import annotations

import dataclasses
import ssl
from types import TracebackType
from typing import Any

import httpx

from .. import _rules as rules
from .connection import Call, Connection
from .effects import EffectCalls
from .items import ItemCalls
from .messages import MessageCalls
from .once import Once
from .results import Results
from .streams import StreamCalls


class Client(Results, ItemCalls, MessageCalls, Once, EffectCalls, StreamCalls):
    """Makes calls to a server.

    A call is sent again while the server does not answer or asks for patience. Calls that change
    something carry an idempotency key of the client, so that nothing is done twice. Refusals are
    raised as subclasses of `PawlError`.

    Args:
        url: where the server is: http://127.0.0.1:7033, or unix:/path/to/socket.
        key: the token of an API key; none is needed on a loopback address.
        namespace: the namespace to work in; "default" without it.
        actor: whom events name, as "user/ana".
        timeout: seconds for one request, besides the time a claim waits.
        tries: how often a call is sent in all.
        own_keys: whether the client makes idempotency keys for calls that have none.
        verify: the certificates to trust, as of httpx.
        http: a client of httpx to make the calls with. Its owner closes it.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7033",
        key: str = "",
        *,
        namespace: str = "",
        actor: str = "",
        timeout: float = 120.0,
        tries: int = 4,
        own_keys: bool = True,
        verify: ssl.SSLContext | str | bool = True,
        http: httpx.Client | None = None,
    ) -> None:
        connection = Connection(url, http=http, verify=verify)
        config = rules.Config(
            base=connection.base,
            key=key,
            namespace=namespace,
            actor=actor,
            token="",
            timeout=timeout,
            tries=max(tries, 1),
            own_keys=own_keys,
            idempotency_key="",
        )
        self._call = Call(connection, config)

    def with_options(
        self,
        *,
        idempotency_key: str | None = None,
        namespace: str | None = None,
        actor: str | None = None,
        token: str | None = None,
        timeout: float | None = None,
        tries: int | None = None,
    ) -> Client:
        """A client with other options over the same connections.

        With `idempotency_key`, a call that is made again with the key within 24 hours, by any
        process, gets the first answer. One key serves each verb once: another request with the same
        key and verb is a KeyReusedError.
        """
        given = {
            "idempotency_key": idempotency_key,
            "namespace": namespace,
            "actor": actor,
            "token": token,
            "timeout": timeout,
            "tries": tries,
        }
        changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return self._with_config(dataclasses.replace(self._call.config, **changed))

    def _with_config(self, config: rules.Config) -> Client:
        out = object.__new__(Client)
        out._call = Call(self._call.connection, config)
        return out

    def close(self) -> None:
        """Closes the connections, also of the clients that `with_options` made."""
        self._call.connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
