"""A worker's handlers: input and result, failures, steps and waits."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import shutil
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pydantic
import pytest

import pawl
import pawl.testing
from pawl._async.connection import AsyncCall
from pawl._steps import args_of

from .conftest import Running, ended, state, until

Server = pawl.testing.Server


def test_a_step_says_how_long_it_ran() -> None:
    """What a checkpoint keeps has the time and the arguments."""
    args = args_of("s", None, [1], {})
    slow = args.kept(time.monotonic() - 1.5)["metadata"]
    assert 1500 <= slow.pop("took_ms") < 60_000
    assert slow == {"args": dict(args.parts)}
    assert "took_ms" not in args.kept()["metadata"]


def error_of(item: pawl.types.ItemView) -> pawl.types.Failure:
    """The error of an item."""
    error = item["error"]
    assert isinstance(error, dict)
    return error


def drain(server: Server, kind: str, fn: Any, **options: Any) -> pawl.Summary:
    """Runs a worker until nothing is left."""
    worker = pawl.Worker(server.url, drain=True, **options)
    worker.add(kind, fn)
    return worker.run()


def test_async_handler_completes(shared: Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, {"n": 20})

    async def double(ctx: pawl.AsyncContext, input: dict[str, int]) -> dict[str, int]:
        return {"n": 2 * input["n"]}

    assert drain(shared, kind, double).completed == 1
    assert client.task_result(task["id"])["payload"] == {"n": 40}


def test_plain_handler_runs_in_a_thread(shared: Server, client: pawl.Client, kind: str) -> None:
    tasks = [client.create_task(kind, n) for n in range(5)]
    threads = set()

    def work(n: int) -> int:
        threads.add(threading.current_thread().name)
        return n * n

    assert drain(shared, kind, work).completed == 5
    assert [client.task_result(t["id"])["payload"] for t in tasks] == [0, 1, 4, 9, 16]
    assert all(name.startswith("pawl-handler-") for name in threads)


@dataclasses.dataclass
class Address:
    street: str
    number: int | None = None


@dataclasses.dataclass
class Mail:
    to: list[Address]
    subject: str = "none"


class Receipt(pydantic.BaseModel):
    sent: int
    to: list[str]


def test_dataclasses_and_models_are_inputs_and_results(shared: Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, {"to": [{"street": "a"}, {"street": "b", "number": 2}], "new_member": 1})

    def send(ctx: pawl.Context, mail: Mail) -> Receipt:
        assert mail == Mail([Address("a"), Address("b", 2)])
        return Receipt(sent=len(mail.to), to=[a.street for a in mail.to])

    drain(shared, kind, send)
    assert client.task_result(task["id"])["payload"] == {"sent": 2, "to": ["a", "b"]}
    model = client.create_task(kind, {"sent": 1, "to": ["x"]})

    async def again(receipt: Receipt) -> Mail:
        return Mail([Address(t) for t in receipt.to])

    drain(shared, kind, again)
    assert client.task_result(model["id"])["payload"] == {
        "to": [{"street": "x", "number": None}],
        "subject": "none",
    }


@pytest.mark.parametrize("payload", [{"to": 5}, {"to": [{"street": 1}]}, {}, "text", None])
def test_an_input_that_does_not_fit_fails_for_good(
    shared: Server, client: pawl.Client, kind: str, payload: Any
) -> None:
    task = client.create_task(kind, payload)

    def send(mail: Mail) -> None:
        raise AssertionError("it must not run")

    assert drain(shared, kind, send).failed == 1
    [item] = client.task_items(task["id"])
    assert (item["state"], error_of(item)["code"], item["attempt"]) == ("failed", "invalid_input", 1)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (object(), "object"),
        ({1: "a"}, "1"),
        (float("nan"), "nan"),
        ({"a": [1, {2, 3}]}, "/a/1"),
        ("\ud800", "UTF-8"),
        (b"bytes", "bytes"),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_a_result_that_is_not_json_fails_for_good(
    shared: Server, client: pawl.Client, kind: str, result: Any, says: str, is_async: bool
) -> None:
    task = client.create_task(kind)

    async def coroutine() -> Any:
        return result

    assert drain(shared, kind, coroutine if is_async else lambda: result).failed == 1
    [item] = client.task_items(task["id"])
    assert error_of(item)["code"] == "invalid_result" and says in error_of(item)["message"]
    assert item["state"] == "failed"


def test_what_a_handler_raises(shared: Server, client: pawl.Client, kind: str) -> None:
    client.put_type(kind, {"backoff": {"base_seconds": 1, "max_seconds": 1}})
    task = client.create_task(kind, max_attempts=5)
    raised = [
        pawl.RetryAfter(0, "not yet", code="busy"),
        pawl.Snooze(),
        ValueError("a bug\0"),
        pawl.Permanent("no such address", code="bad_address", detail={"to": "x"}),
    ]
    seen: list[Any] = []

    def work(ctx: pawl.Context) -> None:
        seen.append(ctx.lease.get("error"))
        raise raised[len(seen) - 1]

    with Running(shared, {kind: work}):
        ended(client, task, "failed")
    assert len(seen) == 4
    assert seen[1]["code"] == "busy" and seen[2]["code"] == "busy"
    assert seen[3]["message"] == "a bug\ufffd" and "ValueError" in seen[3]["detail"]["traceback"]
    [item] = client.task_items(task["id"])
    assert item["error"] == {"code": "bad_address", "message": "no such address", "detail": {"to": "x"}}
    assert item["failures"] == 3


def test_numbers_beyond_2_to_the_53_are_exact(shared: Server, client: pawl.Client, kind: str) -> None:
    n = 2**53 + 1
    task = client.create_task(kind, {"n": n, "more": 10**30})
    got: list[Any] = []

    async def work(ctx: pawl.AsyncContext, input: dict[str, int]) -> int:
        got.append(input)
        return await ctx.step("sum", lambda: input["n"] + input["more"])

    drain(shared, kind, work)
    assert got == [{"n": n, "more": 10**30}]
    assert client.task_result(task["id"])["payload"] == n + 10**30


@pytest.mark.parametrize("is_async", [True, False])
def test_a_step_runs_once(shared: Server, client: pawl.Client, kind: str, is_async: bool) -> None:
    task = client.create_task(kind)
    calls: list[int] = []
    attempts: list[int] = []

    def fetch(n: int, *, more: int = 0) -> Address:
        calls.append(n)
        return Address("s", n + more)

    async def coroutine(ctx: pawl.AsyncContext) -> Any:
        attempts.append(ctx.attempt)
        a = await ctx.step("fetch", fetch, 1, more=2)
        b = await ctx.step("fetch", fetch, 1, more=2)
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0)
        assert a == b == Address("s", 3)
        return a

    def plain(ctx: pawl.Context) -> Any:
        attempts.append(ctx.attempt)
        a = ctx.step("fetch", fetch, 1, more=2)
        b = ctx.step("fetch", fetch, 1, more=2)
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0)
        assert a == b == Address("s", 3)
        return a

    with Running(shared, {kind: coroutine if is_async else plain}):
        ended(client, task)
    assert (calls, attempts) == ([1], [1, 2])
    assert client.task_result(task["id"])["payload"] == {"street": "s", "number": 3}


def test_a_step_with_other_arguments_or_inside_itself_is_refused(
    shared: Server, client: pawl.Client, kind: str
) -> None:
    client.create_task(kind)
    errors: list[str] = []

    def work(ctx: pawl.Context) -> None:
        ctx.step("a", lambda n: n, 1)
        for call in (
            lambda: ctx.step("a", lambda n: n, 2),
            lambda: ctx.step("b", lambda: ctx.step("b", lambda: 1)),
            lambda: ctx.step("", lambda: 1),
            lambda: ctx.step("n" * 256, lambda: 1),
            lambda: ctx.step("a\0b", lambda: 1),
            lambda: ctx.sleep("a", 5),
            lambda: ctx.wait_for("a", "s"),
        ):
            with pytest.raises(pawl.InvalidError) as e:
                call()
            errors.append(str(e.value))
        with pytest.raises(pawl.Permanent, match="not JSON"):
            ctx.step("c", object)

    assert drain(shared, kind, work).completed == 1
    assert "other arguments" in errors[0] and "inside itself" in errors[1]


def bill(amount: int, order: dict[str, str], currency: str = "") -> int:
    return amount


def test_a_step_that_changed_fails_its_item_for_good(
    shared: pawl.testing.Server, client: pawl.Client, kind: str
) -> None:
    task = client.create_task(kind)

    def work(ctx: pawl.Context) -> None:
        ctx.step("a", bill, 1, {"to": "Ana", "cc": "Bo"}, currency="EUR")
        ctx.step("a", bill, 1, {"to": "Ana", "cc": "Cy"}, currency="USD")

    assert drain(shared, kind, work).failed == 1
    [item] = client.task_items(task["id"])
    assert (item["state"], item["failures"]) == ("failed", 1)
    assert "for other arguments (order/cc, currency); give" in error_of(item)["message"]


@pytest.mark.parametrize("is_async", [True, False])
def test_sleep_and_wait_for(shared: Server, client: pawl.Client, kind: str, is_async: bool) -> None:
    task = client.create_task(kind)
    log: list[str] = []

    async def coroutine(ctx: pawl.AsyncContext) -> Any:
        log.append(f"attempt {ctx.attempt}")
        await ctx.sleep("nap", 0.05)
        log.append("slept")
        try:
            await ctx.wait_for("never", "no.signal", timeout=timedelta(seconds=0.05))
        except pawl.SignalTimeout:
            log.append("timed out")
        return await ctx.wait_for("approval", "approved", kind)

    def plain(ctx: pawl.Context) -> Any:
        log.append(f"attempt {ctx.attempt}")
        ctx.sleep("nap", 0.05)
        log.append("slept")
        try:
            ctx.wait_for("never", "no.signal", timeout=0.05)
        except pawl.SignalTimeout:
            log.append("timed out")
        return ctx.wait_for("approval", "approved", kind)

    with Running(shared, {kind: coroutine if is_async else plain}):
        until(lambda: log.count("timed out") == 1 and next(iter(client.task_items(task["id"])))["state"] == "waiting")
        assert client.send_signal("approved", {"by": "ana"}, key=kind)["woken"] == 1
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == {"by": "ana"}
    assert log.count("slept") >= 2 and log[-1] == "timed out"


def test_children(shared: Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, 3)

    async def parent(ctx: pawl.AsyncContext, n: int) -> Any:
        spawned = [await ctx.spawn(f"child-{i}", f"{kind}.child", i) for i in range(n)]
        children = await ctx.await_children("all", [spawned[0]["id"], *spawned[1:]])  # ids and tasks
        return [c["result"] for c in children]

    with Running(shared, {kind: parent, f"{kind}.child": lambda n: n * 10}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == [0, 10, 20]
    assert len(client.list_tasks(parent_id=task["id"]).all()) == 3


def test_budgets(shared: Server, client: pawl.Client, kind: str) -> None:
    client.put_budget(kind, 100, "tokens", on_exhausted="fail")
    task, over = client.create_task(kind, 60), client.create_task(kind, 80)

    def spend(ctx: pawl.Context, amount: int) -> int:
        reservation = ctx.reserve(kind, amount)
        reservation.settle(amount // 2 + 10)
        return reservation.amount

    drain(shared, kind, spend, concurrency=1)
    assert client.task_result(task["id"])["payload"] == 60
    [item] = client.task_items(over["id"])
    assert (item["state"], error_of(item)["code"]) == ("failed", "budget_exhausted")
    assert client.get_budget(kind)["spent"] == 40


def test_a_suspending_budget_lets_the_item_wait(shared: Server, client: pawl.Client, kind: str) -> None:
    client.put_budget(kind, 10, "tokens", on_exhausted="suspend")
    task = client.create_task(kind)

    async def spend(ctx: pawl.AsyncContext) -> int:
        reservation = await ctx.reserve(kind, 50)
        await reservation.settle(50)
        return ctx.attempt

    with Running(shared, {kind: spend}):
        until(lambda: next(iter(client.task_items(task["id"])))["state"] == "waiting")
        client.put_budget(kind, 1000, "tokens", on_exhausted="suspend")
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == 2


def test_progress_checkpoint_and_part(shared: Server, client: pawl.Client, kind: str) -> None:
    client.put_type(kind, {"acceptance": True, "parts": [{"key": "page"}]})
    task = client.create_task(kind)

    def work(ctx: pawl.Context) -> Any:
        ctx.progress(40, "reading")
        if ctx.attempt == 1:
            ctx.checkpoint("half", {"done": 7}, metadata={"a": 1})
            ctx.part("page", {"n": 1})
            raise pawl.RetryAfter(0)
        state = ctx.resume()
        return [state["steps"]["half"]["snapshot"], len(state["parts"]), abs(time.time() - ctx.now().timestamp()) < 60]

    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == [{"done": 7}, 1, True]
    [item] = client.task_items(task["id"])
    assert item["stage"] == "reading"


def test_results_that_want_acceptance_are_submitted(shared: Server, client: pawl.Client, kind: str) -> None:
    client.put_type(kind, {"acceptance": True, "result_schema": {"type": "object", "required": ["ok"]}})
    good, bad = client.create_task(kind, {"ok": 1}), client.create_task(kind, {"no": 1})
    drain(shared, kind, lambda input: input)
    assert client.task_result(good["id"])["payload"] == {"ok": 1}
    assert "submitted" in [e["event"] for e in client.task_events(good["id"])]
    [item] = client.task_items(bad["id"])
    assert (item["state"], error_of(item)["code"]) == ("failed", "invalid_result")
    assert error_of(item)["message"] == "the result was refused: /result: does not fit"  # which quotes nothing
    assert error_of(item)["detail"] == {"errors": [{"pointer": "/result/ok", "message": "is required"}]}


def test_a_step_named_with_the_rework_runs_again(shared: Server, client: pawl.Client, kind: str) -> None:
    client.put_type(kind, {"acceptance": True, "approval": {"mode": "manual"}})
    task = client.create_task(kind)
    drafts: list[int] = []

    def write(ctx: pawl.Context) -> list[int]:
        ctx.step("read", drafts.append, 0)
        ctx.step(f"draft {ctx.rework}", drafts.append, ctx.rework + 1)
        return drafts

    drain(shared, kind, write)
    client.reject_task(task["id"], errors=[{"code": "thin", "message": "thin"}], allow_rework=True)
    drain(shared, kind, write)
    assert drafts == [0, 1, 2]


def test_what_does_not_fit_what_was_saved_fails_for_good(shared: Server, client: pawl.Client, kind: str) -> None:
    def other(ctx: pawl.Context) -> None:
        ctx.checkpoint("answer", None, type="state_transition", metadata={"signal": "other"})
        ctx.wait_for("answer", kind)

    def wait(ctx: pawl.Context) -> None:
        ctx.step("answer", str)
        ctx.wait_for("answer", kind)

    def sleep(ctx: pawl.Context) -> None:
        ctx.step("answer", str)
        ctx.sleep("answer", 1)

    for handler, said in ((other, "it waited for signal"), (wait, "waits for no signal"), (sleep, "is no sleep")):
        task = client.create_task(kind)
        drain(shared, kind, handler)
        [item] = client.task_items(task["id"])
        assert (item["state"], item["failures"], error_of(item)["code"]) == ("failed", 1, "invalid")
        assert said in error_of(item)["message"]
        assert "pawl.StepChangedError: " in error_of(item)["detail"]["traceback"]


def test_handlers_run_at_the_same_time(shared: Server, client: pawl.Client, kind: str) -> None:
    client.create_tasks([{"type": kind} for _ in range(40)])
    now, most = 0, 0

    async def work(ctx: pawl.AsyncContext) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1

    assert drain(shared, kind, work, concurrency=8).completed == 40
    assert most == 8


def test_a_handler_of_all_types_and_wrong_handlers(shared: Server, client: pawl.Client, kind: str) -> None:
    worker = pawl.Worker(shared.url, drain=True, task_id=client.create_task(kind, 7)["id"])
    seen: list[Any] = []

    @worker.handler()
    def anything(ctx, input):  # type: ignore[no-untyped-def]
        seen.append((ctx.lease["type"], input))

    assert worker.run().completed == 1
    assert seen == [(kind, 7)]
    with pytest.raises(ValueError, match="two handlers"):
        worker.add("", anything)
    with pytest.raises(TypeError, match="AsyncContext"):

        async def wrong(ctx: pawl.Context) -> None: ...

        worker.add("x", wrong)
    with pytest.raises(TypeError, match="a context and an input"):
        worker.add("x", lambda a, b, c: None)
    with pytest.raises(TypeError, match=r'takes the names of types: @worker\.handler\("mail\.send"\)'):
        worker.handler(anything)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no handler"):
        pawl.Worker(shared.url).run()
    with httpx.Client() as http, pytest.raises(ValueError, match="`verify` in place of `http`"):
        pawl.Worker(pawl.Client(shared.url, http=http))


def test_a_worker_whose_claims_are_refused_says_why(shared: Server) -> None:
    worker = pawl.Worker(shared.url, worker_id="w" * 256)
    worker.add("x", lambda: None)
    with pytest.raises(pawl.InvalidError):
        worker.run()


def test_a_worker_of_a_copy_waits_until_it_is_adopted(
    shared: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(db=f"sqlite:{tmp_path}/one.db", env={"PAWL_IDENTITY": "check"}):
        pass
    shutil.copy(tmp_path / "one.db", tmp_path / "copy.db")
    copy = f"sqlite:{tmp_path}/copy.db"
    with Server(db=copy, env={"PAWL_IDENTITY": "check"}) as server, pawl.Client(server.url) as client:
        task = client.create_task("x")
        with pytest.raises(pawl.QuarantinedError, match="pawl adopt --as-copy"):
            client.claim("w")
        with Running(server, {"x": lambda: 7}):
            until(lambda: "is quarantined" in caplog.text)
            subprocess.run([server.binary, "adopt", "--db", copy], check=True, capture_output=True)
            until(lambda: client.get_task(task["id"])["state"] == "completed")
    assert caplog.text.count("is quarantined") == 1


def test_a_worker_is_in_the_list_of_workers(shared: Server, client: pawl.Client, kind: str) -> None:
    with Running(shared, {kind: lambda: None}, name="mailer", version="1.2") as running:
        worker_id = running.worker.worker_id
        row = until(lambda: next((w for w in client.list_workers() if w["worker_id"] == worker_id), None))
    assert (row["name"], row["version"]) == ("mailer", "1.2")


def test_in_the_callers_event_loop(shared: Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind)
    slow = client.create_task(f"{kind}.slow")

    async def main() -> None:
        worker = pawl.Worker(pawl.AsyncClient(shared.url), stop_grace=30)
        started = asyncio.Event()
        with pytest.raises(TypeError, match=r"as in a notebook: call `await worker\.run_async"):
            worker.run()

        @worker.handler(kind)
        async def quick() -> int:
            return 1

        @worker.handler(f"{kind}.slow")
        async def wait() -> None:
            started.set()
            await asyncio.sleep(60)

        running = asyncio.create_task(worker.run_async())
        await asyncio.wait_for(started.wait(), 20)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert state(client, task) == "completed"
    [item] = client.task_items(slow["id"])
    assert (item["state"], item["failures"]) == ("queued", 0)


def test_items_are_logged_at_info_by_default(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind)
    program = f"""
