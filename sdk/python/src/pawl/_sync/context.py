# Made of src/pawl/_async/context.py by tools/unasync.py: do not edit.
"""What a handler gets: its claim, and what is written under it."""

from __future__ import annotations

import contextvars
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from .. import _rules as rules
from .. import _trace
from .. import types as t
from .._codec import decode, hints_of
from .._effects import Probed
from .._errors import (
    BudgetExhaustedError,
    ConflictError,
    InvalidError,
    LeaseLostError,
    NotFoundError,
    PawlError,
    Permanent,
    SignalTimeout,
    Suspended,
)
from .._job import Job, State
from .._json import dumps, format_time, hash_of, loads, parse_time
from .._lease import claim_loss, transient
from .._retried import Retried
from .._steps import StepArgs, args_of, final, replayed, step_changed
from . import _io
from .client import Client
from .effects import Effect, options_of
from .items import _set, fence

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .message import MessageWriter

P = ParamSpec("P")
T = TypeVar("T")

CALL_TIMEOUT = 10.0  # of one try of a call
MAX_STEP_NAME = 255
MAX_DELAY = timedelta(days=3653)  # of a sleep or a wait: 10 years
BUDGET_RETRY = timedelta(seconds=60)
MAX_KEY = 255 - len("@2147483647")
MAX_RESULTS = (1 << 20) // 2  # bytes of children's results in one checkpoint

_inside: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("pawl_steps", default=())


