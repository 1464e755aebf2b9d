"""What goes wrong: lost leases, cancelled items, processes that die or freeze, networks that break."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import pawl
import pawl.testing

from .conftest import Running, ended, until
from .proxy import Proxy

Server = pawl.testing.Server


def steal(client: pawl.Client, task: pawl.types.Task) -> pawl.types.Lease:
    """Takes the lease of the task's item away, and claims the item."""
    [item] = client.task_items(task["id"])
    with ThreadPoolExecutor(1) as pool:
        claimed = pool.submit(client.claim, "thief", task_id=task["id"], wait_seconds=20)
        time.sleep(0.5)  # the claim waits by then, before any other one
        client.revoke_lease(item["id"])
        [lease] = claimed.result()
    return lease


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("by", ["lost", "cancelled"])
def test_a_lost_lease_cancels_the_handler(
    shared: Server, client: pawl.Client, kind: str, is_async: bool, by: str
) -> None:
    task = client.create_task(kind)
    began, over = threading.Event(), threading.Event()
    told: list[Exception] = []
    raised: list[BaseException] = []

    async def coroutine(ctx: pawl.AsyncContext) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as e:
            raised.append(ctx.cause or e)
            over.set()
            raise

    def plain(ctx: pawl.Context) -> None:
        began.set()
        until(lambda: ctx.cancelled)
        try:
            ctx.progress(50)
        except Exception as e:
            raised.append(e)
            over.set()
            raise

    options: dict[str, Any] = {"lease_seconds": 2, "concurrency": 1, "on_lease_lost": lambda lease, e: told.append(e)}
    with Running(shared, {kind: coroutine if is_async else plain}, **options) as running:
        assert began.wait(20)
        if by == "lost":
            lease = steal(client, task)
        else:
            client.cancel_task(task["id"])
        assert over.wait(20)
    want: type[Exception] = pawl.LeaseLostError if by == "lost" else pawl.ItemCancelled
    assert isinstance(raised[0], want)
    assert running.summary is not None and running.summary.lost == 1 and running.summary.completed == 0
    if by == "lost":
        assert until(lambda: told) and isinstance(told[0], pawl.LeaseLostError)
        assert client.complete(lease, "the thief's")["state"] == "completed"


