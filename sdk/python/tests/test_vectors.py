"""The vectors that the tests of every client read: testdata/vectors."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import pytest

import pawl
from pawl._frames import Frame, MessagePosition
from pawl._steps import args_of

from .conftest import ROOT


def vectors(name: str) -> pytest.MarkDecorator:
    """The vectors of a file, each a test of its own."""
    rows = json.loads((ROOT / "testdata/vectors" / f"{name}.json").read_text())
    assert rows
    return pytest.mark.parametrize("v", rows, ids=[r.get("name") or r.get("text") for r in rows])


def client_of(answer: Any) -> pawl.Client:
    """A client whose calls a function answers."""
    return pawl.Client("http://pawl.test", tries=1, http=httpx.Client(transport=httpx.MockTransport(answer)))


@vectors("canonical")
def test_hashes(v: dict[str, Any]) -> None:
    assert pawl.hash_of(json.loads(v["json"])) == v["hash"]


@vectors("problems")
def test_problems(v: dict[str, Any]) -> None:
    headers = {"Content-Type": v["content_type"]}
    if "retry_after" in v:
        headers["Retry-After"] = v["retry_after"]
    client = client_of(lambda request: httpx.Response(v["status"], headers=headers, text=v["body"]))
    with pytest.raises(pawl.PawlError) as raised:
        client.get_task("tsk_1")
    e, want = raised.value, v["want"]
    pointer = e.fields[0]["pointer"] if e.fields else ""
    got = {
        "code": e.code,
        "retryable": e.retryable,
        "retry_after": e.retry_after,
        "pointer": pointer,
        "state": e.state,
        "reason": e.reason,
    }
    assert got == want and e.status == v["status"]


class Parts(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that comes in parts."""

    def __init__(self, parts: list[str]) -> None:
        self.parts = [p.encode() for p in parts]

    def __iter__(self) -> Any:
        yield from self.parts

    async def __aiter__(self) -> Any:
        for part in self.parts:
            yield part


@vectors("streams")
@pytest.mark.parametrize("is_async", [True, False])
def test_streams(v: dict[str, Any], is_async: bool) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params["after"])
        if len(asked) > 1:
            problem = {"code": "not_found", "status": 404, "title": "t", "detail": "it is over"}
            return httpx.Response(404, headers={"Content-Type": "application/problem+json"}, json=problem)
        return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=Parts(v["parts"]))

    got: list[str] = []

    async def follow() -> str:
        http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        stream = pawl.AsyncClient("http://pawl.test", http=http).follow_events()
        with pytest.raises(pawl.NotFoundError):
            async for event in stream:
                got.append(event["id"])
        return stream.position

    if is_async:
        position = asyncio.run(follow())
    else:
        stream = client_of(answer).follow_events()
        with pytest.raises(pawl.NotFoundError):
            for event in stream:
                got.append(event["id"])
        position = stream.position
    assert (got, position, asked) == (v["events"], v["position"], ["0", v["position"]])


@vectors("times")
def test_times(v: dict[str, Any]) -> None:
    at = pawl.parse_time(v["text"])
    assert (at - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1) == v["micros"]
    assert pawl.parse_time(pawl.format_time(at)) == at


@vectors("calls")
def test_calls(v: dict[str, Any]) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"id": v["id"]})

    options = {"namespace": v["namespace"], "actor": v["actor"], "idempotency_key": v["key"]}
    client_of(answer).with_options(**options).cancel_task(v["id"])
    assert asked[0].url.raw_path.decode() == v["path"]
    for name, value in v["headers"].items():
        assert asked[0].headers[name] == value
    assert "Idempotency-Seconds" not in asked[0].headers


@vectors("claims")
def test_claims(v: dict[str, Any]) -> None:
    leases = client_of(lambda request: httpx.Response(200, text=v["answer"])).claim("w1")
    assert [lease["id"] for lease in leases] == v["ids"]
    if "input" in v:
        assert leases[0]["input"] == json.loads(v["input"])


def test_the_worker_of_an_older_and_a_newer_server() -> None:
    """A server of another version answers with less or more: the worker does its work."""
    for row in json.loads((ROOT / "testdata/vectors/claims.json").read_text())[:2]:
        done: list[Any] = []
        claims = [row["answer"]]

        def answer(request: httpx.Request, done: list[Any] = done, claims: list[str] = claims) -> httpx.Response:
            if request.url.path == "/v1/claims":
                return httpx.Response(200, text=claims.pop() if claims else '{"items":[]}')
            if request.url.path == "/v1/items:complete":
                done.append(json.loads(request.content)["items"][0])
                return httpx.Response(200, json={"results": [{"status": 200, "brand_new": 1}]})
            return httpx.Response(204)

        with Served(answer) as url:
            worker = pawl.Worker(url, drain=True)
            worker.add("t", lambda input: input)
            assert worker.run().completed == 1
        assert done == [{"id": "itm_1", "worker_id": "w1", "attempt": 1, "result": {"n": 1}}]


class Served:
    """A server of this process, which answers as a function says."""

    def __init__(self, answer: Any) -> None:
        import http.server
        import threading

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                response = answer(httpx.Request("POST", f"http://pawl.test{self.path}", content=body))
                self.send_response(response.status_code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(response.content)))
                self.end_headers()
                self.wfile.write(response.content)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@vectors("args")
def test_hashes_of_single_arguments(v: dict[str, Any]) -> None:
    assert dict(args_of("s", None, v["args"], {}).parts) == v["hashes"]


@vectors("contents")
def test_contents_of_messages(v: dict[str, Any]) -> None:
    position, content = MessagePosition(-1), pawl.MessageContent()
    for f in v["frames"]:
        frame = position.take(Frame(event=f.get("event", ""), data=json.dumps(f["data"])))
        assert frame is not None
        content.apply(frame)
    got = (content.text, content.reasoning, content.status, [c["type"] for c in content.chunks])
    assert got == (v["text"], v["reasoning"], v["status"], v["types"])
