"""The rules of a call that both clients follow: what is sent, what an answer means, what is sent again."""

from __future__ import annotations

import dataclasses
import math
import random
import re
import secrets
import ssl
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import httpx

from . import _trace
from ._errors import InternalError, InvalidError, PawlError, TooLargeError, UnavailableError, error_of
from ._generated.routes import ROUTES, Route
from ._json import dumps, format_time, loads

MAX_BODY = 8 << 20
MAX_CHUNK = MAX_BODY // 2  # of a batch that goes into one request
MAX_CALLS = 10_000  # of a batch
LONGEST_WAIT = 120.0  # the longest Retry-After that a call waits for
KEY_SECONDS = "900"  # how long the server keeps a key that the client made
SILENCE = 45.0  # how long a stream may send nothing: servers send something every 15 s
_HOUR = 3600.0


@dataclasses.dataclass(frozen=True)
class Config:
    """What a client was told. Clients that `with_options` makes differ in it."""

    base: str
    key: str
    namespace: str
    actor: str
    token: str
    timeout: float
    tries: int
    own_keys: bool
    idempotency_key: str
    tap: Tap | None = None  # of tests


class Tap(Protocol):
    """Stands between a client and its connections."""

    def before(self, r: Request) -> Any:
        """Is told of a request before it is sent. It returns an answer in its place, or None."""

    def after(self, r: Request, data: Any) -> None:
        """Is told of the answer to a request."""

    def refused(self, r: Request) -> None:
        """Is told that a request was refused, or not answered."""


@dataclasses.dataclass
class Request:
    """One call to be sent."""

    route: Route
    id: str = ""
    query: Mapping[str, Any] | None = None
    body: bytes | None = None
    content_type: str = "application/json"
    wait: float = 0.0  # how long the caller lets the server wait before it answers
    key: str = ""
    brief: bool = False  # the client made the key, for its own retries
    headers: dict[str, str] | None = None

    def repeats(self) -> bool:
        """Whether the call may be sent again without harm."""
        return self.key != "" or self.route.repeats


def request_of(
    config: Config,
    name: str,
    *,
    id: str = "",
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    has_body: bool = False,
    wait: float = 0.0,
    nth: int = 0,
) -> Request:
    """The request of a call, with its idempotency key. What is not JSON is a TypeError, before anything is sent."""
    if not isinstance(id, str):
        raise TypeError(f"{name} takes an id, not {id!r:.80}")
    data = dumps(body, f"the body of {name}") if has_body else None
    if data is not None and len(data) > MAX_BODY:
        raise TooLargeError(f"the body has {len(data)} bytes, at most {MAX_BODY} are allowed", op=name, status=413)
    r = Request(ROUTES[name], id=id, query=query, body=data, wait=wait)
    give_key(config, r, nth)
    return r


def give_key(config: Config, r: Request, nth: int = 0) -> None:
    """Gives a mutating call its key: the caller's, or one of the client. `nth` tells the requests of one call apart."""
    if not r.route.mutates:
        return
    if config.idempotency_key and r.route.given_key:
        r.key = config.idempotency_key + (f"#{nth}" if nth > 0 else "")
        r.brief = False
    elif config.own_keys and r.route.own_key:
        r.key, r.brief = secrets.token_hex(16), True


def url_of(config: Config, r: Request) -> str:
    """The address of a call. An id is one segment of the path, whatever is in it."""
    path = r.route.path.replace("{id}", quote(r.id, safe=""))
    pairs = query_pairs(r.query or {})
    return config.base + path + ("?" + urlencode(pairs) if pairs else "")


