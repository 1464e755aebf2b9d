"""One run of a worker: claims, handlers, results, and the stop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from . import _rules as rules
from . import types as t
from ._async.client import AsyncClient
from ._async.context import AsyncContext
from ._errors import (
    ConflictError,
    ItemCancelled,
    LeaseLostError,
    MessageStopped,
    NotFoundError,
    PawlError,
    Permanent,
    QuarantinedError,
    Snooze,
    StepChangedError,
    Suspended,
)
from ._handlers import Handler, Threads
from ._heartbeats import Heartbeats
from ._job import Job, State
from ._lease import backoff, transient
from ._log import about, named
from ._outcome import Outcome, completed, failed
from ._reports import Reports
from ._sync.client import Client
from ._sync.context import Context
from ._trace import Attempt

if TYPE_CHECKING:
    from .worker import Options

MAX_CLAIM = 1000
PREFETCH_WINDOW = 0.05  # seconds: what is done in it is claimed ahead
CLAIM_MARGIN = 15.0  # how much longer than it waits a claim may take
MIN_EMPTY_WAIT = 1.0  # a claim that finds nothing sooner is not repeated at once
QUARANTINE_WAIT = 2.0  # between two claims of a quarantined database
QUARANTINE_LOG = 60.0  # between two lines about it
CANCEL_GRACE = 1.0  # for handlers to return after they are cancelled
FINAL_CALLS = 5.0  # for the last results and releases
REGISTER_EVERY = 30.0
STUBBORN_AFTER = 10.0  # a handler that runs on so long after its cancellation is reported


class WorkerStopped(Exception):
    """Why a handler is cancelled: the worker stops, and its grace is over."""


@dataclasses.dataclass
class Summary:
    """What a run of a worker did."""

    completed: int = 0  # results that were accepted, submitted ones too
    failed: int = 0
    suspended: int = 0
    released: int = 0  # given back: snoozed, or not finished when the worker stopped
    lost: int = 0  # leases that were lost, items that were cancelled, results that were not accepted


class Runner:
    """One run of a worker."""

    def __init__(self, source: Client | AsyncClient, options: Options, handlers: dict[str, Handler]) -> None:
        self.options = options
        self.handlers = handlers
        self.types = None if "" in handlers else sorted(handlers)
        self.log = options.logger
        self.summary = Summary()
        self._source = source
        self._jobs: dict[Job, asyncio.Task[None] | None] = {}
        self._ahead: deque[Job] = deque()
        self._mean = 0.0  # seconds that an item occupies a slot
        self._stopping = False
        self._stops = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()  # a slot is free, a job has ended, or the worker is to stop
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()  # the grace is over

    def stop_soon(self) -> None:
        """Asks for the stop, from any thread; a second time ends the grace."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._stop_once)

    def _stop_once(self) -> None:
        self._stops += 1
        self._stop.set()
        self._wake.set()
        if self._stops > 1:
            self._hurry.set()

    async def run(self) -> Summary:
        """Works until the stop."""
        self._loop = asyncio.get_running_loop()
        connection, config = self._source._call.connection, self._source._call.config
        self._client = AsyncClient(connection.url, verify=connection.verify)._with_config(config)
        self._plain = Client(connection.url, verify=connection.verify)._with_config(config)
        self._beats = Heartbeats(self._plain, self.log)
        self._reports = Reports(self)
        self._threads = Threads(self.options.concurrency)
        self._beats.start()
        types = ", ".join(self.types) if self.types else "all types"
        where = f"{rules.shown(connection.url)}, namespace {config.namespace or 'default'}"
        self.log.info("worker %s takes items of %s from %s", self.options.worker_id, types, where)
        reporting = asyncio.create_task(self._reports.run())
        registering = asyncio.create_task(self._register())
        try:
            try:
                await self._claims()
            except asyncio.CancelledError:
                self._hurry.set()
                await asyncio.shield(self._finish())
                raise
            except PawlError:
                await self._finish()
                raise
            await self._finish()
        finally:
            registering.cancel()
            reporting.cancel()
            await asyncio.gather(registering, reporting, return_exceptions=True)
            await asyncio.to_thread(self._beats.close)
            self._threads.close()
            await self._client.aclose()
            self._plain.close()
        return self.summary

    # Claims

    async def _claims(self) -> None:
        """Claims items until the stop, or until the server refuses the claims."""
        failing = empty = 0
        silent_until = 0.0  # of a quarantine
        last: dict[str, Any] = {}
        more = False  # the last claim was full
        while not self._stop.is_set():
            await self._release_stale()
            request = self._next_claim(last, more)
            if request is None:
                await self._slot()
                continue
            began, idle = time.monotonic(), self.options.drain and self._idle()
            try:
                leases = await self._claim(request)
            except QuarantinedError as e:
                if time.monotonic() >= silent_until:
                    silent_until = time.monotonic() + QUARANTINE_LOG
                    self.log.warning("the database is quarantined, waiting until it is adopted: %s", e)
                await self._pause(QUARANTINE_WAIT)
                continue
            except PawlError as e:
                if not transient(e):
                    self.log.error("claim refused; the worker stops: %s", e)
                    raise
                failing += 1
                if failing == 1:
                    self.log.warning("claim failed, it is tried again: %s", e)
                await self._pause(max(backoff(failing, 0.1, 5.0), e.retry_after))
                continue
            if leases is None:
                return
            failing, last, more = 0, request, len(leases) >= request["limit"]
            self._take(leases)
            if leases or request.get("prefetch"):
                empty = 0
                continue
            if idle:
                return
            if time.monotonic() - began < MIN_EMPTY_WAIT:
                empty += 1
                await self._pause(backoff(empty, 0.1, 1.0))
            else:
                empty = 0

    def _idle(self) -> bool:
        return not self._jobs and not self._ahead and self._reports.pending == 0

    async def _claim(self, request: dict[str, Any]) -> list[t.Lease] | None:
        """Makes one claim; None if the stop came first. One that waits ends with the stop."""
        wait = request.get("wait_seconds", 0)
        client = self._client.with_options(timeout=CLAIM_MARGIN, tries=1)
        claiming = asyncio.ensure_future(client.claim(**request))
        if wait == 0:
            return await asyncio.shield(claiming)
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({claiming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if claiming.done():
                return claiming.result()
            return None
        finally:
            stopping.cancel()
            if not claiming.done():
                claiming.cancel()

    def _next_claim(self, last: dict[str, Any], more: bool) -> dict[str, Any] | None:
        """Items for the free slots or, after a full claim, those that will be started within 50 ms."""
        o = self.options
        request: dict[str, Any] = {"worker_id": o.worker_id}
        if o.lease_seconds is not None:
            request["lease_seconds"] = o.lease_seconds
        if self.types is not None:
            request["types"] = self.types
        if o.task_id:
            request["task_id"] = o.task_id
        free, places = o.concurrency - len(self._jobs), self._prefetch_limit()
        ahead = places - len(self._ahead) if more and len(self._ahead) <= places // 2 else 0
        if ahead > 0 and (free == 0 or not last.get("prefetch")):
            return {**request, "limit": ahead, "prefetch": True}
        if free <= 0:
            return None
        request["limit"] = min(free, MAX_CLAIM)
        if not o.drain:
            request["wait_seconds"] = o.wait_seconds
        return request

    def _prefetch_limit(self) -> int:
        if not self.options.prefetch or self._mean == 0:
            return 0
        return min(int(self.options.concurrency * PREFETCH_WINDOW / self._mean), MAX_CLAIM)

    def _take(self, leases: list[t.Lease]) -> None:
        now = time.monotonic()
        self._ahead.extend(Job(lease, now) for lease in leases)
        self._start_ahead()

    def _start_ahead(self) -> None:
        while self._ahead and len(self._jobs) < self.options.concurrency and not self._stopping:
            self._start(self._ahead.popleft())

    async def _slot(self) -> None:
        """Waits until a slot comes free, or the oldest item that waits has waited too long."""
        limit = None
        if self._ahead:
            job = self._ahead[0]
            limit = max(job.claimed_at + job.keeper.first_after - time.monotonic(), 0.0)
        self._wake.clear()
        try:
            await asyncio.wait_for(self._wake.wait(), limit)
        except asyncio.TimeoutError:
            pass

    async def _release_stale(self) -> None:
        """Gives back items that wait for a slot and would need a heartbeat by now: others may be free."""
        now, stale = time.monotonic(), []
        while self._ahead and now >= self._ahead[0].claimed_at + self._ahead[0].keeper.first_after:
            stale.append(self._ahead.popleft())
        if stale:
            self._mean = max(self._mean, now - stale[0].claimed_at)
            await self._reports.release(stale)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    # Handlers

    def _start(self, job: Job) -> None:
        job.on_lost = self._on_lost
        job.keeper.next_due = time.monotonic() + job.keeper.first_after
        self._beats.add(job)
        handler = self.handlers.get(job.lease["type"]) or self.handlers.get("")
        self.log.info("item started: %s", named(job), extra=about(job))
        if handler is not None and not handler.is_async:
            self._jobs[job] = None
            context = contextvars.copy_context()
            self._threads.run(lambda: context.run(self._run_plain, job, handler, time.monotonic()))
        else:
            self._jobs[job] = asyncio.get_running_loop().create_task(self._run_async(job, handler, time.monotonic()))

    async def _run_async(self, job: Job, handler: Handler | None, began: float) -> None:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        if task is not None:
            job.on_end = lambda: loop.call_soon_threadsafe(task.cancel)
        outcome: Outcome | None = None
        result: Any = None
        error: BaseException | None = None
        span = job.span = Attempt(job.lease)
        try:
            with span.within():
                if handler is None:
                    raise Permanent(f"no handler for type {job.lease['type']!r}")
                context = AsyncContext(job, self._client, self.options.flush_seconds)
                result = await handler.fn(**handler.arguments(context, job.lease["input"]))
                for flush in job.closing:
                    await flush()
        except BaseException as e:
            error = e
            for flush in job.closing:  # the last words may say why
                with contextlib.suppress(BaseException):
                    await flush()
        job.on_end = None
        outcome = self._outcome(job, result, error)
        try:
            span.end(job, outcome)
        finally:
            self._ended(job, outcome, began)

    def _run_plain(self, job: Job, handler: Handler, began: float) -> None:
        """Runs a plain function, in a thread."""
        result: Any = None
        error: BaseException | None = None
        span = job.span = Attempt(job.lease)
        try:
            with span.within():
                context = Context(job, self._plain, self.options.flush_seconds)
                result = handler.fn(**handler.arguments(context, job.lease["input"]))
                for flush in job.closing:
                    flush()
        except BaseException as e:
            error = e
            for flush in job.closing:
                with contextlib.suppress(BaseException):
                    flush()
        outcome = self._outcome(job, result, error)
        try:
            span.end(job, outcome)
        finally:
            loop = self._loop
            if loop is not None and not loop.is_closed():
                try:
                    loop.call_soon_threadsafe(self._ended, job, outcome, began)
                except RuntimeError:
                    pass  # the loop was closed meanwhile: the item was given back

    def _outcome(self, job: Job, result: Any, error: BaseException | None) -> Outcome | None:
        """What is to be reported; None if the claim is over."""
        if job.move(State.RUNNING, State.RETURNED):
            return self._outcome_of(job, result, error)
        state = job.state
        if state is State.STOPPING:
            if error is None:
                return completed(job, result)  # it was done in time after all
            if isinstance(error, (Permanent, StepChangedError, Snooze, MessageStopped)):
                return failed(job, error)  # the stop is not why it failed
            return Outcome(job, "release", {})
        if state is State.SUSPENDED:
            if not isinstance(error, Suspended):
                self._swallowed(job, "the handler stopped Suspended; what it returned is dropped")
        elif state in (State.LOST, State.CANCELLED) and not _gave_way(error):
            self._swallowed(job, f"the handler went on after its cancellation ({job.cause}); its outcome is dropped")
        return None

    def _outcome_of(self, job: Job, result: Any, error: BaseException | None) -> Outcome:
        if error is None:
            return completed(job, result)
        if isinstance(error, asyncio.CancelledError):
            error = RuntimeError("the handler was cancelled, but not by the worker")
        elif isinstance(error, Suspended):
            error = RuntimeError("the handler raised Suspended, but did not suspend the item")
        return failed(job, error)

    def _swallowed(self, job: Job, what: str) -> None:
        self.log.warning("%s: %s", named(job), what, extra=about(job))
        if job.state is State.LOST or job.state is State.CANCELLED:
            self._tell_lost(job, LeaseLostError(what, op="handler"))

    def _ended(self, job: Job, outcome: Outcome | None, began: float) -> None:
        """A handler has returned: its slot is free."""
        took = time.monotonic() - began
        self._mean = max(self._mean + (took - self._mean) / 8 if self._mean else took, 1e-6)
        self._beats.remove(job)
        if self._jobs.pop(job, False) is False:
            return  # it was given up
        if outcome is not None:
            self._reports.add(outcome)
        elif job.state is State.SUSPENDED:
            self.summary.suspended += 1
            self.log.info("item suspended: %s", named(job), extra=about(job))
        else:
            self.summary.lost += 1
        self._start_ahead()
        self._wake.set()

    # The end of a claim

    def _on_lost(self, job: Job, why: Exception) -> None:
        """A claim has ended under its handler. It may be called in any thread."""
        if isinstance(why, ItemCancelled):
            self.log.info("item cancelled: %s", named(job), extra=about(job))
        else:
            self.log.warning("lease lost: %s: %s", named(job), why, extra=about(job))
            self._tell_lost(job, why)
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(loop.call_later, STUBBORN_AFTER, self._stubborn, job)

    def _stubborn(self, job: Job) -> None:
        if job in self._jobs:
            what = f"the handler runs on {STUBBORN_AFTER:g} s after its cancellation ({job.cause})"
            self._swallowed(job, what)

    def _tell_lost(self, job: Job, why: Exception) -> None:
        fn = self.options.on_lease_lost
        if fn is None:
            return

        def tell() -> None:
            try:
                fn(job.lease, why)
            except Exception:
                self.log.exception("on_lease_lost raised", extra=about(job))

        threading.Thread(target=tell, name="pawl-lease-lost", daemon=True).start()

    # The stop

    async def _finish(self) -> None:
        """Lets the handlers run for the grace, cancels the rest, and waits until results are reported."""
        self._stopping = True
        ahead, self._ahead = list(self._ahead), deque()
        await self._reports.release(ahead)
        if self._jobs and not self._hurry.is_set():
            what = "worker stops: handlers that run have %g s; a second signal gives their items back at once: %d"
            self.log.info(what, self.options.stop_grace, len(self._jobs))
        deadline = time.monotonic() + self.options.stop_grace
        await self._until(lambda: not self._jobs, self.options.stop_grace, hurry=True)
        if self._jobs:
            for job in list(self._jobs):
                job.end(State.STOPPING, WorkerStopped("the worker stops"))
            await self._until(lambda: not self._jobs, CANCEL_GRACE)
            await self._abandon()
        left = 0.0 if self._hurry.is_set() else deadline - time.monotonic()
        await self._until(lambda: self._reports.pending == 0, max(FINAL_CALLS, left))
        self.summary.lost += self._reports.pending

    async def _until(self, holds: Any, limit: float, hurry: bool = False) -> None:
        end = time.monotonic() + limit
        while not holds() and time.monotonic() < end and not (hurry and self._hurry.is_set()):
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), max(min(end - time.monotonic(), 0.5), 0.001))
            except asyncio.TimeoutError:
                continue

    async def _abandon(self) -> None:
        """Gives back the items of handlers that do not end."""
        left = []
        for job in list(self._jobs):
            if job.move(State.STOPPING, State.ABANDONED):
                what = "the handler ignores its cancellation; its item is given back"
                self.log.warning("%s: %s", named(job), what, extra=about(job))
                left.append(job)
            self._beats.remove(job)
            del self._jobs[job]
        self.summary.released += len(left)
        await self._reports.release(left)

    async def _register(self) -> None:
        """Keeps the worker in the list of workers."""
        o = self.options
        while True:
            try:
                client = self._client.with_options(timeout=10.0, tries=1)
                await client.register_worker(o.worker_id, types=self.types, name=o.name, version=o.version)
            except PawlError as e:
                self.log.warning("the worker could not be registered: %s", e)
            await asyncio.sleep(REGISTER_EVERY)


def _gave_way(error: BaseException | None) -> bool:
    """Whether a handler ended because its claim is over."""
    while error is not None:
        if isinstance(error, (asyncio.CancelledError, LeaseLostError, ItemCancelled, ConflictError, NotFoundError)):
            return True
        error = error.__cause__ or error.__context__
    return False