@pytest.mark.parametrize("is_async", [True, False])
def test_a_handler_that_swallows_its_cancellation_cannot_write(
    shared: Server, client: pawl.Client, kind: str, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    task = client.create_task(kind)
    began, over = threading.Event(), threading.Event()
    told: list[Exception] = []
    refused: list[Exception] = []

    async def coroutine(ctx: pawl.AsyncContext) -> str:
        began.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        for write in (lambda: ctx.checkpoint("late", 1), lambda: ctx.client.complete(ctx.lease, "too late")):
            try:
                await write()
            except Exception as e:
                refused.append(e)
        over.set()
        return "too late"

    def plain(ctx: pawl.Context) -> str:
        began.set()
        until(lambda: ctx.cancelled)
        for write in (lambda: ctx.checkpoint("late", 1), lambda: ctx.client.complete(ctx.lease, "too late")):
            try:
                write()
            except Exception as e:
                refused.append(e)
        over.set()
        return "too late"

    options: dict[str, Any] = {"lease_seconds": 2, "concurrency": 1, "on_lease_lost": lambda lease, e: told.append(e)}
    with Running(shared, {kind: coroutine if is_async else plain}, **options) as running:
        assert began.wait(20)
        lease = steal(client, task)
        assert over.wait(20)
        until(lambda: len(told) == 2)
    assert [type(e) for e in refused] == [pawl.LeaseLostError, pawl.LeaseLostError]
    told_late = "went on after its cancellation"
    assert any(told_late in str(e) for e in told)
    assert f"{lease['id']} of type {kind}, attempt 1, task {task['id']}: the handler {told_late}" in caplog.text
    assert running.summary is not None and running.summary.completed == 0
    client.complete(lease, "the thief's")
    assert client.task_result(task["id"])["payload"] == "the thief's"
    assert client.task_checkpoints(task["id"]).all() == []


def test_a_busy_handler_does_not_starve_heartbeats(shared: Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind)

    async def busy(ctx: pawl.AsyncContext) -> int:
        end, n = time.monotonic() + 4, 0
        while time.monotonic() < end:  # it never lets the event loop run
            n += 1
        return ctx.attempt

    with Running(shared, {kind: busy}, lease_seconds=1):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == 1


WORKER = """
import os, sys, time, pathlib, pawl
url, kind, folder = sys.argv[1:]
worker = pawl.Worker(url, lease_seconds=1, stop_grace=float(os.environ.get("GRACE", "30")))

@worker.handler(kind)
def work(ctx: pawl.Context) -> dict:
    def once() -> int:
        with open(folder + "/ran", "a") as f:
            f.write("x")
        return os.getpid()
    first = ctx.step("once", once)
    pathlib.Path(folder, f"began-{ctx.attempt}").touch()
    if ctx.attempt == 1:
        time.sleep(float(os.environ.get("HOLD", "60")))
    return {"first": first, "attempt": ctx.attempt}

summary = worker.run()
print(summary.completed, summary.released)
"""


class Process:
    """A worker in a process of its own."""

    def __init__(self, server: Server, kind: str, folder: Path, stderr: int | None = None, **env: str) -> None:
        command = [sys.executable, "-c", textwrap.dedent(WORKER), server.url, kind, str(folder)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, env={**os.environ, **env}
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()


def test_a_worker_that_is_killed(shared: Server, client: pawl.Client, kind: str, tmp_path: Path) -> None:
    task = client.create_task(kind)
    with Process(shared, kind, tmp_path) as first:
        until((tmp_path / "began-1").exists)
        first.process.kill()
        with Process(shared, kind, tmp_path) as second:
            ended(client, task)
            second.process.terminate()
            assert second.process.communicate(timeout=20)[0] == "1 0\n"
    result = client.task_result(task["id"])["payload"]
    assert result == {"first": first.process.pid, "attempt": 2}
    assert (tmp_path / "ran").read_text() == "x"


def test_a_worker_that_is_frozen(shared: Server, client: pawl.Client, kind: str, tmp_path: Path) -> None:
    task = client.create_task(kind)
    with Process(shared, kind, tmp_path, HOLD="3") as first:
        until((tmp_path / "began-1").exists)
        first.process.send_signal(signal.SIGSTOP)
        with Process(shared, kind, tmp_path) as second:
            ended(client, task)
            second.process.terminate()
            second.process.wait(20)
        first.process.send_signal(signal.SIGCONT)  # it goes on, and what it hands in is refused
        time.sleep(4)
        first.process.terminate()
        assert first.process.communicate(timeout=20)[0] == "0 0\n"
    result = client.task_result(task["id"])["payload"]
    assert result["first"] == first.process.pid and result["attempt"] > 1
    events = [e["event"] for e in client.task_events(task["id"])]
    assert events.count("completed") == 1


def test_sigterm_lets_handlers_finish(shared: Server, client: pawl.Client, kind: str, tmp_path: Path) -> None:
    task = client.create_task(kind)
    with Process(shared, kind, tmp_path, subprocess.PIPE, HOLD="2") as first:
        until((tmp_path / "began-1").exists)
        first.process.terminate()
        done, said = first.process.communicate(timeout=20)
    assert done == "1 0\n"
    assert "worker stops: handlers that run have 30 s; a second signal gives their items back at once: 1" in said
    assert client.task_result(task["id"])["payload"]["attempt"] == 1


def test_a_handler_that_ignores_the_stop_is_given_up(
    shared: Server, client: pawl.Client, kind: str, tmp_path: Path
) -> None:
    task = client.create_task(kind)
    with Process(shared, kind, tmp_path, GRACE="0.2") as first:
        until((tmp_path / "began-1").exists)
        began = time.monotonic()
        first.process.terminate()
        assert first.process.communicate(timeout=20)[0] == "0 1\n"
        assert time.monotonic() - began < 15
    [item] = client.task_items(task["id"])
    assert (item["state"], item["failures"]) == ("queued", 0)


@pytest.mark.parametrize("is_async", [True, False])
def test_the_network_is_lost_in_a_step(shared: Server, client: pawl.Client, kind: str, is_async: bool) -> None:
    """The request arrives, its answer is lost: the call is sent again, and nothing is done twice."""
    task = client.create_task(kind)
    ran: list[int] = []
    with Proxy(shared.port) as proxy:

        def fetch() -> str:
            ran.append(1)
            proxy.drop_answers(1)
            return "fetched"

        async def coroutine(ctx: pawl.AsyncContext) -> str:
            return await ctx.step("fetch", fetch)

        def plain(ctx: pawl.Context) -> str:
            return ctx.step("fetch", fetch)

        with Running(_At(proxy.url), {kind: coroutine if is_async else plain}):
            ended(client, task)
    assert ran == [1] and proxy.dropped >= 1
    [checkpoint] = client.task_checkpoints(task["id"])
    assert checkpoint["snapshot"] == "fetched"
    assert client.task_result(task["id"])["payload"] == "fetched"


def test_the_network_is_lost_for_longer_than_the_lease(shared: Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind)
    began = threading.Event()
    causes: list[Any] = []
    with Proxy(shared.port) as proxy:

        async def work(ctx: pawl.AsyncContext) -> str:
            if ctx.attempt > 1:
                return "again"
            began.set()
            try:
                await asyncio.sleep(60)
            finally:
                causes.append(ctx.cause)
            return "never"

        with Running(_At(proxy.url), {kind: work}, lease_seconds=1):
            assert began.wait(20)
            proxy.cut()
            until(lambda: causes)
            proxy.mend()
            ended(client, task)
    assert isinstance(causes[0], pawl.LeaseLostError)
    assert client.task_result(task["id"])["payload"] == "again"


def test_a_server_that_is_killed_and_started_again(own: Server, kind: str) -> None:
    client = own.client(tries=10)
    task = client.create_task(kind)
    began = threading.Event()

    async def work(ctx: pawl.AsyncContext) -> str:
        a = await ctx.step("before", lambda: "a")
        began.set()
        await asyncio.sleep(1.5)
        return a + await ctx.step("after", lambda: "b")

    with Running(own, {kind: work}, lease_seconds=30):
        assert began.wait(20)
        own.kill()
        time.sleep(0.5)
        own.start()
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == "ab"
    [item] = client.task_items(task["id"])
    assert item["attempt"] == 1


class _At(Server):
    """A server that is reached at another address."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def url(self) -> str:
        return self._url
