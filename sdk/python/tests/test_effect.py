"""Effects of handlers: they act once, or it is said that it is not known."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import socket
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import httpx
import pytest
import requests
import urllib3

import pawl
import pawl.testing
from pawl import _rules
from pawl._async import effects as async_effects
from pawl._async.connection import AsyncCall
from pawl._sync import _io, effects
from pawl._sync.connection import Call

from .conftest import Running, ended, until

Server = pawl.testing.Server


class Outside:
    """A service that counts what it did. The first calls fail with the errors that it was given."""

    def __init__(self, *errors: Exception) -> None:
        self.keys: list[str] = []
        self.errors = list(errors)

    def pay(self, key: str) -> dict[str, int]:
        self.keys.append(key)
        if self.errors:
            raise self.errors.pop(0)
        return {"charge": 7}


def cut() -> Exception:
    return OSError("the connection was cut")


def probing(happened: bool) -> Any:
    return lambda key: pawl.Probed(happened, {"charge": 7})


CASES: dict[str, tuple[dict[str, Any], list[Exception], str, str, int]] = {
    # options, errors of the first sendings, what a person decides, the task's end, how often it is sent
    "an answer": ({}, [], "", "completed", 1),
    "known not to have": ({}, [pawl.NotDone("refused")], "", "completed", 2),
    "asks, and happened": ({}, [cut()], "happened", "completed", 1),
    "asks, and did not": ({}, [cut()], "did_not_happen", "completed", 2),
    "asks, and is given up": ({}, [cut()], "give_up", "failed", 1),
    "is repeatable": ({"repeatable": True}, [cut(), cut()], "", "completed", 3),
    "repeats": ({"on_unknown": "repeat"}, [cut()], "", "completed", 2),
    "fails": ({"on_unknown": "fail"}, [cut()], "", "failed", 1),
    "is approved": ({"approve": True}, [], "approve", "completed", 1),
    "is rejected": ({"approve": True}, [], "reject", "failed", 0),
    "a probe that says it is": ({"probe": probing(True)}, [cut()], "", "completed", 1),
    "a probe that says not": ({"probe": probing(False)}, [cut()], "", "completed", 2),
    "a probe that errs": ({"probe": lambda key: 1 / 0}, [cut()], "did_not_happen", "completed", 2),
}


def decide(client: pawl.Client, task: pawl.types.Task, outcome: str) -> None:
    """Decides about what waits for a person, once it does."""
    waiting = "waiting" if outcome in ("approve", "reject") else "unknown"
    effect = until(lambda: client.list_effects(task_id=task["id"], state=waiting).all())[0]
    until(lambda: "suspended" in [e["event"] for e in client.list_events(task_id=task["id"])])
    if outcome == "approve":
        client.approve_effect(effect["id"])
    elif outcome == "reject":
        client.reject_effect(effect["id"], comment="too much")
    else:
        client.resolve_effect(effect["id"], outcome, answer={"charge": 7} if outcome == "happened" else None)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_effects_of_handlers(shared: Server, client: pawl.Client, kind: str, is_async: bool) -> None:
    handlers: dict[str, Any] = {}
    made: dict[str, tuple[Outside, pawl.types.Task]] = {}
    for n, (case, (options, errors, *_)) in enumerate(CASES.items()):
        outside = Outside(*errors)
        handlers[f"{kind}.{n}"] = handler(outside, options, is_async)
        client.put_type(f"{kind}.{n}", {"backoff": {"base_seconds": 1, "max_seconds": 1}})
        made[case] = outside, client.create_task(f"{kind}.{n}", max_attempts=5)
    with Running(shared, handlers, concurrency=len(CASES)):
        for case, (_, task) in made.items():
            if CASES[case][2]:
                decide(client, task, CASES[case][2])
        for case, (_, task) in made.items():
            ended(client, task, CASES[case][3])
    for case, (outside, task) in made.items():
        _, _, _, end, sent = CASES[case]
        assert outside.keys == [f"{client.list_items(task_id=task['id']).all()[0]['id']}/charge"] * sent, case
        if end == "completed":
            assert client.task_result(task["id"])["payload"] == {"charge": 7}, case


def handler(outside: Outside, options: dict[str, Any], is_async: bool) -> Any:
    """A handler with one effect."""

    def plain(ctx: pawl.Context) -> Any:
        return ctx.effect("charge", outside.pay, request={"eur": 20}, **options)

    async def other(ctx: pawl.AsyncContext) -> Any:
        return await ctx.effect("charge", outside.pay, request={"eur": 20}, **options)

    return other if is_async else plain


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_report_is_sent_again(
    shared: Server, client: pawl.Client, kind: str, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = [
        (name, error)
        for name in ("report_effect_failed", "report_effect_done")
        for error in (_rules.away(name, httpx.ReadTimeout("slow")), pawl.InternalError("a fault"))
    ]

    def first_failing(once: Any) -> Any:
        def instead(call: Any, r: _rules.Request, raw: bool) -> Any:
            if failing and r.route.name == failing[0][0]:
                raise failing.pop(0)[1]
            return once(call, r, raw)

        return instead

    for call in (AsyncCall, Call):
        monkeypatch.setattr(call, "_once", first_failing(call._once))
    outside = Outside(pawl.NotDone("refused"))
    client.put_type(kind, {"backoff": {"base_seconds": 1, "max_seconds": 1}})
    with Running(shared, {kind: handler(outside, {}, is_async)}):
        ended(client, client.create_task(kind, max_attempts=2))
    assert (len(outside.keys), failing) == (2, [])


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_report_is_sent_while_the_lease_holds(
    shared: Server, client: pawl.Client, kind: str, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = [_rules.away("report_effect_done", httpx.ConnectError("refused")) for _ in range(3)]

    def first_failing(once: Any) -> Any:
        def instead(call: Any, r: _rules.Request, raw: bool) -> Any:
            if failing and r.route.name == "report_effect_done":
                raise failing.pop()
            return once(call, r, raw)

        return instead

    for call in (AsyncCall, Call):
        monkeypatch.setattr(call, "_once", first_failing(call._once))
    for module in (async_effects, effects):
        monkeypatch.setattr(module, "REPORT_TRIES", 1)
    outside = Outside()
    with Running(shared, {kind: handler(outside, {}, is_async)}):
        done = ended(client, client.create_task(kind, max_attempts=1))
    assert (done["state"], len(outside.keys), failing) == ("completed", 1, [])


def test_a_late_try_of_a_report_of_a_probe_decides_nothing(
    shared: Server, client: pawl.Client, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[httpx.Request] = []

    def without_the_first(once: Any) -> Any:
        def instead(call: Any, r: _rules.Request, raw: bool) -> Any:
            if r.route.name == "report_effect_failed" and not late:
                headers = _rules.headers_of(call.config, r)
                late.append(httpx.Request("POST", _rules.url_of(call.config, r), headers=headers, content=r.body))
                raise _rules.away(r.route.name, httpx.ReadTimeout("slow"))
            return once(call, r, raw)

        return instead

    monkeypatch.setattr(Call, "_once", without_the_first(Call._once))
    states: list[str] = []

    def pay(key: str) -> int:
        if not late:
            raise cut()
        with httpx.Client() as other:
            other.send(late[0]).raise_for_status()
        states.extend(e["state"] for e in client.list_effects(key=key))
        return 7

    def pays(ctx: pawl.Context) -> int:
        with contextlib.suppress(OSError):
            ctx.effect("charge", pay, probe=probing(False))
        return ctx.effect("charge", pay, probe=probing(False))

    with Running(shared, {kind: pays}):
        ended(client, client.create_task(kind, max_attempts=1))
    assert states == ["open"]


def test_a_report_does_not_wait_for_as_long_as_a_server_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(_io, "sleep", waits.append)
    errors = [pawl.UnavailableError("busy", op="report_effect_done", retry_after=s) for s in (1.0, 120.0, 120.5, 0.0)]

    def report(_: object) -> None:
        raise errors.pop(0)

    with pawl.Client("http://localhost:1") as away:
        effect = effects.Effect(cast(Any, SimpleNamespace(client=away)), "charge", cast(Any, None), None)
        with pytest.raises(pawl.UnavailableError):
            effect._report(report)
    assert (waits, len(errors)) == ([1.0, 120.0], 1)


def test_a_result_beside_an_open_effect_fails_the_attempt(shared: Server, client: pawl.Client, kind: str) -> None:
    def pays(ctx: pawl.Context) -> int:
        client.open_effect(ctx.lease, "charge", "h1")
        return 7

    with Running(shared, {kind: pays}):
        task = ended(client, client.create_task(kind, max_attempts=1), "failed")
    assert "of this attempt is open" in str(task["error"])
    assert [e["state"] for e in client.list_effects(task_id=task["id"])] == ["unknown"]


def test_another_task_gets_the_answer_of_a_key(shared: Server, client: pawl.Client, kind: str) -> None:
    outside = Outside()

    def pays(ctx: pawl.Context) -> Any:
        return ctx.effect("charge", outside.pay, key=f"{kind}/1", request=ctx.input)

    with Running(shared, {kind: pays}):
        for _ in range(2):
            ended(client, client.create_task(kind, 20))
        changed = client.create_task(kind, 30, max_attempts=1)
        item = client.get_task(ended(client, changed, "failed")["id"])
    assert outside.keys == [f"{kind}/1"]
    assert isinstance(item["error"], dict) and item["error"]["code"] == "key_reused"


def test_an_effect_costs(shared: Server, client: pawl.Client, kind: str) -> None:
    client.put_budget(kind, 30, "eur")
    client.put_type(kind, {"backoff": {"base_seconds": 1, "max_seconds": 1}})
    outside = Outside(pawl.NotDone("refused"))

    def pays(ctx: pawl.Context) -> Any:
        return ctx.effect("charge", outside.pay, budget=kind, amount=20)

    with Running(shared, {kind: pays}):
        ended(client, client.create_task(kind, max_attempts=2))
    assert client.get_budget(kind)["spent"] == 20


def test_on_unknown_is_a_word_that_is_known(shared: Server, client: pawl.Client, kind: str) -> None:
    def pays(ctx: pawl.Context) -> Any:
        return ctx.effect("charge", Outside().pay, on_unknown="shrug")

    with Running(shared, {kind: pays}):
        task = client.create_task(kind, max_attempts=1)
        assert "on_unknown is" in str(client.get_task(ended(client, task, "failed")["id"])["error"])


def test_effects_over_the_client(client: pawl.Client, kind: str) -> None:
    client.create_task(kind)
    [lease] = client.claim("me", types=[kind])
    opened = client.open_effect(lease, "charge", "h1")
    assert (opened["send"], opened["state"]) == (True, "open")
    with pytest.raises(pawl.KeyReusedError):
        client.open_effect(lease, "charge", "h2")
    assert client.effect_unknown(lease, opened["id"], "cut")["state"] == "unknown"
    with pytest.raises(pawl.EffectUnknownError) as e:
        client.open_effect(lease, "charge", "h1")
    assert e.value.effect_id == opened["id"]
    assert client.effect_failed(lease, opened["id"], "refused")["state"] == "failed"
    again = client.open_effect(lease, "charge", "h1")
    assert again["send"]
    assert client.effect_done(lease, again["id"], {"n": 1})["state"] == "done"
    assert client.get_effect(again["id"])["sendings"] == 2


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
    return port


@contextlib.contextmanager
def answering(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A service that reads each request and then does what it is told to."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def over_urllib(url: str) -> Any:
    return urllib.request.urlopen(urllib.request.Request(url, b"{}", method="POST"), timeout=1)


def over_httpx(url: str) -> Any:
    return httpx.post(url, content=b"{}", timeout=1, follow_redirects=True, trust_env=False)


def over_requests(url: str) -> Any:
    return requests.post(url, b"{}", timeout=1, proxies={"http": "", "https": ""})


def over_urllib3(url: str) -> Any:
    return urllib3.PoolManager().request("POST", url, body=b"{}", timeout=1, retries=urllib3.Retry(1, backoff_factor=0))


def over_aiohttp(url: str) -> Any:
    async def post() -> int:
        limit = aiohttp.ClientTimeout(total=5, sock_connect=1, sock_read=1)
        async with aiohttp.ClientSession(timeout=limit) as session, session.post(url, data=b"{}") as answer:
            return answer.status

    return asyncio.run(post())


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """A host that takes no connection, and does not refuse any."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(2):  # as many as wait for it
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


