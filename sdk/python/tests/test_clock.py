"""The clock of tests, and workers that die."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import pawl
import pawl.testing
from pawl.testing import START, Crashed, crash_after, each_crash, run_one

from .conftest import Running, ended, state, until


@pytest.fixture(scope="module")
def server() -> Iterator[pawl.testing.Server]:
    """A server whose clock stands."""
    with pawl.testing.serve(clock=True) as out:
        yield out


def remind(ctx: pawl.Context) -> str:
    ctx.sleep("three days", timedelta(days=3))
    return "reminded"


async def remind_async(ctx: pawl.AsyncContext) -> str:
    await ctx.sleep("three days", timedelta(days=3))
    return "reminded"


@pytest.mark.parametrize("handler", [remind, remind_async])
def test_a_sleep_of_days_takes_no_time(server: pawl.testing.Server, kind: str, handler: Any) -> None:
    began = time.monotonic()
    client = server.client()
    task = client.create_task(kind)
    assert run_one(client, {kind: handler})["state"] == "waiting"
    before = server.now()
    with pytest.raises(LookupError):
        run_one(client, {kind: handler})
    assert timedelta(days=3) <= server.advance(timedelta(days=3)) - before < timedelta(days=3, seconds=1)
    item = run_one(client, {kind: handler})
    assert (item["state"], item["result"]) == ("completed", "reminded")
    names = [e["event"] for e in client.list_events(task_id=task["id"], order="asc")]
    assert names == ["proposed", "leased", "in_progress", "suspended", "ready", "leased", "completed"]
    assert time.monotonic() - began < 20


def test_a_running_worker_goes_on(server: pawl.testing.Server, kind: str) -> None:
    client = server.client()
    with Running(server, {kind: remind}):
        task = client.create_task(kind)
        until(lambda: next(iter(client.task_items(task["id"])))["state"] == "waiting")
        server.advance(timedelta(days=3))
        ended(client, task)


def test_the_clock_stands_where_it_was_left_after_a_restart() -> None:
    start = datetime(2030, 2, 28, 23, 59, 59, 500_000, tzinfo=timezone.utc)
    with pawl.testing.serve(clock=start) as server:
        assert server.now() == start
        assert server.advance(0.5) == datetime(2030, 3, 1, tzinfo=timezone.utc)
        server.kill()
        server.start()
        assert server.now() == datetime(2030, 3, 1, tzinfo=timezone.utc)
        with pytest.raises(ValueError, match="must be from 0"):
            server.advance(-1)


def test_a_clock_that_runs_is_not_moved(shared: pawl.testing.Server) -> None:
    with pytest.raises(RuntimeError, match="clock=True"):
        shared.advance(1)


def test_a_crash_after_each_write(server: pawl.testing.Server, kind: str) -> None:
    client = server.client()
    client.create_task(kind, max_attempts=9)
    seen: list[str] = []

    def work(ctx: pawl.Context) -> int:
        try:
            seen.append(f"attempt {ctx.attempt}")
            ctx.step("one", lambda: seen.append("one"))
            seen.append("after one")
            ctx.step("two", lambda: seen.append("two"))
            return 2
        except Exception:
            seen.append("an exception")
            raise
        except BaseException as e:
            seen.append(type(e).__name__)
            with pytest.raises(Crashed):
                ctx.progress(1)  # it reaches the server no more
            raise

    item, crashed = crash_after(server, 0, {kind: work})
    assert (crashed, item["state"], item["failures"]) == (True, "queued", 1)
    assert seen == ["attempt 1", "one", "Crashed"]
    seen.clear()
    item, crashed = crash_after(server, 1, {kind: work})
    assert (crashed, item["state"], item["failures"]) == (True, "queued", 2)
    assert seen == ["attempt 2", "one", "Crashed"]
    seen.clear()
    item, crashed = crash_after(server, 0, {kind: work}, lost=True)
    assert (crashed, seen) == (True, ["attempt 3", "after one", "two", "Crashed"])
    seen.clear()
    item, crashed = crash_after(server, 2, {kind: work})
    assert (crashed, item["state"], item["result"]) == (True, "completed", 2)
    assert seen == ["attempt 4", "after one", "two"]
    with pytest.raises(LookupError):
        crash_after(server, 2, {kind: work})
    client.create_task(kind)
    assert crash_after(server, 4, {kind: work})[1] is False


@pytest.mark.parametrize("is_async", [True, False])
def test_a_task_survives_each_crash(server: pawl.testing.Server, kind: str, is_async: bool) -> None:
    ran: dict[str, int] = {}

    def run(name: str) -> int:
        ran[name] = ran.get(name, 0) + 1
        return 1

    def plain(ctx: pawl.Context) -> int:
        total = sum(ctx.step(name, run, name) for name in ("reserve", "charge"))
        ctx.sleep("a day", 86400)
        child = ctx.spawn("child", f"{kind}.child")
        [done] = ctx.await_children("the child", [child["id"]])
        return total + int(done["result"])

    async def coroutine(ctx: pawl.AsyncContext) -> int:
        total = 0
        for name in ("reserve", "charge"):
            total += await ctx.step(name, run, name)
        await ctx.sleep("a day", 86400)
        child = await ctx.spawn("child", f"{kind}.child")
        [done] = await ctx.await_children("the child", [child["id"]])
        return total + int(done["result"])

    prepared: list[str] = []

    def prepare(client: pawl.Client) -> None:
        prepared.append(client.put_type(kind, {"max_attempts": 9})["name"])

    handlers = {kind: coroutine if is_async else plain, f"{kind}.child": lambda: 3}
    lives = 0
    for life in each_crash(server, handlers, kind, {"eur": 20}, prepare=prepare, title="a payment"):
        assert (life.item["state"], life.item["result"]) == ("completed", 5), life
        assert life.writes == (lives + 1) // 2 and state(life.client, life.task) == "completed"
        lives += 1
    assert life.crashed is False and lives > 16
    assert len(prepared) == lives
    # A step runs again only if the crash came before it was saved.
    assert ran == {"reserve": lives + 1, "charge": lives + 1}


def test_a_message_and_an_effect_survive_each_crash(server: pawl.testing.Server, kind: str) -> None:
    paid: list[str] = []

    def pay(key: str) -> str:
        paid.append(key)
        return key

    def tell(message: pawl.MessageWriter) -> None:
        message.text("paid")

    def work(ctx: pawl.Context) -> str:
        answer = ctx.effect("charge", pay, probe=lambda key: pawl.Probed(key in paid, key))
        with ctx.message() as message:
            message.named_step("tell", tell)
        return answer

    lives = 0
    for life in each_crash(server, {kind: work}, kind, reply={}):
        lives += 1
        assert life.item["state"] == "completed", life
        [message] = life.client.list_messages(task_id=life.task["id"])
        texts = [c.text for c in life.client.follow_message(message["id"]).contents()]
        assert texts[-1] == "paid"
    assert len(paid) == len(set(paid)) == lives  # never twice


def test_nothing_is_left_running(server: pawl.testing.Server, kind: str) -> None:
    server.client().create_task(kind)
    crash_after(server, 0, {kind: lambda ctx: ctx.step("one", lambda: 1)})
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("pawl-testing")])
    assert START.tzinfo is timezone.utc
