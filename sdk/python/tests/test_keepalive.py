"""Leases that a program has claimed itself, kept alive."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

import pawl
import pawl.testing

from .conftest import until

Server = pawl.testing.Server


def claimed(client: pawl.Client, kind: str, **options: Any) -> pawl.types.Lease:
    """A lease of a new task, of two seconds."""
    client.create_task(kind)
    [lease] = client.claim("w1", types=[kind], **{"lease_seconds": 2, **options})
    return lease


def test_a_lease_is_kept(shared: Server, client: pawl.Client, kind: str) -> None:
    lease = claimed(client, kind)
    lost: list[Exception] = []
    with client.keep_alive(lease, 0.1, on_lost=lost.append) as kept:
        first = lease["lease_expires_at"]
        until(lambda: client.get_item(lease["id"])["lease_expires_at"] > first)
        assert kept.running and kept.lost is None
        client.complete(lease, 1)
        until(lambda: not kept.running)  # the next heartbeat is refused
    assert lost == [kept.lost] and isinstance(kept.lost, pawl.LeaseLostError)


def test_what_ends_it(shared: Server, client: pawl.Client, kind: str) -> None:
    lost: list[Exception] = []
    stopped = client.keep_alive(claimed(client, kind), 0.05, on_lost=lost.append)
    stopped.stop()
    lease = claimed(client, kind)
    kept = client.keep_alive(lease, 0.05, on_lost=lost.append)
    client.cancel_task(lease["task_id"])
    until(lambda: lost)
    assert [type(e) for e in lost] == [pawl.ItemCancelled] and not kept.running
    assert not stopped.running and stopped.lost is None


def test_failures_are_counted(client: pawl.Client, kind: str) -> None:
    lease = claimed(client, kind, lease_seconds=60)
    calls: list[str] = []

    def broken(request: httpx.Request) -> httpx.Response:
        calls.append(request.url.path)
        raise httpx.ConnectError("no route", request=request)

    away = pawl.Client("http://pawl.test", http=httpx.Client(transport=httpx.MockTransport(broken)))
    lost: list[Exception] = []
    kept = away.keep_alive(lease, 0.02, 4, lost.append)
    until(lambda: lost)
    assert calls == [f"/v1/items/{lease['id']}:heartbeat"] * 4
    assert kept.failures == 4 and not kept.running
    assert "4 heartbeats in a row failed" in str(kept.lost)


def test_a_lease_that_has_ended_is_lost(client: pawl.Client, kind: str) -> None:
    lease = claimed(client, kind, lease_seconds=1)

    def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route", request=request)

    away = pawl.Client("http://pawl.test", http=httpx.Client(transport=httpx.MockTransport(broken)))
    kept = away.keep_alive(lease, 0.2, 1000)
    until(lambda: not kept.running)
    assert isinstance(kept.lost, pawl.LeaseLostError) and "expired" in str(kept.lost)


def test_bad_arguments(client: pawl.Client, kind: str) -> None:
    lease = claimed(client, kind)
    for interval, failures in ((0, 3), (-1, 3), (2, 3), (0.1, 0)):
        with pytest.raises(pawl.InvalidError):
            client.keep_alive(lease, interval, failures)


def test_with_asyncio(shared: Server, client: pawl.Client, kind: str) -> None:
    lease = claimed(client, kind)

    async def main() -> None:
        over = asyncio.Event()

        async def lost(why: Exception) -> None:
            assert isinstance(why, pawl.LeaseLostError)
            over.set()

        async with pawl.AsyncClient(shared.url) as c, c.keep_alive(lease, 0.05, on_lost=lost) as kept:
            await c.complete(lease)
            await asyncio.wait_for(over.wait(), 30)
            assert not kept.running

    asyncio.run(main())


def test_a_client_that_was_closed_keeps_no_lease(shared: Server, client: pawl.Client, kind: str) -> None:
    own = shared.client()
    lost: list[Exception] = []
    kept = own.keep_alive(claimed(client, kind, lease_seconds=60), 0.02, on_lost=lost.append)
    own.close()
    until(lambda: lost)
    assert not kept.running and isinstance(kept.lost, pawl.LeaseLostError)