CLIENTS = [over_urllib, over_httpx, over_requests, over_urllib3, over_aiohttp]


@pytest.mark.parametrize("post", CLIENTS)
def test_what_was_not_sent(post: Callable[[str], Any]) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}/"
    for url in (nowhere, "http://no-such-host.invalid/"):
        with pytest.raises(pawl.NotDone) as e, pawl.not_sent():
            post(url)
        assert e.value.__cause__ is not None

    def closes(h: http.server.BaseHTTPRequestHandler) -> None:
        h.close_connection = True

    def redirects(h: http.server.BaseHTTPRequestHandler) -> None:
        h.send_response(303)
        h.send_header("Location", nowhere)
        h.end_headers()

    def waits(h: http.server.BaseHTTPRequestHandler) -> None:
        threading.Event().wait(2)

    for answer in (closes, redirects, waits):
        with answering(answer) as url, pytest.raises(Exception) as sent, pawl.not_sent():
            post(url)
        assert not isinstance(sent.value, pawl.NotDone), answer
    with pytest.raises(ValueError), pawl.not_sent():
        raise ValueError("of the handler itself")


@pytest.mark.parametrize("post", [over_httpx, over_requests, over_urllib3, over_aiohttp])
def test_a_connection_that_is_not_made_in_time_sends_nothing(post: Callable[[str], Any]) -> None:
    with silent() as url, pytest.raises(pawl.NotDone), pawl.not_sent():
        post(url)


