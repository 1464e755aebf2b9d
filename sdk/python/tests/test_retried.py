"""Steps that are tried again within the attempt."""

from __future__ import annotations

import time
from typing import Any

import pytest

import pawl
import pawl.testing
from pawl._retried import Retried

from .conftest import Running, ended, until
from .test_worker import Address, drain, error_of

Server = pawl.testing.Server


def retried(**options: Any) -> Retried:
    out = pawl.retried(len, **options)
    assert isinstance(out, Retried)
    return out


CASES: dict[str, tuple[dict[str, Any], int, Exception, tuple[float, float] | None]] = {
    # options, failed calls, the error of the last, the delay that follows
    "by default": ({}, 1, OSError("away"), (0.8, 1.2)),
    "it doubles": ({"tries": 9}, 4, OSError("away"), (6.4, 9.6)),
    "the longest": ({"tries": 100}, 99, OSError("away"), (24, 36)),
    "a long base": ({"base_seconds": 60}, 2, OSError("away"), (48, 72)),
    "the last": ({"tries": 2}, 2, OSError("away"), None),
    "permanent": ({}, 1, pawl.Permanent("no"), None),
    "snoozed": ({}, 1, pawl.Snooze(1), None),
    "the lease is lost": ({}, 1, pawl.LeaseLostError("gone"), None),
    "the item is cancelled": ({}, 1, pawl.ItemCancelled("gone"), None),
    "a step that changed": ({}, 1, pawl.StepChangedError("other arguments"), None),
    "a short RetryAfter": ({}, 1, pawl.RetryAfter(20), (20, 20)),
    "a long RetryAfter": ({}, 1, pawl.RetryAfter(31), None),
    "a class that is meant": ({"when": OSError}, 1, ConnectionError("away"), (0.8, 1.2)),
    "one that is not": ({"when": (KeyError, ValueError)}, 1, OSError("away"), None),
    "a function": ({"when": lambda e: "later" in str(e)}, 1, OSError("away"), None),
}


@pytest.mark.parametrize("case", CASES)
def test_the_delay_after_a_failed_call(case: str) -> None:
    options, failed, error, want = CASES[case]
    for _ in range(50):
        got = retried(**options).after(failed, error)
        assert got is None if want is None else got is not None and want[0] <= got <= want[1]


@pytest.mark.parametrize("options", [{"tries": 0}, {"tries": 101}, {"base_seconds": -1}, {"max_seconds": -1}])
def test_what_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        pawl.retried(len, **options)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_step_is_tried_again(shared: Server, client: pawl.Client, kind: str, is_async: bool) -> None:
    task = client.create_task(kind)
    calls: list[int] = []

    def fetch(n: int) -> Address:
        calls.append(n)
        if len(calls) < 3:
            raise ConnectionError("away")
        return Address("s", n)

    async def fetch_async(n: int) -> Address:
        return fetch(n)

    async def coroutine(ctx: pawl.AsyncContext) -> Any:
        for fn in (pawl.retried(fetch_async, base_seconds=0.01), pawl.retried(fetch)):
            a = await ctx.step("fetch", fn, 7)
        return a

    def plain(ctx: pawl.Context) -> Any:
        for _ in range(2):
            a = ctx.step("fetch", pawl.retried(fetch, base_seconds=0.01), 7)
        return a

    assert drain(shared, kind, coroutine if is_async else plain).completed == 1
    assert calls == [7, 7, 7]
    assert client.task_result(task["id"])["payload"] == {"street": "s", "number": 7}
    [item] = client.task_items(task["id"])
    assert item["failures"] == 0
    [saved] = [c for c in client.list_checkpoints(task_id=task["id"]) if c.get("name") == "fetch"]
    assert saved["snapshot"] == {"street": "s", "number": 7}


def test_the_last_error_fails_the_attempt(shared: Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, max_attempts=1)
    calls: list[int] = []

    def fetch() -> None:
        calls.append(1)
        raise ConnectionError(f"away {len(calls)}")

    assert (
        drain(shared, kind, lambda ctx: ctx.step("fetch", pawl.retried(fetch, tries=2, base_seconds=0.01))).failed == 1
    )
    [item] = client.task_items(task["id"])
    assert (item["failures"], error_of(item)["message"]) == (1, "away 2")


@pytest.mark.parametrize("is_async", [True, False])
def test_a_cancelled_item_ends_the_tries(shared: Server, client: pawl.Client, kind: str, is_async: bool) -> None:
    task = client.create_task(kind)
    calls: list[float] = []
    raised: list[BaseException] = []

    def fetch() -> None:
        calls.append(time.monotonic())
        raise ConnectionError("away")

    fn = pawl.retried(fetch, base_seconds=30)

    async def coroutine(ctx: pawl.AsyncContext) -> None:
        try:
            await ctx.step("fetch", fn)
        except BaseException as e:
            raised.append(e)
            raise

    def plain(ctx: pawl.Context) -> None:
        try:
            ctx.step("fetch", fn)
        except BaseException as e:
            raised.append(e)
            raise

    with Running(shared, {kind: coroutine if is_async else plain}, lease_seconds=2):
        until(lambda: calls)
        client.cancel_task(task["id"])
        until(lambda: raised, 10)
    assert len(calls) == 1
    assert is_async or isinstance(raised[0], pawl.ItemCancelled)


def test_a_step_of_a_message_is_not_tried_again(shared: Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, reply={})

    def tell(message: pawl.MessageWriter) -> None:
        message.text("once")

    def work(ctx: pawl.Context) -> None:
        with ctx.message() as message:
            message.named_step("tell", pawl.retried(tell))

    with Running(shared, {kind: work}):
        ended(client, task, "failed")
    [item] = client.task_items(task["id"])
    assert item["failures"] == 1 and "cannot be tried again" in error_of(item)["message"]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_try_goes_on_with_a_reservation(shared: Server, client: pawl.Client, kind: str, is_async: bool) -> None:
    client.put_budget(kind, 200, "tokens", on_exhausted="fail")
    client.create_task(kind)
    calls: list[str] = []
    ids: dict[str, list[str]] = {"before": [], "after": []}

    async def coroutine(ctx: pawl.AsyncContext) -> None:
        async def ask(fails: str) -> None:
            calls.append(fails)
            r = await ctx.reserve(kind, 60)
            ids[fails].append(r.id)
            first = calls.count(fails) == 1
            if not first or fails == "after":
                await r.settle(50)
            if first:
                raise ConnectionError("away")

        for fails in ids:
            await ctx.step(fails, pawl.retried(ask, base_seconds=0.01), fails)

    def plain(ctx: pawl.Context) -> None:
        def ask(fails: str) -> None:
            calls.append(fails)
            r = ctx.reserve(kind, 60)
            ids[fails].append(r.id)
            first = calls.count(fails) == 1
            if not first or fails == "after":
                r.settle(50)
            if first:
                raise ConnectionError("away")

        for fails in ids:
            ctx.step(fails, pawl.retried(ask, base_seconds=0.01), fails)

    assert drain(shared, kind, coroutine if is_async else plain).completed == 1
    assert (len(ids["before"]), len(set(ids["before"]))) == (2, 1)  # it failed before it settled
    assert (len(ids["after"]), len(set(ids["after"]))) == (2, 2)
    budget = client.get_budget(kind)
    assert (budget["spent"], budget["reserved"]) == (150, 0)
