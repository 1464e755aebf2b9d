"""Workers of tests that die: see pawl.testing."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import math
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _rules as rules
from . import types as t
from ._errors import LeaseLostError
from ._json import parse_time
from .worker import Worker

if TYPE_CHECKING:
    from ._sync.client import Client
    from .testing import Server

MAX_RUNS = 50  # looks of each_crash at an item that does not end
UNCOUNTED = ("claim", "heartbeat", "heartbeat_items", "progress", "register_worker", "release_items")
OF_WORKER = ("append", "heartbeat_items", "register_worker", "release_items")  # calls that no handler makes itself
REPORTS = ("complete_items", "fail_items", "submit_items")

Handlers = Mapping[str, Callable[..., Any]]


class Crashed(BaseException):
    """Raised in the handler of a worker that has died. It is no `Exception`: `except Exception` does not stop it."""


class Dying:
    """Lets one item be claimed, and its worker die after some writes."""

    def __init__(self, writes: float, lost: bool) -> None:
        self.left = writes
        self._lost = lost
        self.dead = False
        self.item: str = ""
        self._lock = threading.Lock()

    def before(self, r: rules.Request) -> Any:
        """Raises if the worker is dead, or if it dies before this write."""
        name = r.route.name
        with self._lock:
            if name == "claim" and (self.item or self.dead):
                return {"items": []}
            counted = r.route.mutates and name not in UNCOUNTED
            if counted and self.left <= 0:
                self.dead = True
            if self.dead:
                raise self._end(name)
            if counted:
                self.left -= 1
        return None

    def after(self, r: rules.Request, data: Any) -> None:
        """Raises if the worker dies after this write."""
        name = r.route.name
        with self._lock:
            if name == "claim":
                items = data.get("items") or []
                self.item = items[0]["id"] if items else ""
            if self.left <= 0 and not self._lost and r.route.mutates and name not in UNCOUNTED:
                self.dead = True
                if name not in REPORTS:  # after a report there is nothing left to do
                    raise self._end(name)

    def refused(self, r: rules.Request) -> None:
        """A write that was refused has changed nothing, and does not count."""
        with self._lock:
            if r.route.mutates and r.route.name not in UNCOUNTED:
                self.left += 1

    def _end(self, name: str) -> BaseException:
        if name in OF_WORKER or name in REPORTS:
            return LeaseLostError("the worker has crashed", op=name)
        return Crashed("the worker has crashed")


def run(client: Client, handlers: Handlers, writes: float = math.inf, lost: bool = False) -> Dying:
    """Lets the handlers run one claimable item, until so many writes have arrived, or with `lost` until the next."""
    dying = Dying(writes, lost)
    logger = logging.Logger("pawl.testing", logging.CRITICAL)
    logger.addHandler(logging.NullHandler())
    tapped = client._with_config(dataclasses.replace(client._call.config, tap=dying))
    worker = Worker(tapped, concurrency=1, prefetch=False, drain=True, stop_grace=0, logger=logger)
    for kind, fn in handlers.items():
        worker.add(kind, fn)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            worker.run()
        except BaseException as e:
            failed.append(e)

    thread = threading.Thread(target=work, name="pawl-testing", daemon=True)  # the caller may have an event loop
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return dying


def run_one(client: Client, handlers: Handlers) -> t.ItemView:
    """See pawl.testing.run_one."""
    item = run(client, handlers).item
    if not item:
        raise LookupError("there is no item that the handlers could claim")
    return client.get_item(item)


def crash_after(server: Server, client: Client, writes: int, handlers: Handlers, lost: bool) -> tuple[t.ItemView, bool]:
    """See pawl.testing.crash_after."""
    dying = run(client, handlers, writes, lost)
    if not dying.item:
        raise LookupError("there is no item that the handlers could claim")
    if dying.dead:
        end_lease(server, client, dying.item)
    return client.get_item(dying.item), dying.dead


def end_lease(server: Server, client: Client, id: str) -> None:
    """Lets the lease of an item run out."""
    ends = client.get_item(id).get("lease_expires_at")
    if ends:
        server.advance(parse_time(ends) - server.now())


@dataclasses.dataclass(frozen=True)
class Crash:
    """One life of a task whose worker died once.

    Attributes:
        writes: after how many writes the worker died.
        lost: whether it went on until its next write, which did not arrive; otherwise it died at once.
        crashed: whether it did; the last life has fewer writes.
        item: the item as it ended.
        task: the task as it was created.
        client: a client of the namespace in which this happened.
    """

    writes: int
    lost: bool
    crashed: bool
    item: t.ItemView
    task: t.Task
    client: Client


def each_crash(
    server: Server,
    handlers: Handlers,
    type: str,
    payload: Any,
    prepare: Callable[[Client], object] | None,
    options: Mapping[str, Any],
) -> Iterator[Crash]:
    """See pawl.testing.each_crash."""
    run_id = uuid.uuid4().hex[:12]
    for n in itertools.count(1):  # 0 and lost, 1, 1 and lost, 2 and so on
        client = server.client(namespace=f"crash-{run_id}-{n}")
        if prepare is not None:
            prepare(client)
        task = client.create_task(type, payload, **options)
        life = _life(server, client, task, n // 2, n % 2 == 1, handlers)
        yield life
        if not life.crashed:
            return


def _life(server: Server, client: Client, task: t.Task, writes: int, lost: bool, handlers: Handlers) -> Crash:
    left: float = writes
    crashed = False
    item = client.task_items(task["id"]).all()[0]
    for _ in range(MAX_RUNS):
        if item.get("completed_at") or item["state"] == "submitted":
            break
        dying = run(client, handlers, left, lost)
        if dying.dead:
            crashed, left = True, math.inf
            end_lease(server, client, dying.item)
        elif not crashed:
            left = dying.left
        item = client.get_item(item["id"])
        if not dying.item:  # it sleeps, or a child waits for its next attempt
            at = item.get("run_at")
            server.advance(max((parse_time(at) - server.now()).total_seconds(), 0) + 1 if at else 60)
            item = client.get_item(item["id"])
    return Crash(writes, lost, crashed, item, task, client)
