"""Heartbeats from a thread of their own, which a busy handler cannot hold up."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from ._errors import InternalError, ItemCancelled, PawlError
from ._job import Job, State
from ._sync.client import Client

MIN_TIMEOUT = 0.5  # a call that hangs counts as failed before the next is due
MAX_TIMEOUT = 10.0
KEPT = (State.RUNNING, State.STOPPING)  # the states of jobs whose leases are kept
MAX_CALLS = 1000  # of one batch


class Heartbeats(threading.Thread):
    """Keeps the leases of all running handlers alive, in one call for those that are due together."""

    def __init__(self, client: Client, log: logging.Logger) -> None:
        super().__init__(name="pawl-heartbeats", daemon=True)
        self._client = client
        self._log = log
        self._wake = threading.Condition()
        self._jobs: set[Job] = set()
        self._over = False
        self._waits_until: float | None = None  # None = until a job is added

    def add(self, job: Job) -> None:
        """Begins to keep a lease."""
        with self._wake:
            self._jobs.add(job)
            if self._waits_until is None or job.keeper.next_due < self._waits_until:
                self._waits_until = job.keeper.next_due
                self._wake.notify()

    def remove(self, job: Job) -> None:
        """Lets a lease be."""
        with self._wake:
            self._jobs.discard(job)

    def close(self) -> None:
        """Ends the thread; a call that is under way is waited for."""
        with self._wake:
            self._over = True
            self._wake.notify()
        if self.is_alive():
            self.join(MAX_TIMEOUT)

    def run(self) -> None:
        """Sleeps until the earliest heartbeat is due, and sends it with those that are due soon."""
        while True:
            with self._wake:
                while not self._over:
                    due, next_due = self._due(time.monotonic())
                    if due:
                        break
                    self._waits_until = next_due
                    self._wake.wait(None if next_due is None else max(next_due - time.monotonic(), 0.001))
                if self._over:
                    return
            for n in range(0, len(due), MAX_CALLS):
                try:
                    self._send(due[n : n + MAX_CALLS])
                except Exception:  # a bug must not end the heartbeats of all
                    self._log.exception("heartbeats failed")
                    time.sleep(MIN_TIMEOUT)

    def _due(self, now: float) -> tuple[list[Job], float | None]:
        due, next_due, any_due = [], None, False
        for job in self._jobs:
            with job.lock:
                if job.state not in KEPT:
                    continue
                any_due = any_due or now >= job.keeper.next_due
                if job.keeper.due_soon(now, job.beaten):
                    due.append(job)
                if next_due is None or job.keeper.next_due < next_due:
                    next_due = job.keeper.next_due
        return (due if any_due else []), next_due

    def _send(self, due: list[Job]) -> None:
        limit = min(MAX_TIMEOUT, *(max(j.keeper.interval, MIN_TIMEOUT) for j in due))
        calls: list[Any] = [{k: j.lease[k] for k in ("id", "worker_id", "attempt")} for j in due]
        sent = time.monotonic()
        failed: PawlError | None = None
        answers: list[Any] = []
        try:
            answers = self._client.with_options(timeout=limit, tries=1).heartbeat_items(calls)
        except PawlError as e:
            failed = e
        got = time.monotonic()
        for n, job in enumerate(due):
            error = failed
            if error is None:
                answer = answers[n] if n < len(answers) else None
                error = answer.error if answer else InternalError("the server answered only a part of the batch")
            beat = {} if error or answer is None else answer.value
            with job.lock:
                if job.state not in KEPT:
                    continue
                job.beaten = True
                gone = job.keeper.missed(sent, got, error) if error else job.keeper.extended(sent, got, beat)
                stopped = [job.on_stopped[m] for m in beat.get("stopped") or [] if m in job.on_stopped]
                misses = job.keeper.misses
            for stop in stopped:
                stop()
            if gone is not None:
                job.end(State.CANCELLED if isinstance(gone, ItemCancelled) else State.LOST, gone)
            elif error is not None:
                self._log.warning(
                    "heartbeat failed (%d in a row): %s", misses, error, extra={"item_id": job.lease["id"]}
                )
