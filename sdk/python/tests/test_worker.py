"""A worker's life: results, failures, steps, waits, messages, budgets and the stop."""

from __future__ import annotations

import threading
from typing import Any

import pawl
import pawl.testing


def drain(server: pawl.testing.Server, kind: str, fn: Any, **options: Any) -> pawl.Summary:
    """Runs a worker until nothing is left."""
    worker = pawl.Worker(server.url, drain=True, **options)
    worker.add(kind, fn)
    return worker.run()


def test_async_handler_completes(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, {"n": 20})

    async def double(ctx: pawl.AsyncContext, input: dict[str, int]) -> dict[str, int]:
        return {"n": 2 * input["n"]}

    assert drain(shared, kind, double).completed == 1
    assert client.task_result(task["id"])["payload"] == {"n": 40}


def test_plain_handler_runs_in_a_thread(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    tasks = [client.create_task(kind, n) for n in range(5)]
    threads = set()

    def work(n: int) -> int:
        threads.add(threading.current_thread().name)
        return n * n

    assert drain(shared, kind, work).completed == 5
    assert [client.task_result(t["id"])["payload"] for t in tasks] == [0, 1, 4, 9, 16]
    assert all(name.startswith("pawl-handler-") for name in threads)