class Context:
    """A handler's access to its item, under one claim. Every write is fenced.

    When the claim is over, each method raises why: `LeaseLostError` or `ItemCancelled`.
    """

    def __init__(self, job: Job, client: Client, flush_seconds: float = 0.1) -> None:
        self._job = job
        self._flush_seconds = flush_seconds
        self._saved: dict[str, t.Checkpoint] = {}
        self._state: t.ResumeState | None = None
        self._locks: dict[str, Any] = {}
        self._reading = _io.Lock()
        self._reserved: dict[str, dict[str, int]] = {}  # reservations by step, in its present run, and budget
        self._settled: set[tuple[str, str]] = set()  # budgets and keys, those that are named here
        self._earlier: list[t.MessageRef] | None = None
        self._started = 0
        self._starting = _io.Lock()
        self._costs = _trace.Costs()
        #: A client for other calls. It is the worker's: do not close it.
        self.client = client

    @property
    def lease(self) -> t.Lease:
        """The claim."""
        return self._job.lease

    @property
    def item_id(self) -> str:
        """The item's id."""
        return self._job.lease["id"]

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self._job.lease["task_id"]

    @property
    def attempt(self) -> int:
        """The number of this claim of the item, from 1."""
        return self._job.lease["attempt"]

    @property
    def rework(self) -> int:
        """How often the item was sent back for rework: a part of the names of steps that are to run again then."""
        return self._job.lease.get("rework") or 0

    @property
    def input(self) -> Any:
        """The item's input, as JSON."""
        return self._job.lease["input"]

    @property
    def cancelled(self) -> bool:
        """Whether the claim is over: the lease was lost, the item cancelled, or the worker stops."""
        return self._job.cause is not None

    @property
    def cause(self) -> Exception | None:
        """Why the claim is over; None = it is not."""
        return self._job.cause

    def raise_if_cancelled(self) -> None:
        """Raises why the claim is over, if it is. Call it in long loops of plain functions."""
        self._job.check()

    def now(self) -> datetime:
        """The database's clock: its last answer, plus the time since then."""
        return self._job.now()

    def resume(self) -> t.ResumeState:
        """What earlier attempts left. It is read once, and in a first attempt only if the task is a fork."""
        with self._reading:
            if self._state is not None:
                return self._state
            state = _nothing(self._job.lease)
            if self.attempt > 1 or self._job.lease.get("forked"):
                state = self._read_state()
            self._state = state
            for name, saved in state["steps"].items():
                self._saved.setdefault(name, saved)
            return state

    def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls `fn(*args, **kwargs)` once for the item, and returns its result.

        The result is saved as JSON under the name. A later attempt, or a later step of the name,
        gets it without calling `fn`. What `fn` raises is not saved. A result that was saved for other
        arguments is an InvalidError: a computation that changed needs another name. If the process
        dies between the work of `fn` and the save, the next attempt calls `fn` again. A result that cannot be
        saved, since it is not JSON or over 1 MiB, is Permanent: `fn` would run again.

        A result whose annotation is a dataclass or a pydantic model is one in every attempt. With
        `pawl.retried(fn)` in place of `fn`, it is called again when it fails, within the attempt:

            def report(ctx: pawl.Context, url: str) -> int:
                page = ctx.step("fetch", fetch, url)
                return ctx.step("count", pawl.retried(count, tries=5), page)
        """
        tries, fn = (fn, fn.fn) if isinstance(fn, Retried) else (None, fn)
        hashed = args_of(name, fn, list(args), kwargs)
        with self._entered(name) as token:
            try:
                saved = self._lookup(name)
                if saved is None:
                    with _trace.step(name, self.item_id):
                        began = time.monotonic()
                        result = self._tried(name, tries, fn, args, kwargs)
                        kept = hashed.kept(began)
                        with final(name):
                            snapshot = loads(dumps(result, f"the result of step {name!r}"))
                            _io.finish(self._save("tool_executed", name, snapshot, despite=True, **kept))
                else:
                    snapshot = replayed(name, saved, hashed)
                    _trace.replayed(name)
            finally:
                _inside.reset(token)
        out: T = _decoded(name, fn, snapshot)
        return out

    def _tried(self, name: str, tries: Retried | None, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Calls the function of a step, again as often as `tries` allows."""
        failed = 0
        while True:
            self._reserved.pop(name, None)  # what a failed try has not settled is gone on with
            try:
                return _io.resolve(fn(*args, **kwargs))
            except Exception as e:
                failed += 1
                wait = tries.after(failed, e) if tries is not None else None
                if wait is None or self.cancelled:
                    raise
            end = time.monotonic() + wait
            while (left := end - time.monotonic()) > 0:
                self._job.check()  # nothing else wakes a plain function
                _io.sleep(min(left, 0.1))

    def sleep(self, name: str, seconds: float | timedelta) -> None:
        """Suspends the item for a time, without a lease: it raises `Suspended`, which you let pass.

        The attempt after that time runs the handler from its beginning, and this call returns. A
        later call with the name and another time keeps the first end.
        """
        delay = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        _check_delay(delay)
        with self._entered(name) as token:
            _inside.reset(token)
            saved = self._lookup(name)
            if saved is None:
                if delay <= timedelta(0):
                    return
                wake = self.now() + delay
                self._save("state_transition", name, {"wake_at": format_time(wake)})
            else:
                wake = _wake_of(name, saved)
            if self.now() < wake:
                self._suspend(until=format_time(wake))

    def wait_for(self, name: str, signal: str, key: str = "", *, timeout: float | timedelta | None = None) -> Any:
        """Waits for a signal without a lease: it raises `Suspended`, which you let pass, until it was sent.

        It returns the signal's payload, also in later attempts. If `timeout` passes first, it raises
        SignalTimeout, also in later attempts. A signal that was sent before is not missed.
        """
        if not signal:
            raise InvalidError("the signal needs a name", op="wait_for")
        until: str | None = None
        if timeout is not None:
            delay = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
            _check_delay(delay)
            until = format_time(self.now() + delay)
        with self._entered(name) as token:
            _inside.reset(token)
            wait, payload = self._awaited(name, {"signal": signal, **_set(key=key or None, until=until)})
            if wait.get("timed_out"):
                raise SignalTimeout(f"signal {signal!r} was not sent in time")
            if not wait.get("sent_at"):
                self._suspend(signal=signal, key=key or None, until=wait.get("until"))
            return payload

    def _awaited(self, name: str, want: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """The wait of a name: the saved one, or the one that is wanted, which is saved."""
        saved = self._lookup(name)
        if saved is None:
            self._save("state_transition", name, None, metadata=want)
            return want, None
        wait = saved.get("metadata")
        if saved["type"] != "state_transition" or not isinstance(wait, dict) or not wait.get("signal"):
            raise step_changed(name, "its name is taken by a checkpoint that waits for no signal; give it another name")
        if (wait["signal"], wait.get("key") or "") != (want["signal"], want.get("key") or ""):
            raise step_changed(name, f"it waited for signal {wait['signal']!r} before; give the wait another name")
        if wait.get("sent_at") or wait.get("timed_out"):
            return wait, saved["snapshot"]
        state = self.resume()
        sent = state["signals"].get(name)
        if sent is not None:
            wait = {**wait, "sent_at": sent["sent_at"]}
            payload = sent.get("payload")
            self._save("state_transition", name, payload, metadata=wait)
            return wait, payload
        if wait.get("until") and self.now() >= parse_time(wait["until"]):
            wait = {**wait, "timed_out": True}
            self._save("state_transition", name, None, metadata=wait)
        return wait, None

    def progress(self, percent: int | None = None, stage: str | None = None) -> None:
        """Reports how far the item is, 0 to 100, and its stage in a few words. None keeps the value."""
        self._send("progress", self.item_id, {**self._fence(), **_set(progress=percent, stage=stage)})

    def checkpoint(
        self,
        name: str,
        snapshot: Any,
        *,
        type: t.CheckpointType = "custom",
        metadata: Any = None,
    ) -> t.CheckpointRef:
        """Saves a checkpoint. The next attempt reads the newest of each name with `resume`."""
        return self._save(type, name, snapshot, **_set(metadata=metadata))

    def part(self, key: str, payload: Any, **options: Unpack[t.PartOptions]) -> t.ItemPart:
        """Hands in a piece of the item's result. A later part of the same key and seq takes its place."""
        body = {**self._fence(), **rules.body_of(options, key=key), "payload": payload}
        return self._send("submit_part", self.item_id, body)

    def spawn(self, key: str, type: str, payload: Any = None, **options: Unpack[t.NewTaskOptions]) -> t.Task:
        """Creates a child of the item's task. A later call with the key, in any attempt, is the same child."""
        task = {**rules.body_of(options, type=type), "payload": payload}
        body = {**self._fence(), "key": key, "task": task}
        with _trace.create(type, key, self.item_id) as span:
            child: t.Task = self._send("spawn_child", self.item_id, body, others=True)
            span.set({"pawl.child.id": child["id"]})
        return child

    def await_children(
        self,
        name: str,
        ids: Sequence[str | Mapping[str, Any]],
        *,
        need: int | str = "all",
        on_failure: str | None = None,
    ) -> list[t.ChildResult]:
        """Waits without a lease until enough children have ended: it raises `Suspended`, which you let pass.

        `ids` are ids, or the tasks that `spawn` returned. It returns the results in their order, also in
        later attempts. A child that had not ended has no `state`. `need` is all, any or a number;
        `on_failure` is fail, continue or cancel.
        """
        if isinstance(ids, (str, Mapping)):
            raise TypeError("await_children takes a list of tasks or ids")
        wait: dict[str, Any] = {"ids": [rules.id_of("await_children", c) for c in ids], **_set(on_failure=on_failure)}
        if need != "all":
            wait["need"] = need
        return self._children(name, wait, args_of(name, None, [wait], {}))

    def _children(self, name: str, wait: dict[str, Any], hashed: StepArgs) -> list[t.ChildResult]:
        with self._entered(name) as token:
            _inside.reset(token)
            saved = self._saved_results(name, hashed)
            if saved is not None:
                return saved
            state = self.resume()
            results = children_of(name, wait, state.get("children"))
            if results is None:
                self._suspend(children={**wait, "name": name}, others=True)
            else:
                self._save_results(name, hashed, results)
            return results or []

    def _saved_results(self, name: str, hashed: StepArgs) -> list[t.ChildResult] | None:
        out: list[t.ChildResult] = []
        n, parts = 0, 1
        while n < parts:
            saved = self._lookup(_part_name(name, n))
            if saved is None:
                if n == 0:
                    return None
                raise step_changed(name, "a checkpoint with a part of its results is gone")
            snapshot = replayed(name, saved, hashed)
            out += snapshot["results"]
            parts = max(parts, snapshot.get("parts") or 0)
            n += 1
        return out

    def _save_results(self, name: str, hashed: StepArgs, results: list[t.ChildResult]) -> None:
        parts: list[dict[str, Any]] = [{"results": []}]
        size = 0
        for child in results:
            length = len(dumps(child)) + 1
            size += length
            if size > MAX_RESULTS and length < size:
                parts.append({"results": []})
                size = length
            parts[-1]["results"].append(child)
        parts[0]["parts"] = len(parts)
        for n in reversed(range(len(parts))):  # the first is saved last: with it, all are there
            self._save("tool_executed", _part_name(name, n), parts[n], **hashed.kept())

    def reserve(
        self, budget: str, amount: int, key: str | None = None, **options: Unpack[t.ReserveOptions]
    ) -> Reservation:
        """Reserves an amount of a budget before it is spent.

        Without `key` it is named after the step that the call is in and the number of earlier calls
        there; concurrent calls need keys. A later attempt goes on with an unsettled reservation of its
        name, and so does the step's function when it runs again in this attempt. If the budget is exhausted,
        it raises `Permanent`, or `Suspended` where the budget suspends or asks.
        """
        named = None
        if key is None:
            named = self._next_reservation(budget)
            key = named[1]
        if len(key) > MAX_KEY:
            key = hash_of(key)
        body = {"item_id": self.item_id, **self._fence(), "amount": amount, "key": key, **rules.body_of(options)}
        try:
            with _trace.budget("reserve", budget, amount, self.item_id):
                got: t.Reserved = self._send("reserve_budget", budget, body, others=True)
                if "settled" in got:  # by an earlier attempt, which lost what it paid for: the money is spent again
                    body["key"] = f"{key}@{self.attempt}"
                    got = self._send("reserve_budget", budget, body, others=True)
        except BudgetExhaustedError as e:
            self._exhausted(amount, e)
            raise
        return Reservation(self, got["reservation"], budget, got["amount"], named)

    def _next_reservation(self, budget: str) -> tuple[str, str]:
        """The budget and the key of a reservation that has no key of the caller's."""
        step = (_inside.get() or ("",))[-1]
        counts = self._reserved.setdefault(step, {})
        while True:
            n = counts.get(budget, 0)
            counts[budget] = n + 1
            if (named := (budget, f"{step}#{n}")) not in self._settled:
                return named

    def _exhausted(self, amount: int, e: BudgetExhaustedError) -> None:
        """Does what an exhausted budget asks."""
        p = e.problem
        if "limit" not in p or "remaining" not in p:
            return
        if p.get("on_exhausted") == "fail":
            raise Permanent(e.message, code=e.code) from e
        until = None
        if p.get("on_exhausted") == "suspend" and amount <= p["limit"] and p.get("period_end"):
            until = parse_time(p["period_end"])
        soon = self.now() + BUDGET_RETRY
        asks = p.get("on_exhausted") == "ask" and not p.get("task_id")
        if (p["remaining"] + p.get("reserved", 0) >= amount or asks) and (until is None or soon < until):
            until = soon
        self._suspend(
            signal="pawl.budget", key=p.get("signal_key") or None, until=format_time(until) if until else None
        )

    def effect(
        self,
        name: str,
        fn: Callable[[str], T],
        *,
        key: str | None = None,
        request: Any = None,
        budget: str | None = None,
        amount: int | None = None,
        approve: bool = False,
        probe: Callable[[str], Probed] | None = None,
        repeatable: bool = False,
        on_unknown: str | None = None,
    ) -> T:
        """Calls `fn(key)`, which changes something outside of Pawl, once, and returns its recorded answer.

        The effect is recorded before `fn` is called, and what came of it after it. A later attempt, and any other
        task with the key, gets the answer as JSON. If `fn` raises `NotDone`, the effect is known not to have
        happened, and the next attempt sends it; after another error, or a crash, it is unknown.

        Without `key` it is the effect of this item and `name`. Another `request` under the key is a KeyReusedError;
        only its digest is stored. `amount` of `budget` is reserved before it is sent. With `approve` a person
        approves it first. With `repeatable` the outside recognises the key. `probe(key)` asks the outside, and
        returns a `Probed`.

        `on_unknown` says what an unknown effect does: `probe` (the default with a probe) asks the outside, `repeat`
        (the default if it is repeatable) sends it again, `ask` (the default else) waits for a person, and `fail`
        fails the item. Where a person must decide, it raises `Suspended`, which you let pass.
        """
        options = options_of(
            probe,
            on_unknown,
            key=key,
            request=request,
            budget=budget,
            amount=amount,
            approve=approve,
            repeatable=repeatable,
        )
        return Effect(self, name, options, probe).run(fn)

    def settle(self, reservation: Reservation, amount: int) -> None:
        """Records what was really spent of a reservation, also more than was reserved."""
        reservation.settle(amount)

    def message(self, **options: Unpack[t.ReplyOptions]) -> MessageWriter:
        """Goes on with the open message of the item, or starts one with role assistant in the task's thread.

        The n-th message of an attempt is the n-th of its item: start them in the same order in every
        attempt. Write it in steps with `named_step`, which a later attempt does not write again; or begin
        in a message that goes on with the step after `step_number`. If it was stopped, it raises
        MessageStopped, which you let pass.
        """
        from .message import start_message

        with self._starting:
            return start_message(self, options)

    # What the above is made of

    def _fence(self) -> dict[str, Any]:
        return fence(self._job.lease)

    def _read_state(self) -> t.ResumeState:
        out = self._send("resume_item", self.item_id, None)
        while out.get("next"):
            page = self._send("resume_item", self.item_id, None, query={"cursor": out["next"]})
            if page["attempt"] == out["attempt"]:
                rules.add_page(out, page)
            else:
                out = self._send("resume_item", self.item_id, None)
        return out

    def _lookup(self, name: str) -> t.Checkpoint | None:
        if name not in self._saved:
            self.resume()
        return self._saved.get(name)

    def _save(
        self, type: t.CheckpointType, name: str, snapshot: Any, *, despite: bool = False, **more: Any
    ) -> t.CheckpointRef:
        body = {**self._fence(), "type": type, "name": name, "snapshot": snapshot, **more}
        ref: t.CheckpointRef = self._send("checkpoint", self.item_id, body, despite=despite)
        self._remember(ref, type, name, snapshot, **more)
        return ref

    def _remember(self, ref: t.CheckpointRef, type: t.CheckpointType, name: str, snapshot: Any, **more: Any) -> None:
        """Keeps a saved checkpoint for later calls of its name."""
        older = self._saved.get(name)
        if name and (older is None or older["sequence"] < ref["sequence"]):
            self._saved[name] = {
                "id": ref["id"],
                "task_id": self.task_id,
                "item_id": self.item_id,
                "attempt": self.attempt,
                "sequence": ref["sequence"],
                "type": type,
                "name": name,
                "snapshot": snapshot,
                "created_at": format_time(self.now()),
                **more,  # type: ignore[typeddict-item]
            }

    def _entered(self, name: str) -> _Turn:
        if not name:
            raise InvalidError("a step needs a name", op="step")
        if "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
            raise InvalidError("the name of a step holds NUL or is not UTF-8", op="step")
        if len(name) > MAX_STEP_NAME:
            raise InvalidError(f"the name of a step is longer than {MAX_STEP_NAME} characters", op="step")
        if name in _inside.get():
            raise _step_error(name, "it is started inside itself; give the inner step another name")
        return _Turn(self._locks.setdefault(name, _io.Lock()), name)

    def _suspend(self, *, others: bool = False, **call: Any) -> None:
        """Gives the lease up and raises Suspended. Heartbeats stop first."""
        for flush in self._job.closing:
            flush()
        if not self._job.move(State.RUNNING, State.SUSPENDED):
            self._job.check()
        body = {**self._fence(), **_set(**call)}
        try:
            self._send("suspend", self.item_id, body, others=others, despite=True, released=True)
        except BaseException as e:
            self._job.move(State.SUSPENDED, State.RUNNING)
            if isinstance(e, PawlError) and not (others and isinstance(e, NotFoundError)):
                self._note(e)
            raise
        raise Suspended(f"the item is suspended: {', '.join(_set(**call))}")

    def _note(self, e: PawlError) -> None:
        """Ends the claim if a refusal means that it is over."""
        gone = claim_loss(e)
        if gone is not None:
            self._job.end(State.LOST if isinstance(gone, LeaseLostError) else State.CANCELLED, gone)

    def _send(
        self,
        name: str,
        id: str,
        body: Any,
        *,
        query: Mapping[str, Any] | None = None,
        others: bool = False,
        despite: bool = False,
        released: bool = False,
        wait: float = 0.0,
    ) -> Any:
        """Makes a call, and makes it again until it is answered or the claim is over.

        All tries carry one idempotency key, so nothing is done twice. With `others` the call names
        other things than the item: that one of them is missing does not end the claim. With `despite`
        it is made also if the claim seems to be over: the server decides. With `released` a lease that
        was released means that an earlier try was carried out.
        """
        call = self.client.with_options(timeout=CALL_TIMEOUT, tries=1)._call
        r = rules.request_of(call.config, name, id=id, query=query, body=body, has_body=body is not None, wait=wait)
        unsure = False
        n = 0
        while True:
            if not despite:
                self._job.check()
            try:
                return call.send(r)
            except PawlError as e:
                if released and unsure and isinstance(e, LeaseLostError) and e.reason == "released":
                    return None
                about_others = others and (
                    isinstance(e, NotFoundError) or (isinstance(e, ConflictError) and e.state != "cancelled")
                )
                if not about_others:
                    self._note(e)
                if not transient(e) or not self._job.may_hold():
                    raise
                wait = max(min(0.05 * math.pow(2, min(n, 12)), 5.0) * (0.75 + random.random() / 2), e.retry_after)
            unsure = True
            n += 1
            _io.sleep(wait)


class _Turn:
    """Lets one step of a name run at a time, and knows which steps are around the caller."""

    def __init__(self, lock: Any, name: str) -> None:
        self._lock = lock
        self._name = name

    def __enter__(self) -> contextvars.Token[tuple[str, ...]]:
        self._lock.__enter__()
        return _inside.set((*_inside.get(), self._name))

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(None, None, None)


class Reservation:
    """An amount of a budget that is reserved."""

    def __init__(
        self, context: Context, id: str, budget: str, amount: int, named: tuple[str, str] | None = None
    ) -> None:
        self._context = context
        self._named = named
        self.id = id
        self.budget = budget
        self.amount = amount

    def settle(self, amount: int) -> None:
        """Records what was really spent, also more than was reserved. Twice with one amount is fine."""
        c = self._context
        body = {"item_id": c.item_id, **c._fence(), "reservation": self.id, "amount": amount}
        with _trace.budget("settle", self.budget, amount, c.item_id):
            c._send("settle_budget", self.budget, body, others=True, despite=True)
        if self._named is not None:
            c._settled.add(self._named)
        c._costs.add(self.budget, amount)


def children_of(name: str, wait: Mapping[str, Any], last: Any) -> list[t.ChildResult] | None:
    """What became of the children of a wait; None while it is not over.

    The item's last wait may have been another one: its children count if they are of this one too.
    """
    if not last:
        return None
    ended = {c["id"]: c for c in last.get("items") or []}
    distinct = list(dict.fromkeys(wait["ids"]))
    there = [ended[i] for i in distinct if i in ended]
    failed = sum(1 for c in there if c.get("state") != "completed")
    need = {"all": len(distinct), "any": 1}.get(wait.get("need", "all"), wait.get("need", 0))
    on_failure = wait.get("on_failure")
    good = len(there) if on_failure == "continue" else len(there) - failed
    # The other children are cancelled only if that wait was this one.
    mine = last.get("name") == name and last.get("over") and last.get("total") == len(distinct)
    if good < need and not (on_failure == "cancel" and mine and len(distinct) - failed < need):
        return None
    return [ended.get(i, {"id": i}) for i in wait["ids"]]


def _nothing(lease: t.Lease) -> t.ResumeState:
    return {
        "item_id": lease["id"],
        "task_id": lease["task_id"],
        "attempt": lease["attempt"],
        "newest": None,
        "iteration_start": None,
        "iteration_end": None,
        "error_boundary": None,
        "steps": {},
        "signals": {},
        "parts": [],
        "open_message": None,
        "messages": [],
    }


def _decoded(name: str, fn: Callable[..., Any], snapshot: Any) -> Any:
    """The result of a step, as the annotation of its function says."""
    try:
        return decode(hints_of(fn).get("return", Any), snapshot)
    except ValueError as e:
        raise step_changed(name, f"the saved result is not what it was ({e}); give it another name") from e


def _wake_of(name: str, saved: t.Checkpoint) -> datetime:
    snapshot = saved["snapshot"]
    if saved["type"] != "state_transition" or not isinstance(snapshot, dict) or not snapshot.get("wake_at"):
        raise step_changed(name, "its name is taken by a checkpoint that is no sleep; give the sleep another name")
    return parse_time(snapshot["wake_at"])


def _check_delay(delay: timedelta) -> None:
    if delay > MAX_DELAY:
        raise InvalidError("the time is more than 10 years", op="sleep")


def _step_error(name: str, what: str) -> InvalidError:
    return InvalidError(f"step {name!r}: {what}", op="step")


def _part_name(name: str, n: int) -> str:
    return name if n == 0 else f"{name}#{n + 1}"
