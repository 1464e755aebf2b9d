# Made of src/pawl/_async/items.py by tools/unasync.py: do not edit.
"""The calls of workers: claims, and what is written under a lease."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .. import _rules as rules
from .. import types as t
from .._json import format_time
from .._lease import MAX_MISSES
from .._results import Result
from .connection import Call, Pages

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keepalive import KeepAlive


def fence(lease: Mapping[str, Any]) -> dict[str, Any]:
    """The fence of a lease, without the id, which is in the path."""
    return {"worker_id": lease["worker_id"], "attempt": lease["attempt"]}


class ItemCalls:
    """The calls about items. A lease is what `claim` returned, or a dict with its id, worker_id and attempt."""

    _call: Call

    def claim(self, worker_id: str, **options: Unpack[t.ClaimOptions]) -> list[t.Lease]:
        """Claims items, each under a lease; with `wait_seconds` it waits up to that long for some.

        If the answer is lost, its items stay leased until their leases expire.
        """
        wait = float(min(max(options.get("wait_seconds") or 0, 0), 60))
        answer = self._call.call("claim", body=rules.body_of(options, worker_id=worker_id), wait=wait)
        return list(answer["items"])

    def heartbeat(self, lease: t.Fence, *, lease_seconds: int | None = None) -> t.Beat:
        """Extends a lease. The answer says whether the item was cancelled."""
        return self._call.call("heartbeat", lease["id"], {**fence(lease), **_set(lease_seconds=lease_seconds)})

    def keep_alive(
        self,
        lease: t.Lease,
        interval: float | None = None,
        max_failures: int = MAX_MISSES,
        on_lost: Callable[[Exception], None] | None = None,
    ) -> KeepAlive:
        """Keeps a lease that `claim` returned alive, until `stop` of the answer or until it is lost.

        `interval` is the seconds between two heartbeats; None = a tenth of the lease. The lease counts as
        lost when the server says so, when it has ended, and after `max_failures` heartbeats in a row that failed.
        Then `on_lost` is called with the reason, LeaseLostError or ItemCancelled: stop the work, its
        result would be refused. A `Worker` does all this by itself.
        """
        from .keepalive import KeepAlive

        client: Any = self
        return KeepAlive(client, lease, interval, max_failures, on_lost)

    def heartbeat_items(self, calls: Sequence[t.HeartbeatCall]) -> list[Result[t.Beat]]:
        """Extends leases, each answered on its own."""
        return self._call.batch("heartbeat_items", calls)

    def complete(self, lease: t.Fence, result: Any = None) -> t.Item:
        """Hands in an item's result and ends it. The result is any JSON up to 1 MiB."""
        return self._call.call("complete", lease["id"], {**fence(lease), "result": result})

    def complete_items(self, calls: Sequence[t.CompleteCall]) -> list[Result[t.Moved]]:
        """Completes items, each answered on its own."""
        return self._call.batch("complete_items", calls)

    def fail(
        self,
        lease: t.Fence,
        error: str | t.Failure,
        *,
        retryable: bool | None = None,
        retry_after: float | None = None,
    ) -> t.Item:
        """Says that an attempt failed. It is tried again by policy, unless `retryable` is False."""
        ms = None if retry_after is None else round(retry_after * 1000)
        body = {**fence(lease), "error": error, **_set(retryable=retryable, retry_after_ms=ms)}
        return self._call.call("fail", lease["id"], body)

    def fail_items(self, calls: Sequence[t.FailCall]) -> list[Result[t.Moved]]:
        """Fails attempts, each answered on its own."""
        return self._call.batch("fail_items", calls)

    def release(self, lease: t.Fence, *, delay_seconds: int | None = None) -> t.Item:
        """Gives an item back. No failure is counted."""
        return self._call.call("release", lease["id"], {**fence(lease), **_set(delay_seconds=delay_seconds)})

    def release_items(self, calls: Sequence[t.ReleaseCall]) -> list[Result[t.Moved]]:
        """Releases items, each answered on its own."""
        return self._call.batch("release_items", calls)

    def suspend(
        self,
        lease: t.Fence,
        *,
        until: datetime | str | None = None,
        signal: str | None = None,
        key: str | None = None,
        since: str | None = None,
        children: t.ChildWait | None = None,
    ) -> t.Item:
        """Gives the lease up until a time, a signal or the end of children."""
        at = format_time(until) if isinstance(until, datetime) else until
        body = {**fence(lease), **_set(until=at, signal=signal, key=key, since=since, children=children)}
        return self._call.call("suspend", lease["id"], body)

    def suspend_items(self, calls: Sequence[t.SuspendCall]) -> list[Result[t.Moved]]:
        """Suspends items, each answered on its own."""
        return self._call.batch("suspend_items", calls)

    def revoke_lease(self, item_id: str, *, attempt: int | None = None, reason: str | None = None) -> t.Item:
        """Ends the lease of an item, whichever worker holds it. The item is queued again."""
        return self._call.call("revoke_lease", item_id, _set(attempt=attempt, reason=reason))

    def revoke_leases(self, calls: Sequence[t.RevokeCall]) -> list[Result[t.Moved]]:
        """Revokes leases, each answered on its own."""
        return self._call.batch("revoke_leases", calls)

    def progress(self, lease: t.Fence, progress: int | None = None, stage: str | None = None) -> t.Item:
        """Reports how far an item is, in percent, and its stage in a few words."""
        return self._call.call("progress", lease["id"], {**fence(lease), **_set(progress=progress, stage=stage)})

    def progress_items(self, calls: Sequence[t.ProgressCall]) -> list[Result[t.Moved]]:
        """Reports progress of items, each answered on its own."""
        return self._call.batch("progress_items", calls)

    def checkpoint(
        self, lease: t.Fence, type: t.CheckpointType, snapshot: Any, **options: Unpack[t.CheckpointOptions]
    ) -> t.CheckpointRef:
        """Saves a checkpoint under a lease."""
        body = {**fence(lease), **rules.body_of(options, type=type), "snapshot": snapshot}
        return self._call.call("checkpoint", lease["id"], body)

    def checkpoint_items(self, calls: Sequence[t.CheckpointCall]) -> list[Result[t.CheckpointRef]]:
        """Saves checkpoints under leases, each answered on its own."""
        return self._call.batch("checkpoint_items", calls)

    def spawn_child(self, lease: t.Fence, key: str, task: t.NewTask) -> t.Task:
        """Creates a task as a child of the item's task. The same key again is the same child."""
        return self._call.call("spawn_child", lease["id"], {**fence(lease), "key": key, "task": task})

    def spawn_children(self, calls: Sequence[t.SpawnCall]) -> list[Result[t.Task]]:
        """Spawns children, each answered on its own."""
        return self._call.batch("spawn_children", calls)

    def submit(self, lease: t.Fence, result: Any, **options: Unpack[t.HandInOptions]) -> t.Item:
        """Hands in an item's result, to be accepted with its task."""
        body = {**fence(lease), **rules.body_of(options), "result": result}
        return self._call.call("submit", lease["id"], body)

    def submit_items(self, calls: Sequence[t.SubmitCall]) -> list[Result[t.Moved]]:
        """Submits results, each answered on its own."""
        return self._call.batch("submit_items", calls)

    def submit_part(self, lease: t.Fence, key: str, payload: Any, **options: Unpack[t.PartOptions]) -> t.ItemPart:
        """Hands in a piece of an item's result. A later part of the same key and seq takes its place."""
        body = {**fence(lease), **rules.body_of(options, key=key), "payload": payload}
        return self._call.call("submit_part", lease["id"], body)

    def submit_parts(self, calls: Sequence[t.PartCall]) -> list[Result[t.ItemPart]]:
        """Hands in pieces of results, each answered on its own."""
        return self._call.batch("submit_parts", calls)

    def finalize(self, lease: t.Fence, **options: Unpack[t.FinalizeOptions]) -> t.Item:
        """Puts an item's parts together and submits what comes of it."""
        return self._call.call("finalize", lease["id"], {**fence(lease), **rules.body_of(options)})

    def finalize_items(self, calls: Sequence[t.FinalizeCall]) -> list[Result[t.Moved]]:
        """Finalizes items, each answered on its own."""
        return self._call.batch("finalize_items", calls)

    def list_items(self, **query: Unpack[t.ListItemsQuery]) -> Pages[t.ItemView]:
        """Lists items, oldest first."""
        return Pages(self._call, "list_items", "", dict(query))

    def get_item(self, item_id: str, **query: Unpack[t.GetItemQuery]) -> t.ItemView:
        """Reads an item."""
        return self._call.call("get_item", item_id, query=query)

    def why_item(self, item_id: str) -> t.Why:
        """Says what an item waits for, since when and until when, and the command that changes it."""
        return self._call.call("why_item", item_id)

    def resume_page(self, item_id: str, cursor: str | None = None) -> t.ResumeState:
        """Reads one page of what the next attempt needs."""
        return self._call.call("resume_item", item_id, query={"cursor": cursor})

    def resume_item(self, item_id: str) -> t.ResumeState:
        """Reads all that the next attempt needs to go on, page by page.

        If the item is claimed again meanwhile, it begins again with the first page.
        """
        out = self.resume_page(item_id)
        while cursor := out.get("next"):
            page = self.resume_page(item_id, cursor)
            if page["attempt"] == out["attempt"]:
                rules.add_page(out, page)
            else:
                out = self.resume_page(item_id)
        return out

    def item_parts(self, item_id: str, **query: Unpack[t.ItemPartsQuery]) -> Pages[t.ItemPart]:
        """Lists the pieces of an item's result, oldest first."""
        return Pages(self._call, "item_parts", item_id, dict(query))

    def item_events(self, item_id: str, **query: Unpack[t.ItemEventsQuery]) -> Pages[t.Event]:
        """Lists an item's events, newest first."""
        return Pages(self._call, "item_events", item_id, dict(query))

    def item_provenance(self, item_id: str, **query: Unpack[t.ItemProvenanceQuery]) -> Pages[t.ProvenanceRecord]:
        """Lists who did what to an item and with what, oldest first."""
        return Pages(self._call, "item_provenance", item_id, dict(query))

    def item_messages(self, item_id: str, **query: Unpack[t.ItemMessagesQuery]) -> Pages[t.Message]:
        """Lists an item's messages in order."""
        return Pages(self._call, "item_messages", item_id, dict(query))

    def register_worker(
        self,
        worker_id: str,
        *,
        types: Sequence[str] | None = None,
        name: str | None = None,
        version: str | None = None,
    ) -> None:
        """Enters a worker into the registry, or renews its entry."""
        body = _set(types=list(types) if types else None, name=name or None, version=version or None)
        self._call.call("register_worker", body={"worker_id": worker_id, **body})

    def reserve_budget(
        self, budget: str, lease: t.Fence, amount: int, key: str, **options: Unpack[t.ReserveOptions]
    ) -> t.Reserved:
        """Reserves an amount of a budget for an item before it is spent. The same key again is the same reservation."""
        body = {"item_id": lease["id"], **fence(lease), "amount": amount, "key": key, **rules.body_of(options)}
        return self._call.call("reserve_budget", budget, body)

    def settle_budget(self, budget: str, lease: t.Fence, reservation: str, amount: int) -> t.Settled:
        """Tells what was really spent of a reservation."""
        body = {"item_id": lease["id"], **fence(lease), "reservation": reservation, "amount": amount}
        return self._call.call("settle_budget", budget, body)


def _set(**members: Any) -> dict[str, Any]:
    """The members that are not None."""
    return {name: value for name, value in members.items() if value is not None}
