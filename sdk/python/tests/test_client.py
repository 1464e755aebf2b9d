"""The client: calls, refusals, pages, batches, keys and tries."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import pawl
import pawl.testing

from .conftest import until
from .proxy import Proxy

Server = pawl.testing.Server


def test_create_claim_complete(client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, {"url": "https://example.com/a.pdf"}, title="a page")
    assert (task["type"], task["state"], task["items"]) == (kind, "queued", 1)
    [lease] = client.claim("w1", types=[kind])
    assert lease["input"] == {"url": "https://example.com/a.pdf"}
    assert client.heartbeat(lease)["cancelled"] is False
    item = client.complete(lease, {"words": 10391})
    assert item["state"] == "completed"
    assert client.task_result(task["id"])["payload"] == {"words": 10391}


def test_a_refusal_is_an_exception(client: pawl.Client, kind: str) -> None:
    with pytest.raises(pawl.NotFoundError) as e:
        client.get_task("tsk_01M7YH871CX3G0E5ZQMGF8KJ47")
    assert (e.value.code, e.value.status, e.value.retryable) == ("not_found", 404, False)
    with pytest.raises(pawl.InvalidError) as invalid:
        client.create_task("")
    assert invalid.value.fields[0]["pointer"] == "/type"
    client.create_task(kind)
    [lease] = client.claim("w1", types=[kind])
    with pytest.raises(pawl.LeaseLostError) as lost:
        client.complete({"id": lease["id"], "worker_id": "w9", "attempt": 1}, None)
    assert lost.value.reason == "taken"


def test_what_is_not_json_is_refused_before_it_is_sent(kind: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise AssertionError("it was sent")

    client = pawl.Client("http://pawl.test", http=httpx.Client(transport=httpx.MockTransport(answer)))
    for payload in (object(), {1: 2}, float("inf"), {"a": {1}}, "\ud800"):
        with pytest.raises(TypeError, match=r"JSON|UTF-8"):
            client.create_task(kind, payload)


def test_pages(client: pawl.Client, kind: str) -> None:
    made = [r.get()["id"] for r in client.create_tasks([{"type": kind, "payload": n} for n in range(7)])]
    pages = client.list_tasks(type=kind, order="asc", limit=3)
    assert [len(p.items) for p in pages.pages()] in ([3, 3, 1], [3, 3, 1, 0])
    assert [t["id"] for t in pages] == made
    newest = client.list_tasks(type=kind).first()
    assert newest is not None and newest["id"] == made[-1]


def test_a_batch_is_answered_call_by_call(client: pawl.Client, kind: str) -> None:
    good, bad, other = client.create_tasks([{"type": kind}, {"type": ""}, {"type": kind, "priority": 3}])
    assert good.ok and other.get()["priority"] == 3
    assert isinstance(bad.error, pawl.InvalidError)
    with pytest.raises(pawl.InvalidError):
        bad.get()


def test_a_large_batch_goes_in_several_requests(client: pawl.Client, kind: str) -> None:
    results = client.create_tasks([{"type": kind, "payload": "x" * 900_000} for _ in range(10)])
    assert all(r.ok for r in results) and len({r.get()["id"] for r in results}) == 10


def test_a_key_of_the_caller(client: pawl.Client, kind: str) -> None:
    keyed = client.with_options(idempotency_key=f"order {kind}")
    assert keyed.create_task(kind, 1)["id"] == keyed.create_task(kind, 1)["id"]
    with pytest.raises(pawl.KeyReusedError):
        keyed.create_task(kind, 2)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_call_whose_answer_is_lost_is_carried_out_once(
    shared: Server, client: pawl.Client, kind: str, is_async: bool
) -> None:
    client.create_task(kind)
    [lease] = client.claim("w1", types=[kind])
    with Proxy(shared.port) as proxy:
        proxy.drop_answers(1)

        async def save() -> None:
            async with pawl.AsyncClient(proxy.url) as through:
                await through.checkpoint(lease, "custom", 1, name="a")

        if is_async:
            asyncio.run(save())
        else:
            with pawl.Client(proxy.url) as through:
                through.checkpoint(lease, "custom", 1, name="a")
        assert proxy.dropped == 1
    assert len(client.list_checkpoints(item_id=lease["id"]).all()) == 1


def test_no_server(kind: str) -> None:
    with pawl.Client("http://127.0.0.1:9", tries=2) as client, pytest.raises(pawl.UnavailableError) as e:
        client.create_task(kind)
    assert e.value.retryable and isinstance(e.value.__cause__, httpx.ConnectError)
    with pytest.raises(ValueError, match="no http URL"):
        pawl.Client("127.0.0.1:7033")


def test_blobs(client: pawl.Client) -> None:
    blob = client.put_blob(b"0123456789", content_type="text/plain")
    assert client.get_blob(blob["address"]) == b"0123456789"
    assert client.get_blob(blob["address"], start=2, end=5) == b"234"


def test_events_are_followed_across_a_broken_connection(shared: Server, client: pawl.Client, kind: str) -> None:
    first = client.create_task(kind)
    with Proxy(shared.port) as proxy, pawl.Client(proxy.url) as through:
        events = iter(through.follow_events(task_id=first["id"]))
        assert next(events)["event"] == "proposed"
        proxy.cut()
        client.cancel_task(first["id"])
        proxy.mend()
        got = [next(events)["event"]]
        while got[-1] != "cancelled":
            got.append(next(events)["event"])
    assert got.count("cancelled") == 1 and "proposed" not in got


def test_a_message_is_followed_while_a_worker_writes_it(shared: Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, thread=kind, reply={})
    [message] = client.list_messages(task_id=task["id"])
    worker = pawl.Worker(shared.url, drain=True)

    @worker.handler(kind)
    async def write(ctx: pawl.AsyncContext) -> None:
        async with await ctx.message() as m:
            for word in ("Hel", "lo ", "wörld\0\ud800"):
                await m.text(word)
            await m.tool_call("c1", "weather", {"in": "Rome"})
            await m.step()
            await m.text("!")

    thread = threading.Thread(target=worker.run)
    thread.start()
    frames = list(client.follow_message(message["id"]))
    thread.join()
    assert "".join(f.text for f in frames) == "Hello wörld\ufffd\ufffd!"
    assert frames[-1].end is not None and frames[-1].end["status"] == "complete"
    assert client.get_message(message["id"])["step_number"] == 1


def test_a_task_has_a_message_without_a_lease(client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, run_at="2200-01-01T00:00:00Z")
    mine = client.open_message(task["id"], "assistant", thread="out", on_conflict="return")
    other = client.open_message(task["id"], "assistant", thread="out", on_conflict="return")
    assert mine["id"] == other["id"]
    chunk: Any = {"type": "text", "text": "x"}
    assert client.append(mine["writer"], mine["id"], 0, [chunk])["offset"] == 1
    with pytest.raises(pawl.ConflictError) as refused:
        client.append(other["writer"], mine["id"], 0, [chunk])
    assert refused.value.problem["expected"] == 1
    assert client.append(other["writer"], mine["id"], 1, [chunk, {"type": "text", "text": "y"}])["offset"] == 3
    assert client.finish_message(mine["writer"], mine["id"])["status"] == "complete"
    frames = list(client.follow_message(mine["id"], last=2))
    assert [(f.offset, f.text) for f in frames if f.text] == [(1, "xy")]


def test_a_stopped_message_stops_its_writer(shared: Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, thread=kind, reply={})
    [message] = client.list_messages(task_id=task["id"])
    worker = pawl.Worker(shared.url, drain=True)
    raised: list[Any] = []

    @worker.handler(kind)
    def write(ctx: pawl.Context) -> None:
        m = ctx.message()
        m.text("one")
        m.flush()
        client.stop_message(message["id"])
        try:
            for _ in range(1000):
                m.text("two")
                m.flush()
        except pawl.MessageStopped as e:
            raised.append(e)
            raise

    assert worker.run().completed == 1
    assert len(raised) == 1 and client.get_message(message["id"])["status"] == "stopped"


def test_checkpoints_on_condition(client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind)
    first = client.append_checkpoint(task["id"], {"n": 1}, name="state")
    client.append_task(task["id"], [{"type": "custom", "name": "a", "snapshot": 1}], expected=first["sequence"])
    with pytest.raises(pawl.ConflictError):
        client.append_task(task["id"], [{"type": "custom", "name": "b", "snapshot": 2}], expected=first["sequence"])
    assert client.prune_task(task["id"], [{"prefix": "a", "keep": 0}])["pruned"] in (0, 1)


def test_the_binary_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("PAWL_BINARY", raising=False)
    with pytest.raises(pawl.testing.BinaryNotFound, match="PAWL_BINARY"):
        pawl.testing.serve()
    with pytest.raises(pawl.testing.BinaryNotFound, match="no program"):
        pawl.testing.serve(binary="/nowhere/pawl")


def finish_soon(client: pawl.Client, kind: str, end: Callable[[Any], Any]) -> threading.Thread:
    """Ends the only item of a type, from another thread."""

    def run() -> None:
        [lease] = client.claim("w1", types=[kind], wait_seconds=30)
        end(lease)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize("is_async", [True, False])
def test_wait_returns_the_result(shared: Server, client: pawl.Client, kind: str, is_async: bool) -> None:
    task = client.create_task(kind)

    async def wait() -> Any:
        async with shared.async_client() as other:
            assert await other.wait(task, timeout=30) == await other.result(task["id"])
            return await other.wait(task["id"])

    ends = finish_soon(client, kind, lambda lease: client.complete(lease, {"words": 3}))
    if is_async:
        assert asyncio.run(wait()) == {"words": 3}
    else:
        assert client.wait(task["id"], timeout=30) == {"words": 3}
        assert client.wait(task, timeout=0) == {"words": 3} == client.result(task)
    ends.join()


def test_wait_for_a_task_that_comes_to_nothing(client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, max_attempts=1)
    error: Any = {"message": "no such page", "code": "gone"}
    ends = finish_soon(client, kind, lambda lease: client.fail(lease, error))
    with pytest.raises(pawl.TaskFailed, match=r"is failed: no such page \(gone\)") as failed:
        client.wait(task["id"], timeout=30)
    ends.join()
    assert (failed.value.state, failed.value.task["id"]) == ("failed", task["id"])
    assert failed.value.error is not None and failed.value.error["code"] == "gone"
    assert pickle.loads(pickle.dumps(failed.value)).task == failed.value.task
    cancelled = client.create_task(kind)
    client.cancel_task(cancelled["id"])
    for ask in (client.wait, client.result):
        with pytest.raises(pawl.TaskFailed, match="is cancelled"):
            ask(cancelled["id"])


def test_wait_ends_with_its_time(client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind)
    for timeout in (0, 0.2, 1.1):
        with pytest.raises(TimeoutError, match=f"{task['id']} is queued"):
            client.wait(task["id"], timeout=timeout)
    with pytest.raises(pawl.ConflictError):
        client.result(task["id"])
    with pytest.raises(pawl.NotFoundError):
        client.wait("tsk_01M7YH871CX3G0E5ZQMGF8KJ47", timeout=5)
    with pawl.Client("http://127.0.0.1:9", tries=1) as nowhere, pytest.raises(pawl.UnavailableError):
        nowhere.wait(task["id"])


def test_wait_outlives_a_server(own: Server, kind: str) -> None:
    answers: list[httpx.Response] = []
    http = httpx.Client(event_hooks={"response": [answers.append]})
    with Proxy(own.port) as proxy, http, pawl.Client(proxy.url, tries=1, http=http) as through:
        client = own.client()
        task = client.create_task(kind)
        got: list[Any] = []
        waits = threading.Thread(target=lambda: got.append(through.wait(task, timeout=60)))
        waits.start()
        until(lambda: answers)
        proxy.cut()
        [lease] = client.claim("w1", types=[kind])
        client.complete(lease, 7)
        proxy.mend()
        waits.join()
    assert got == [7]


def test_a_schedule_is_put(client: pawl.Client, kind: str) -> None:
    first = client.put_schedule(kind, {"type": kind}, every_seconds=3600)
    assert first["created"]
    client.pause_schedule(kind)
    second = client.put_schedule(kind, {"type": kind, "title": "hourly"}, every_seconds=3600)
    assert "created" not in second and second["paused_at"] and second["task"].get("title") == "hourly"
    assert client.put_schedule(kind, {"type": kind, "title": "hourly"}, every_seconds=3600)["unchanged"]
    client.delete_schedule(kind)