def query_pairs(query: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The query string of filters: lists with commas, times in RFC 3339, metadata as metadata[name]."""
    out: list[tuple[str, str]] = []
    for name, value in query.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            out.extend((f"{name}[{k}]", _query_text(v)) for k, v in value.items())
        elif isinstance(value, (list, tuple, set, frozenset)):
            out.append((name, ",".join(_query_text(v) for v in value)))
        else:
            out.append((name, _query_text(value)))
    return out


def _query_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return format_time(value)
    return str(value)


def headers_of(config: Config, r: Request) -> dict[str, str]:
    """The headers of a call."""
    out = {**_trace.headers(), **(r.headers or {})}
    if r.body is not None:
        out["Content-Type"] = r.content_type
    if config.key:
        out["Authorization"] = f"Bearer {config.key}"
    if r.key:
        if any(ord(c) < 32 or ord(c) == 127 for c in r.key):
            raise InvalidError("the idempotency key holds a control character", op=r.route.name)
        out["Idempotency-Key"] = '"' + r.key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if r.brief:
        out["Idempotency-Seconds"] = KEY_SECONDS
    if config.token:
        out["Pawl-Task-Token"] = config.token
    if config.namespace:
        out["Pawl-Namespace"] = quote(config.namespace, safe="")
    if config.actor:
        kind, slash, name = config.actor.partition("/")
        out["Pawl-Actor"] = quote(kind, safe="") + (slash + quote(name, safe="") if slash else "")
    return out


def timeout_of(config: Config, r: Request) -> httpx.Timeout:
    """How long a call may take: the client's time-out and what the server may wait; operators' verbs have an hour."""
    seconds = config.timeout + r.wait
    if r.route.operator:
        seconds = max(seconds, _HOUR)
    return httpx.Timeout(seconds, connect=min(seconds, 30.0))


def away(op: str, err: Exception, url: str = "") -> PawlError:
    """The error of a call that got no answer; its cause is what httpx raised."""
    server = f"the server {shown(url)}".rstrip()
    said = f"no TLS connection to {server}" if is_tls(err) else f"{server} does not answer"
    out = UnavailableError(f"{said}: {err}" if str(err) else said, op=op)
    out.__cause__ = err
    return out


def shown(url: str) -> str:
    """An address without its password."""
    return re.sub("//[^/]*@", "//", url)


def id_of(op: str, task: Any) -> str:
    """The id of a task, or of one that is named by its id."""
    id = task.get("id") if isinstance(task, Mapping) else task
    if not isinstance(id, str):
        raise TypeError(f"{op} takes a task or its id, not {task!r:.80}")
    return id


def broken(op: str) -> PawlError:
    """The error of a stream that the server ended, as one that stops does."""
    return UnavailableError("the stream ended", op=op)


def is_tls(err: BaseException | None) -> bool:
    """Whether a connection failed because of certificates or the TLS protocol: another try does not help."""
    for _ in range(8):
        if err is None:
            return False
        if isinstance(err, ssl.SSLError):
            return True
        err = err.__cause__ or err.__context__
    return False


def refusal(op: str, response: httpx.Response, data: bytes) -> PawlError:
    """The error of an answer that is no success. What is no problem document comes from a proxy."""
    problem: Any = None
    if media_type(response) == "application/problem+json":
        try:
            problem = loads(data)
        except ValueError:
            problem = None
    if not isinstance(problem, dict):
        code = {502: "unavailable", 503: "unavailable", 504: "unavailable", 429: "limit"}.get(response.status_code)
        detail = f"the answer is not Pawl's: {response.status_code} {response.reason_phrase}"
        problem = {"code": code or "internal", "detail": detail, "status": response.status_code}
    problem.setdefault("status", response.status_code)
    return error_of(problem, op=op, retry_after=retry_after(response))


def media_type(response: httpx.Response) -> str:
    """The content type without its parameters."""
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def retry_after(response: httpx.Response) -> float:
    """Seconds of Retry-After; the server never sends a date."""
    try:
        seconds = float(response.headers.get("Retry-After", "0"))
    except ValueError:
        return 0.0
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0


def answer_of(op: str, response: httpx.Response, data: bytes) -> Any:
    """The body of an answer; a refusal is raised."""
    if response.status_code >= 300:
        raise refusal(op, response, data)
    if response.status_code == 204 or not data:
        return None
    try:
        return loads(data)
    except ValueError as e:
        raise InternalError("the answer is not Pawl's: it is not JSON", op=op, status=response.status_code) from e


def again(r: Request, err: PawlError) -> bool:
    """Whether a call is worth sending again: nothing of it was carried out, or it may be carried out twice."""
    if err.code in ("limit", "key_in_flight"):
        return True
    if err.code != "unavailable":
        return False
    cause = err.__cause__
    if is_tls(cause):
        return False
    if isinstance(cause, httpx.ConnectError):
        return True
    return r.repeats() and not isinstance(cause, httpx.TimeoutException)


class Retry:
    """The pauses between the tries of one call."""

    def __init__(self, config: Config, r: Request) -> None:
        self.request = r
        self.left = config.tries
        self.pause = 0.05

    def after(self, err: PawlError) -> float:
        """How long to wait before the next try; raises the error if there is none."""
        self.left -= 1
        if self.left <= 0 or not again(self.request, err) or err.retry_after > LONGEST_WAIT:
            raise err
        wait = max(self.pause * (1 + random.random()), err.retry_after)
        self.pause *= 2
        return wait


def base_of(url: str) -> tuple[str, str | None]:
    """The base of all addresses and, for unix:/path, the path of the socket."""
    if url.startswith("unix:"):
        path = url.removeprefix("unix:")
        if not path:
            raise ValueError(f"{url!r} names no socket: unix: with a path")
        return "http://localhost", path
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as e:
        raise ValueError(f"{url!r} is no http URL, and not unix: with a path") from e
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"{url!r} is no http URL, and not unix: with a path")
    return url.rstrip("/"), None


def body_of(options: Mapping[str, Any], **members: Any) -> dict[str, Any]:
    """A body of the members that are set; times become texts."""
    out = {name: value for name, value in (*members.items(), *options.items()) if value is not None}
    return {name: format_time(v) if isinstance(v, datetime) else v for name, v in out.items()}


def add_page(out: Any, page: Any) -> None:
    """Adds a page of a resume state to the pages before it. Of what was saved meanwhile, the newer counts."""
    steps, signals = out.setdefault("steps", {}), out.setdefault("signals", {})
    for name, saved in (page.get("steps") or {}).items():
        if name in steps and steps[name]["sequence"] > saved["sequence"]:
            continue
        signals.pop(name, None)
        steps[name] = saved
        if name in (page.get("signals") or {}):
            signals[name] = page["signals"][name]
    new = page.get("parts") or []
    later = {(p["key"], p.get("seq")) for p in new}
    out["parts"] = [p for p in out.get("parts") or [] if (p["key"], p.get("seq")) not in later] + new
    out["messages"] = (out.get("messages") or []) + (page.get("messages") or [])
    if page.get("children"):
        before = (out.get("children") or {}).get("items") or []
        out["children"] = {**page["children"], "items": [*before, *(page["children"].get("items") or [])]}
    out["next"] = page.get("next") or ""