import sys, logging, pawl
if len(sys.argv) > 1:
    logging.basicConfig(level=logging.WARNING)
worker = pawl.Worker({shared.url!r}, drain=True)
worker.add({kind!r}, lambda ctx: 1)
worker.run()
"""
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stderr
    assert re.search(rf"worker \S+ takes items of {kind} from {shared.url}, namespace default\n", said), said
    for what in ("started", "done"):
        named = rf"INFO pawl\.worker: item {what}: itm_\w+ of type {kind}, attempt 1, task {task['id']}"
        assert len(re.findall(named, said)) == 1, said
    client.create_task(kind)
    told = subprocess.run(
        [sys.executable, "-c", program, "warnings"], check=True, capture_output=True, text=True
    ).stderr
    assert "INFO" not in told


def test_a_fork_does_not_run_its_saved_steps_again(shared: Server, client: pawl.Client, kind: str) -> None:
    """It goes on in its first attempt already."""
    ran: list[str] = []
    task = client.create_task(kind)

    def work(ctx: pawl.Context) -> None:
        for name in ("fetch", "charge", "send"):
            ctx.step(name, ran.append, name)

    drain(shared, kind, work)
    fork = client.fork_task(task["id"], checkpoint=2)
    assert drain(shared, kind, work).completed == 1
    assert ran == ["fetch", "charge", "send", "send"]
    assert client.get_task(fork["id"])["state"] == "completed"


class Unfit(pydantic.BaseModel):
    """A result that pydantic cannot write."""

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    value: Any


@pytest.mark.parametrize("is_async", [False, True])
def test_what_cannot_be_reported_frees_its_slot(shared: Server, client: pawl.Client, kind: str, is_async: bool) -> None:
    """Errors other than TypeError on the way to JSON, and delays without an end."""
    loop: list[Any] = []
    loop.append(loop)
    results = {"model": Unfit(value=object()), "digits": 10**5000, "depth": loop, "surrogate": "\ud800"}
    raised = {"later": pawl.RetryAfter(float("inf"), "later"), "asleep": pawl.Snooze(float("inf"))}
    raised["code"] = pawl.Permanent("no", code=7)  # type: ignore[arg-type]
    raised["detail"] = pawl.Permanent("no", detail=10**5000)

    def work(name: str) -> Any:
        if name in raised:
            raise raised[name]
        return results.get(name)

    async def work_async(name: str) -> Any:
        return work(name)

    tasks = {name: client.create_task(kind, name)["id"] for name in [*results, *raised, "good"]}
    with Running(shared, {kind: work_async if is_async else work}, concurrency=1):
        until(lambda: client.get_task(tasks["good"])["state"] == "completed")
        items = {name: next(iter(client.list_items(task_id=id))) for name, id in tasks.items()}
    for name in [*results, "code", "detail"]:
        assert items[name]["state"] == "failed", (name, items[name])
        assert name == "detail" or error_of(items[name])["code"] == "invalid_result"
    assert [items["later"]["state"], items["asleep"]["state"]] == ["scheduled", "scheduled"]


class Slow:
    """Calls of one route that take a while."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, route: str, seconds: float = 0.3) -> None:
        self.began = threading.Event()
        once = AsyncCall._once

        async def instead(call: Any, r: Any, raw: bool) -> Any:
            if r.route.name == route:
                self.began.set()
                await asyncio.sleep(seconds)
            return await once(call, r, raw)

        monkeypatch.setattr(AsyncCall, "_once", instead)


