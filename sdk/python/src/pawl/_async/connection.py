"""How calls are made: tries, pages and batches."""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import httpx

from .. import _rules as rules
from .._errors import InternalError, InvalidError, PawlError, TooLargeError, error_of
from .._generated.routes import ROUTES
from .._json import dumps
from .._results import Page, Result
from . import _io

T = TypeVar("T")


class AsyncConnection:
    """The connections of a client, shared by those that `with_options` makes of it."""

    def __init__(
        self,
        url: str,
        *,
        http: httpx.AsyncClient | None,
        verify: ssl.SSLContext | str | bool,
    ) -> None:
        self.url, self.verify = url, verify
        self.base, uds = rules.base_of(url)
        if http is not None and uds:
            raise ValueError("a Unix socket needs the client's own connections; leave http out")
        self.owned = http is None
        if not self.base.startswith("https:"):
            verify = False  # there is nothing to verify, and to load the authorities takes long
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30)
        self.http = http or httpx.AsyncClient(
            transport=_io.transport(uds, verify, limits), verify=verify, limits=limits, trust_env=uds is None
        )

    async def aclose(self) -> None:
        """Closes the connections, unless the caller brought them."""
        if self.owned:
            await self.http.aclose()


class AsyncCall:
    """Makes the calls of a client."""

    def __init__(self, connection: AsyncConnection, config: rules.Config) -> None:
        self.connection = connection
        self.config = config

    async def send(self, r: rules.Request) -> Any:
        """Sends a request until it is answered, refused or out of tries; returns the body."""
        _, data = await self.respond(r)
        return data

    async def respond(self, r: rules.Request, raw: bool = False) -> tuple[httpx.Response, Any]:
        """As send, with the response; with raw the body stays bytes."""
        retry = rules.Retry(self.config, r)
        while True:
            try:
                return await self._once(r, raw)
            except PawlError as e:
                wait = retry.after(e)
            await _io.sleep(wait)

    async def _once(self, r: rules.Request, raw: bool) -> tuple[httpx.Response, Any]:
        tap = self.config.tap
        if tap is None:
            return await self._try(r, raw)
        instead = tap.before(r)
        if instead is not None:
            return httpx.Response(200), instead
        try:
            answer = await self._try(r, raw)
        except PawlError:
            tap.refused(r)
            raise
        tap.after(r, answer[1])
        return answer

    async def _try(self, r: rules.Request, raw: bool) -> tuple[httpx.Response, Any]:
        op = r.route.name
        headers = rules.headers_of(self.config, r)
        url = rules.url_of(self.config, r)
        try:
            response = await self.connection.http.request(
                r.route.method, url, content=r.body, headers=headers, timeout=rules.timeout_of(self.config, r)
            )
        except httpx.InvalidURL as e:
            raise InvalidError(f"cannot be asked for over HTTP: {e}", op=op) from e
        except httpx.HTTPError as e:
            raise rules.away(op, e, self.connection.url) from e
        data = response.content
        if raw and response.status_code < 300:
            return response, data
        return response, rules.answer_of(op, response, data)

    async def call(
        self,
        name: str,
        id: str = "",
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        wait: float = 0.0,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Makes a call; a body of None is none."""
        r = rules.request_of(self.config, name, id=id, query=query, body=body, has_body=body is not None, wait=wait)
        r.headers = headers
        return await self.send(r)

    async def batch(self, name: str, calls: Sequence[Mapping[str, Any]] | Sequence[str]) -> list[Result[Any]]:
        """Sends calls to a batch form, in as many requests as their size needs. Each is answered on its own."""
        if len(calls) > rules.MAX_CALLS:
            raise InvalidError(f"{len(calls)} calls in one batch; at most {rules.MAX_CALLS} are allowed", op=name)
        texts = [dumps(c, f"call {n} of {name}") for n, c in enumerate(calls)]
        batch = _Batch(self, name, len(texts))
        chunk: list[tuple[int, bytes]] = []
        size = 0
        for at, text in enumerate(texts):
            if len(text) > rules.MAX_BODY - 64:
                batch.out[at] = Result(
                    error=TooLargeError("the call alone is over what one request may have", op=name, status=413)
                )
                continue
            if chunk and size + len(text) > rules.MAX_CHUNK:
                await batch.send(chunk)
                chunk, size = [], 0
            chunk.append((at, text))
            size += len(text)
        await batch.send(chunk)
        return batch.answers()


class _Batch:
    """One batch that is being sent."""

    def __init__(self, call: AsyncCall, name: str, n: int) -> None:
        self.call = call
        self.name = name
        self.out: list[Result[Any] | None] = [None] * n
        self.sent = 0  # requests whose outcome was final
        self.requests = 0  # all requests, with those that were split
        self.lost: PawlError | None = None  # the first request was not answered

    async def send(self, chunk: list[tuple[int, bytes]]) -> None:
        """Sends a request. One that is refused as a whole for one of its calls is sent again in halves."""
        if not chunk:
            return
        r = rules.Request(ROUTES[self.name], body=b'{"items":[' + b",".join(text for _, text in chunk) + b"]}")
        rules.give_key(self.call.config, r, self.requests)
        self.requests += 1
        try:
            answer = await self.call.send(r)
            results = answer.get("results") if isinstance(answer, dict) else None
            if not isinstance(results, list) or len(results) != len(chunk):
                n = len(results) if isinstance(results, list) else 0
                raise InternalError(f"{n} answers to {len(chunk)} calls", op=self.name)
        except PawlError as e:
            if e.code in ("invalid", "too_large") and len(chunk) > 1:
                await self.send(chunk[: len(chunk) // 2])
                await self.send(chunk[len(chunk) // 2 :])
                return
            self._refused(chunk, e)
            return
        self.sent += 1
        for (at, _), row in zip(chunk, results, strict=True):
            if row.get("error") is not None:
                after = float(row.get("retry_after_ms") or 0) / 1000
                self.out[at] = Result(error=error_of(row["error"], op=self.name, retry_after=after))
            else:
                self.out[at] = Result(value=row.get("value"))

    def _refused(self, chunk: list[tuple[int, bytes]], e: PawlError) -> None:
        self.sent += 1
        if e.code == "invalid":
            for field in e.fields:
                field["pointer"] = str(field.get("pointer", "")).removeprefix("/items/0")
        elif self.sent == 1:
            self.lost = e
        for at, _ in chunk:
            self.out[at] = Result(error=e)

    def answers(self) -> list[Result[Any]]:
        """The answers. If the only request was not answered, its error is raised."""
        if self.lost is not None and self.sent == 1:
            raise self.lost
        return [cast("Result[Any]", r) for r in self.out]


@dataclasses.dataclass
class AsyncPages(Generic[T]):
    """A list that is read page by page: iterate over it, or read one page with `page`."""

    _call: AsyncCall
    _name: str
    _id: str
    _query: dict[str, Any]

    async def page(self, cursor: str | None = None) -> Page[T]:
        """One page: the first, or the one that a `next` names."""
        answer = await self._call.call(self._name, self._id, query={**self._query, "cursor": cursor})
        return Page(
            items=answer.get("items") or [],
            next=answer.get("next"),
            incomplete=bool(answer.get("incomplete")),
        )

    async def pages(self) -> AsyncIterator[Page[T]]:
        """All pages. A page may be empty and have a next one."""
        cursor: str | None = None
        while True:
            page = await self.page(cursor)
            yield page
            cursor = page.next
            if not cursor:
                return

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.items:
                yield item

    async def all(self) -> list[T]:
        """Everything, in one list."""
        return [item async for item in self]

    async def first(self) -> T | None:
        """The first, or None."""
        async for item in self:
            return item
        return None
