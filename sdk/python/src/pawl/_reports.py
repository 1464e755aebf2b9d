"""Reports what handlers came to, all that is there in one call."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from ._errors import ConflictError, ItemCancelled, LeaseLostError, PawlError, Permanent
from ._job import Job, State
from ._lease import backoff, claim_loss, lost, transient
from ._log import about, named
from ._outcome import Outcome, Verb, failed

if TYPE_CHECKING:
    from ._runner import Runner

MAX_BATCH = 1000
MAX_BATCH_BYTES = 4 << 20
CALL_TIMEOUT = 10.0
BATCHES = {"complete": "complete_items", "submit": "submit_items", "fail": "fail_items", "release": "release_items"}


class Reports:
    """The outcomes that are to be reported. A call that fails is made again until the lease has expired."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._new: list[Outcome] = []
        self._later: list[Outcome] = []
        self._wake = asyncio.Event()
        self.pending = 0  # outcomes without an answer

    def add(self, outcome: Outcome) -> None:
        """Takes an outcome, in the event loop."""
        self.pending += 1
        self._new.append(outcome)
        self._wake.set()

    async def run(self) -> None:
        """Reports until it is cancelled."""
        while True:
            batch = self._batch()
            if not batch:
                self._wake.clear()
                limit = min((o.retry_at for o in self._later), default=None)
                try:
                    left = None if limit is None else max(limit - time.monotonic(), 0.001)
                    await asyncio.wait_for(self._wake.wait(), left)
                except asyncio.TimeoutError:
                    pass
                continue
            groups = [(verb, [o for o in batch if o.verb == verb]) for verb in BATCHES]  # an answer may change the verb
            for verb, outcomes in groups:
                if outcomes:
                    await self._send(verb, outcomes)
            self._runner._wake.set()

    def _batch(self) -> list[Outcome]:
        now, size = time.monotonic(), 0
        out: list[Outcome] = []
        rest: list[Outcome] = []
        for o in [*self._later, *self._new]:
            if o.retry_at > now or len(out) >= MAX_BATCH or size >= MAX_BATCH_BYTES:
                rest.append(o)
            else:
                out.append(o)
                size += o.size
        self._later, self._new = rest, []
        return out

    async def _send(self, verb: str, outcomes: list[Outcome]) -> None:
        try:
            errors = await self._call(verb, outcomes)
        except Exception:  # a bug must not end the reports of all: the leases of these expire
            self._runner.log.exception("%d outcomes could not be reported", len(outcomes))
            self._runner.summary.lost += len(outcomes)
            self.pending -= len(outcomes)
            return
        for o, error in zip(outcomes, errors, strict=True):
            if self._answered(o, error):
                self._later.append(o)
            else:
                self.pending -= 1

    async def _call(self, verb: str, outcomes: list[Outcome]) -> list[PawlError | None]:
        calls: list[Any] = [o.call() for o in outcomes]
        client = self._runner._client.with_options(timeout=CALL_TIMEOUT, tries=1)
        try:
            # A call about one item belongs to the trace of that item.
            one = outcomes[0].job.span if len(outcomes) == 1 else None
            with one.within() if one else contextlib.nullcontext():
                answers = await client._call.batch(BATCHES[verb], calls)
        except PawlError as e:
            if len(outcomes) > 1 and not transient(e):
                return [(await self._call(verb, [o]))[0] for o in outcomes]
            return [e] * len(outcomes)
        return [a.error for a in answers]

    def _answered(self, o: Outcome, e: PawlError | None) -> bool:
        """Applies the answer to an outcome; True means that it is to be sent again."""
        log, summary, job = self._runner.log, self._runner.summary, o.job
        if e is None:
            self._accepted(o)
            return False
        if transient(e):
            o.maybe_done = True
            o.tries += 1
            o.retry_at = time.monotonic() + max(backoff(o.tries, 0.05, 5.0), e.retry_after)
            if job.may_hold():
                return True
            self._lost(job, lost("the lease expired before the result was reported", e, reason="expired"))
            return False
        if o.verb in ("complete", "submit") and e.code in ("invalid", "too_large"):
            # The fields quote the result, and all who read the item see the message: the detail has them.
            places = dict.fromkeys("/".join(f.get("pointer", "").split("/")[:2]) for f in e.fields)
            said = "; ".join(f"{place}: does not fit" for place in places) or e.message
            log.warning("the result was refused, and its item fails: %s", said, extra=about(job))
            detail = {"errors": e.fields} if e.fields else None
            fail = failed(job, Permanent(f"the result was refused: {said}", code="invalid_result", detail=detail))
            return self._instead(o, "fail", fail.body)
        if o.verb in ("complete", "submit") and isinstance(e, ConflictError) and e.reason == "effect_open":
            log.warning("the result was refused, and its attempt fails: %s", e, extra=about(job))
            return self._instead(o, "fail", {"error": {"code": e.code, "message": e.message}})
        if o.verb == "complete" and isinstance(e, ConflictError) and e.state in ("leased", "in_progress"):
            return self._instead(o, "submit", o.body)  # the type's results need acceptance
        if isinstance(e, ConflictError):
            log.debug("the item had already ended: %s", e, extra=about(job))
            if not o.maybe_done:
                summary.lost += 1
        elif o.maybe_done and o.verb in ("fail", "release") and isinstance(e, LeaseLostError):
            log.debug("the lease is gone; an earlier try was probably carried out", extra=about(job))
        elif (gone := claim_loss(e)) is not None:
            self._lost(job, gone)
        else:
            log.error("the server refused the outcome of the handler: %s", e, extra=about(job))
            summary.lost += 1
        return False

    def _instead(self, o: Outcome, verb: Verb, body: dict[str, Any]) -> bool:
        o.verb, o.body, o.maybe_done, o.retry_at = verb, body, False, 0.0
        self._wake.set()
        return True

    def _accepted(self, o: Outcome) -> None:
        summary, log = self._runner.summary, self._runner.log
        if o.verb == "fail":
            summary.failed += 1
            error = o.body["error"]
            about_it = {**about(o.job), "code": error.get("code", "")}
            log.warning("item failed: %s: %s", named(o.job), error["message"], extra=about_it)
        elif o.verb == "release":
            summary.released += 1
            log.info("item released: %s", named(o.job), extra=about(o.job))
        else:
            summary.completed += 1
            log.info("item done: %s", named(o.job), extra=about(o.job))

    def _lost(self, job: Job, why: Exception) -> None:
        with job.lock:
            if job.cause is None:
                job.cause = why
                job.state = State.LOST
        self._runner.summary.lost += 1
        self._runner.log.warning("lease lost: %s: %s", named(job), why, extra=about(job))
        if not isinstance(why, ItemCancelled):
            self._runner._tell_lost(job, why)

    async def release(self, jobs: list[Job]) -> None:
        """Gives items back. The lease of one that cannot be released expires."""
        end = time.monotonic() + 5.0
        for n in range(0, len(jobs), MAX_BATCH):
            calls: list[Any] = [
                {k: j.lease[k] for k in ("id", "worker_id", "attempt")} for j in jobs[n : n + MAX_BATCH]
            ]
            tries = 0
            while True:
                tries += 1
                try:
                    await self._runner._client.with_options(timeout=5.0, tries=1).release_items(calls)
                    break
                except PawlError as e:
                    if not transient(e) or time.monotonic() >= end:
                        self._runner.log.warning(
                            "%d items could not be released, their leases expire: %s", len(calls), e
                        )
                        break
                    await asyncio.sleep(backoff(tries, 0.05, 1.0))