@pytest.mark.parametrize("post", [over_requests, over_aiohttp])
@pytest.mark.parametrize("url", ["http://", "ftp://127.0.0.1/", "http://127.0.0.1:x/"])
def test_a_wrong_url_is_not_asked(post: Callable[[str], Any], url: str) -> None:
    with pytest.raises(pawl.NotDone), pawl.not_sent():
        post(url)


@pytest.mark.parametrize("post", CLIENTS)
def test_a_certificate_that_is_not_trusted_sends_nothing(post: Callable[[str], Any], tmp_path: Path) -> None:
    key = ["-newkey", "rsa:2048", "-nodes", "-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert")]
    command = ["openssl", "req", "-x509", "-days", "1", "-subj", "/CN=localhost", *key]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # the client hangs up
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(pawl.NotDone), pawl.not_sent():
            post(f"https://127.0.0.1:{server.server_address[1]}/")
    finally:
        server.shutdown()
        server.server_close()


def gone(answered: int) -> tuple[str, threading.Event]:
    """A service that reads so many requests and answers the first ones, and then takes no connection any more."""
    server = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def run() -> None:
        connection, _ = server.accept()
        for n in range(answered + 1):
            connection.recv(65536)
            if n < answered:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        server.close()
        connection.close()
        over.set()

    threading.Thread(target=run, daemon=True).start()
    return f"http://127.0.0.1:{server.getsockname()[1]}/", over