@pytest.mark.parametrize("route", ["checkpoint", "report_effect_done", "complete_key", "step_message"])
def test_the_end_of_the_grace_loses_nothing_that_is_done(
    shared: Server, client: pawl.Client, kind: str, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(monkeypatch, route)
    ran: list[str] = []
    after: list[str] = []

    async def work(ctx: pawl.AsyncContext) -> int:
        if route == "checkpoint":
            await ctx.step("pay", ran.append, "paid")
        elif route == "report_effect_done":
            await ctx.effect("pay", ran.append)
        elif route == "complete_key":
            await ctx.client.once(kind, None, ran.append, "paid")
        else:
            message = await ctx.message()
            await message.named_step("pay", lambda _: ran.append("paid"))
        after.append("not cancelled")
        return 7

    task = client.create_task(kind, reply={})
    with Running(shared, {kind: work}, stop_grace=0.0):
        assert slow.began.wait(30)
    assert (ran, after, state(client, task)) == ([*ran[:1]], [], "queued")
    with Running(shared, {kind: work}):
        ended(client, task)
    assert len(ran) == 1


def test_a_timeout_of_the_caller_loses_no_words(
    shared: Server, client: pawl.Client, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Slow(monkeypatch, "append", 0.2)

    async def work(ctx: pawl.AsyncContext) -> None:
        message = await ctx.message()
        await message.text("one ")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(message.flush(), 0.05)
        await message.text("two")
        await message.finish()

    task = client.create_task(kind, reply={}, max_attempts=1)
    with Running(shared, {kind: work}):
        ended(client, task)
    [message] = client.list_messages(task_id=task["id"])
    assert [p.get("text") for p in message["content"] or []] == ["one two"]


@pytest.mark.parametrize("result", ["x" * 1_100_000, float("nan"), object()], ids=["large", "nan", "object"])
def test_a_step_that_cannot_be_saved_runs_once(shared: Server, client: pawl.Client, kind: str, result: Any) -> None:
    client.put_type(kind, {"backoff": {"base_seconds": 1, "max_seconds": 1}})
    task = client.create_task(kind, max_attempts=3)
    ran: list[str] = []

    def pay() -> Any:
        ran.append("paid")
        return result

    def work(ctx: pawl.Context) -> None:
        ctx.step("pay", pay)

    with Running(shared, {kind: work}):
        ended(client, task, "failed")
    assert ran == ["paid"]


@pytest.mark.parametrize(
    ("raised", "want"),
    [(pawl.Permanent("the card is stolen"), "failed"), (ValueError("cut off"), "queued"), (pawl.Snooze(600), "queued")],
)
def test_what_a_handler_raises_at_the_end_of_its_worker(
    shared: Server, client: pawl.Client, kind: str, raised: Exception, want: str
) -> None:
    task = client.create_task(kind)
    began = threading.Event()

    async def work(ctx: pawl.AsyncContext) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise raised from None

    with Running(shared, {kind: work}, stop_grace=0.0):
        assert began.wait(30)
    ended(client, task, want)
    [item] = client.task_items(task["id"])
    later = "run_at" in item and item["state"] == "scheduled"
    assert (item["failures"], later) == (int(want == "failed"), isinstance(raised, pawl.Snooze))
