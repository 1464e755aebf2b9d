"""The calls of operators and readers: queues, budgets, schedules, types, keys, statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _rules as rules
from .. import types as t
from .._generated.routes import ROUTES
from .._results import Result
from .connection import AsyncCall, AsyncPages
from .items import _set

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AsyncOperationCalls:
    """The calls about what is around tasks: queues, budgets, schedules, types, blobs, keys and statistics."""

    _call: AsyncCall

    # Queues

    def list_queues(self, **query: Unpack[t.ListQueuesQuery]) -> AsyncPages[t.Queue]:
        """Lists queues with what is in them, by type."""
        return AsyncPages(self._call, "list_queues", "", dict(query))

    async def get_queue(self, type: str) -> t.Queue:
        """Reads a queue: what is in it, and whether it is paused."""
        return await self._call.call("get_queue", type)

    async def put_queue(self, type: str, limits: dict[str, Any]) -> t.Queue:
        """Sets limits of a queue, as a merge patch: a member that is absent stays, None removes it."""
        return await self._call.call("put_queue", type, limits)

    async def pause_queue(self, type: str) -> t.Queue:
        """Stops claims from a queue. Leased items stay with their workers."""
        return await self._call.call("pause_queue", type, {})

    async def resume_queue(self, type: str) -> t.Queue:
        """Allows claims from a queue again."""
        return await self._call.call("resume_queue", type, {})

    async def pause_namespace(self) -> None:
        """Stops all claims in the namespace."""
        await self._call.call("pause_namespace", body={})

    async def resume_namespace(self) -> None:
        """Allows claims in the namespace again, except from queues that are paused themselves."""
        await self._call.call("resume_namespace", body={})

    # Budgets

    def list_budgets(self, **query: Unpack[t.ListBudgetsQuery]) -> AsyncPages[t.Budget]:
        """Lists budgets by name."""
        return AsyncPages(self._call, "list_budgets", "", dict(query))

    async def get_budget(self, name: str) -> t.Budget:
        """Reads a budget: its limit, and what is spent, reserved and left in its period."""
        return await self._call.call("get_budget", name)

    async def put_budget(self, name: str, limit: int, unit: str, **options: Unpack[t.BudgetOptions]) -> t.Budget:
        """Makes a budget, or changes it; items that wait for it are queued."""
        return await self._call.call("put_budget", name, rules.body_of(options, limit=limit, unit=unit))

    async def delete_budget(self, name: str) -> None:
        """Removes a budget and what was spent of it."""
        await self._call.call("delete_budget", name)

    async def budget_spending(self, name: str, **query: Unpack[t.BudgetSpendingQuery]) -> t.BudgetSpending:
        """Tells what was spent of a budget by task, by model or by agent."""
        return await self._call.call("budget_spending", name, query=query)

    # Schedules

    async def create_schedule(self, name: str, task: t.NewTask, **options: Unpack[t.ScheduleOptions]) -> t.Schedule:
        """Creates a schedule, which makes a task at each of its times."""
        return await self._call.call("create_schedule", body=rules.body_of(options, name=name, task=task))

    async def put_schedule(self, name: str, task: t.NewTask, **options: Unpack[t.ScheduleOptions]) -> t.Schedule:
        """Creates a schedule, or replaces its definition. Its pause and its place stay."""
        return await self._call.call("put_schedule", name, rules.body_of(options, task=task))

    def list_schedules(self, **query: Unpack[t.ListSchedulesQuery]) -> AsyncPages[t.Schedule]:
        """Lists schedules with their next times, by name."""
        return AsyncPages(self._call, "list_schedules", "", dict(query))

    async def get_schedule(self, name: str) -> t.Schedule:
        """Reads a schedule: its next ten times, its newest task, and why it made none."""
        return await self._call.call("get_schedule", name)

    def schedule_firings(self, name: str, **query: Unpack[t.ScheduleFiringsQuery]) -> AsyncPages[t.Firing]:
        """Lists what became of a schedule's times, newest first."""
        return AsyncPages(self._call, "schedule_firings", name, dict(query))

    async def pause_schedule(self, name: str) -> t.Schedule:
        """Stops a schedule. Times that pass meanwhile are not caught up."""
        return await self._call.call("pause_schedule", name, {})

    async def resume_schedule(self, name: str) -> t.Schedule:
        """Lets a schedule go on with its next time."""
        return await self._call.call("resume_schedule", name, {})

    async def run_schedule(self, name: str) -> t.Schedule:
        """Makes a schedule's task now; `last_task_id` is the task."""
        return await self._call.call("run_schedule", name, {})

    async def delete_schedule(self, name: str) -> None:
        """Deletes a schedule. Its tasks stay."""
        await self._call.call("delete_schedule", name)

    # Types

    def list_types(self, **query: Unpack[t.ListTypesQuery]) -> AsyncPages[t.Type]:
        """Lists registered types by name."""
        return AsyncPages(self._call, "list_types", "", dict(query))

    async def get_type(self, name: str, *, version: int | None = None) -> t.Type:
        """Reads a type: the current version, or the one asked for."""
        return await self._call.call("get_type", name, query={"version": version})

    async def put_type(self, name: str, definition: t.Type) -> t.TypeRef:
        """Registers a type; the answer has `unchanged` set when the definition was there already."""
        return await self._call.call("put_type", name, {**definition, "name": name})

    async def put_types(self, types: Sequence[t.Type]) -> list[Result[t.TypeRef]]:
        """Registers types, each answered on its own."""
        return await self._call.batch("put_types", types)

    async def remove_type(self, name: str) -> None:
        """Takes a type off the registry; its tasks go on with the version they have."""
        await self._call.call("remove_type", name)

    async def remove_types(self, names: Sequence[str]) -> list[Result[str]]:
        """Takes types off the registry, each answered on its own."""
        return await self._call.batch("remove_types", names)

    # Blobs

    async def put_blob(self, data: bytes, *, content_type: str = "application/octet-stream") -> t.Blob:
        """Stores bytes and returns their address; they are kept for a day after the last upload."""
        r = rules.Request(ROUTES["put_blob"], body=data, content_type=content_type)
        return await self._call.send(r)

    async def get_blob(self, address: str, *, start: int = 0, end: int | None = None) -> bytes:
        """Reads the bytes of a blob: all, or those from `start` to before `end`."""
        r = rules.Request(ROUTES["get_blob"], id=address)
        if start or end is not None:
            r.headers = {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
        _, data = await self._call.respond(r, raw=True)
        return bytes(data)

    # Idempotency keys of effects outside of Pawl

    def list_keys(self, **query: Unpack[t.ListKeysQuery]) -> AsyncPages[t.Key]:
        """Lists idempotency keys, newest first."""
        return AsyncPages(self._call, "list_keys", "", dict(query))

    async def get_key(self, key: str, *, scope: str | None = None) -> t.Key:
        """Reads an idempotency key."""
        return await self._call.call("get_key", key, query={"scope": scope})

    async def get_keys(self, calls: Sequence[t.KeyName]) -> list[Result[t.Key]]:
        """Reads idempotency keys, each answered on its own."""
        return await self._call.batch("get_keys", calls)

    async def begin_key(self, key: str, request_hash: str, **options: Unpack[t.KeyBeginOptions]) -> t.KeyBegun:
        """Opens a key. `run` means that the caller is to run, else the first answer stands."""
        return await self._call.call("begin_key", key, rules.body_of(options, request_hash=request_hash))

    async def begin_keys(self, calls: Sequence[t.KeyBegin]) -> list[Result[t.KeyBegun]]:
        """Opens keys, each answered on its own."""
        return await self._call.batch("begin_keys", calls)

    async def renew_key(
        self, key: str, token: str, *, scope: str | None = None, lock_seconds: int | None = None
    ) -> t.Key:
        """Keeps a key for a run that goes on."""
        body = {"token": token, **_set(scope=scope, lock_seconds=lock_seconds)}
        return await self._call.call("renew_key", key, body)

    async def renew_keys(self, calls: Sequence[t.KeyRenew]) -> list[Result[t.Key]]:
        """Keeps keys for runs that go on, each answered on its own."""
        return await self._call.batch("renew_keys", calls)

    async def complete_key(self, key: str, token: str, response: Any, *, scope: str | None = None) -> t.Key:
        """Keeps the answer of a run."""
        return await self._call.call("complete_key", key, {"token": token, "response": response, **_set(scope=scope)})

    async def complete_keys(self, calls: Sequence[t.KeyDone]) -> list[Result[t.Key]]:
        """Keeps the answers of runs, each answered on its own."""
        return await self._call.batch("complete_keys", calls)

    async def fail_key(self, key: str, token: str, response: Any, *, scope: str | None = None) -> t.Key:
        """Keeps the error of a run; the next begin runs again."""
        return await self._call.call("fail_key", key, {"token": token, "response": response, **_set(scope=scope)})

    async def fail_keys(self, calls: Sequence[t.KeyDone]) -> list[Result[t.Key]]:
        """Keeps the errors of runs, each answered on its own."""
        return await self._call.batch("fail_keys", calls)

    # The record and statistics

    def list_events(self, **query: Unpack[t.ListEventsQuery]) -> AsyncPages[t.Event]:
        """Lists events, newest first, or with `after` in feed order."""
        return AsyncPages(self._call, "list_events", "", dict(query))

    def list_failures(self, **query: Unpack[t.ListFailuresQuery]) -> AsyncPages[t.FailureGroup]:
        """Groups failed and dead-lettered items by type and error, those with the most items first."""
        return AsyncPages(self._call, "list_failures", "", dict(query))

    def list_workers(self, **query: Unpack[t.ListWorkersQuery]) -> AsyncPages[t.WorkerInfo]:
        """Lists workers, last seen first."""
        return AsyncPages(self._call, "list_workers", "", dict(query))

    async def stats(self) -> t.Stats:
        """Counts what there is, now."""
        return await self._call.call("stats")

    async def series(self, **query: Unpack[t.SeriesQuery]) -> t.ListQueueSeries:
        """Counts what happened in each queue, by the minute or a longer step."""
        return await self._call.call("series", query=query)

    async def suggest_leases(self, **query: Unpack[t.SuggestLeasesQuery]) -> t.ListLeaseAdvice:
        """Suggests leases of types that would have avoided expiries."""
        return await self._call.call("suggest_leases", query=query)

    async def log_checkpoint(self) -> t.LogCheckpoint:
        """Returns the newest signed checkpoint of the transparency log."""
        return await self._call.call("log_checkpoint")

    async def log_task(self, task_id: str, *, cursor: str | None = None, limit: int | None = None) -> t.TaskProof:
        """Proves that a task's events are logged."""
        return await self._call.call("log_task", task_id, query={"cursor": cursor, "limit": limit})

    async def log_consistency(self, from_size: int, to_size: int) -> t.LogConsistency:
        """Proves that the transparency log has only grown between two sizes."""
        return await self._call.call("log_consistency", query={"from": from_size, "to": to_size})

    def list_namespaces(self, **query: Unpack[t.ListNamespacesQuery]) -> AsyncPages[t.NamespaceInfo]:
        """Lists the namespaces that had work, by name, each with its open tasks and live workers."""
        return AsyncPages(self._call, "list_namespaces", "", dict(query))

    # Sweeps, archives and relays

    async def sweep(self) -> t.SweepStats:
        """Runs one sweep."""
        return await self._call.call("sweep", body={})

    async def tick(self) -> t.Ticked:
        """Does once what a running server does all the time, and says when to call again."""
        return await self._call.call("tick", body={})

    def list_sweeps(self, **query: Unpack[t.ListSweepsQuery]) -> AsyncPages[t.SweepStats]:
        """Lists sweeps with what each did, newest first."""
        return AsyncPages(self._call, "list_sweeps", "", dict(query))

    async def doctor(self, *, events: int | None = None) -> t.DoctorReport:
        """Checks the invariants of the whole database, and changes nothing.

        The newest `events` are compared with the transparency log: 100,000 by default, below 0 all.
        """
        return await self._call.call("doctor", body={} if events is None else {"events": events})

    async def prunable(self) -> t.Prunable:
        """Counts what a pass would archive and remove now, and changes nothing."""
        return await self._call.call("prunable")

    def list_archives(self, **query: Unpack[t.ListArchivesQuery]) -> AsyncPages[t.Archive]:
        """Lists archived tasks, newest first."""
        return AsyncPages(self._call, "list_archives", "", dict(query))

    async def restore_archive(self, task_id: str) -> t.Task:
        """Brings an archived task back."""
        return await self._call.call("restore_archive", task_id, {})

    async def delete_archive(self, task_id: str) -> None:
        """Removes what is archived of a task, which cannot be restored then."""
        await self._call.call("delete_archive", task_id)

    def list_relays(self) -> AsyncPages[t.Relay]:
        """Says where the relays stand, which send events to other systems."""
        return AsyncPages(self._call, "list_relays", "", {})

    async def resume_relay(self, relay_id: str, *, start: str | int = "stored") -> t.Relay:
        """Has a disabled relay tried again, from its stored position, from `now` or from a position of the feed."""
        return await self._call.call("resume_relay", relay_id, {} if start == "stored" else {"from": str(start)})

    async def forget_relay(self, relay_id: str) -> None:
        """Removes the state of a relay that no server runs any more."""
        await self._call.call("forget_relay", relay_id)

    # The server

    async def check_token(self) -> t.TaskToken:
        """Says what a task token stands for, while its lease runs. `with_options(token=…)` sets the token."""
        return await self._call.call("check_token")

    async def health(self) -> t.Condition:
        """Says that the server's process runs."""
        return await self._call.call("health")

    async def ready(self) -> t.Condition:
        """Says that the server takes calls; else an UnavailableError."""
        return await self._call.call("ready")

    async def description(self) -> dict[str, Any]:
        """The server's description of itself, as OpenAPI 3.1."""
        return await self._call.call("description")

    async def metrics(self) -> str:
        """How requests went and what is queued, for Prometheus."""
        _, data = await self._call.respond(rules.Request(ROUTES["metrics"]), raw=True)
        return bytes(data).decode()