def test_an_earlier_try_of_urllib3_may_have_left() -> None:
    retries = urllib3.Retry(3, allowed_methods=None, backoff_factor=0.2)
    url, over = gone(0)
    with pytest.raises(urllib3.exceptions.MaxRetryError) as e, pawl.not_sent():
        urllib3.PoolManager().request("PUT", url, body=b"{}", timeout=5, retries=retries)
    assert over.is_set() and "NewConnectionError" in repr(e.value.reason)  # the last try alone was not made

    session = requests.Session()
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
    url, over = gone(0)
    with pytest.raises(requests.ConnectionError), pawl.not_sent():
        session.put(url, b"{}", timeout=5, proxies={"http": ""})
    assert over.is_set()
    with pytest.raises(pawl.NotDone), pawl.not_sent():
        session.put(url, b"{}", timeout=5, proxies={"http": ""})  # no try was made


def test_an_earlier_try_of_aiohttp_may_have_left() -> None:
    async def put() -> None:
        url, _ = gone(1)
        async with aiohttp.ClientSession() as session:
            async with session.put(url, data=b"{}"):
                pass
            with pawl.not_sent():  # over the connection that is there, which breaks; there is no other one
                await session.put(url, data=b"{}")

    with pytest.raises(aiohttp.ClientConnectorError):
        asyncio.run(put())

    async def twice(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        return await handler(request)

    async def within() -> None:
        async with aiohttp.ClientSession(middlewares=[twice]) as session:
            with pawl.not_sent():
                await session.post(f"http://127.0.0.1:{free_port()}/")

    with pytest.raises(aiohttp.ClientConnectorError):  # what the middleware has sent is not known
        asyncio.run(within())


def test_errors_of_libraries_that_are_known_by_their_names_alone() -> None:
    class ClientConnectorError(OSError):
        pass

    with pytest.raises(ClientConnectorError), pawl.not_sent():  # of no library
        raise ClientConnectorError
    ClientConnectorError.__module__ = "aiohttp.client_exceptions"
    with pytest.raises(ClientConnectorError), pawl.not_sent():  # nothing says that it was the first try
        raise ClientConnectorError
