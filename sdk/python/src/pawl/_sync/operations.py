# Made of src/pawl/_async/operations.py by tools/unasync.py: do not edit.
"""The calls of operators and readers: queues, budgets, schedules, types, keys, statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _rules as rules
from .. import types as t
from .._generated.routes import ROUTES
from .._results import Result
from .connection import Call, Pages
from .items import _set

if TYPE_CHECKING:
    from typing_extensions import Unpack


class OperationCalls:
    """The calls about what is around tasks: queues, budgets, schedules, types, blobs, keys and statistics."""

    _call: Call

    # Queues

    def list_queues(self, **query: Unpack[t.ListQueuesQuery]) -> Pages[t.Queue]:
        """Lists queues with what is in them, by type."""
        return Pages(self._call, "list_queues", "", dict(query))

    def get_queue(self, type: str) -> t.Queue:
        """Reads a queue: what is in it, and whether it is paused."""
        return self._call.call("get_queue", type)

    def put_queue(self, type: str, limits: dict[str, Any]) -> t.Queue:
        """Sets limits of a queue, as a merge patch: a member that is absent stays, None removes it."""
        return self._call.call("put_queue", type, limits)

    def pause_queue(self, type: str) -> t.Queue:
        """Stops claims from a queue. Leased items stay with their workers."""
        return self._call.call("pause_queue", type, {})

    def resume_queue(self, type: str) -> t.Queue:
        """Allows claims from a queue again."""
        return self._call.call("resume_queue", type, {})

    def pause_namespace(self) -> None:
        """Stops all claims in the namespace."""
        self._call.call("pause_namespace", body={})

    def resume_namespace(self) -> None:
        """Allows claims in the namespace again, except from queues that are paused themselves."""
        self._call.call("resume_namespace", body={})

    # Budgets

    def list_budgets(self, **query: Unpack[t.ListBudgetsQuery]) -> Pages[t.Budget]:
        """Lists budgets by name."""
        return Pages(self._call, "list_budgets", "", dict(query))

    def get_budget(self, name: str) -> t.Budget:
        """Reads a budget: its limit, and what is spent, reserved and left in its period."""
        return self._call.call("get_budget", name)

    def put_budget(self, name: str, limit: int, unit: str, **options: Unpack[t.BudgetOptions]) -> t.Budget:
        """Makes a budget, or changes it; items that wait for it are queued."""
        return self._call.call("put_budget", name, rules.body_of(options, limit=limit, unit=unit))

    def delete_budget(self, name: str) -> None:
        """Removes a budget and what was spent of it."""
        self._call.call("delete_budget", name)

    def budget_spending(self, name: str, **query: Unpack[t.BudgetSpendingQuery]) -> t.BudgetSpending:
        """Tells what was spent of a budget by task, by model or by agent."""
        return self._call.call("budget_spending", name, query=query)

    # Schedules

    def create_schedule(self, name: str, task: t.NewTask, **options: Unpack[t.ScheduleOptions]) -> t.Schedule:
        """Creates a schedule, which makes a task at each of its times."""
        return self._call.call("create_schedule", body=rules.body_of(options, name=name, task=task))

    def put_schedule(self, name: str, task: t.NewTask, **options: Unpack[t.ScheduleOptions]) -> t.Schedule:
        """Creates a schedule, or replaces its definition. Its pause and its place stay."""
        return self._call.call("put_schedule", name, rules.body_of(options, task=task))

    def list_schedules(self, **query: Unpack[t.ListSchedulesQuery]) -> Pages[t.Schedule]:
        """Lists schedules with their next times, by name."""
        return Pages(self._call, "list_schedules", "", dict(query))

    def get_schedule(self, name: str) -> t.Schedule:
        """Reads a schedule: its next ten times, its newest task, and why it made none."""
        return self._call.call("get_schedule", name)

    def schedule_firings(self, name: str, **query: Unpack[t.ScheduleFiringsQuery]) -> Pages[t.Firing]:
        """Lists what became of a schedule's times, newest first."""
        return Pages(self._call, "schedule_firings", name, dict(query))

    def pause_schedule(self, name: str) -> t.Schedule:
        """Stops a schedule. Times that pass meanwhile are not caught up."""
        return self._call.call("pause_schedule", name, {})

    def resume_schedule(self, name: str) -> t.Schedule:
        """Lets a schedule go on with its next time."""
        return self._call.call("resume_schedule", name, {})

    def run_schedule(self, name: str) -> t.Schedule:
        """Makes a schedule's task now; `last_task_id` is the task."""
        return self._call.call("run_schedule", name, {})

    def delete_schedule(self, name: str) -> None:
        """Deletes a schedule. Its tasks stay."""
        self._call.call("delete_schedule", name)

    # Types

    def list_types(self, **query: Unpack[t.ListTypesQuery]) -> Pages[t.Type]:
        """Lists registered types by name."""
        return Pages(self._call, "list_types", "", dict(query))

    def get_type(self, name: str, *, version: int | None = None) -> t.Type:
        """Reads a type: the current version, or the one asked for."""
        return self._call.call("get_type", name, query={"version": version})

    def put_type(self, name: str, definition: t.Type) -> t.TypeRef:
        """Registers a type; the answer has `unchanged` set when the definition was there already."""
        return self._call.call("put_type", name, {**definition, "name": name})

    def put_types(self, types: Sequence[t.Type]) -> list[Result[t.TypeRef]]:
        """Registers types, each answered on its own."""
        return self._call.batch("put_types", types)

    def remove_type(self, name: str) -> None:
        """Takes a type off the registry; its tasks go on with the version they have."""
        self._call.call("remove_type", name)

    def remove_types(self, names: Sequence[str]) -> list[Result[str]]:
        """Takes types off the registry, each answered on its own."""
        return self._call.batch("remove_types", names)

    # Blobs

    def put_blob(self, data: bytes, *, content_type: str = "application/octet-stream") -> t.Blob:
        """Stores bytes and returns their address; they are kept for a day after the last upload."""
        r = rules.Request(ROUTES["put_blob"], body=data, content_type=content_type)
        return self._call.send(r)

    def get_blob(self, address: str, *, start: int = 0, end: int | None = None) -> bytes:
        """Reads the bytes of a blob: all, or those from `start` to before `end`."""
        r = rules.Request(ROUTES["get_blob"], id=address)
        if start or end is not None:
            r.headers = {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
        _, data = self._call.respond(r, raw=True)
        return bytes(data)

    # Idempotency keys of effects outside of Pawl

    def list_keys(self, **query: Unpack[t.ListKeysQuery]) -> Pages[t.Key]:
        """Lists idempotency keys, newest first."""
        return Pages(self._call, "list_keys", "", dict(query))

    def get_key(self, key: str, *, scope: str | None = None) -> t.Key:
        """Reads an idempotency key."""
        return self._call.call("get_key", key, query={"scope": scope})

    def get_keys(self, calls: Sequence[t.KeyName]) -> list[Result[t.Key]]:
        """Reads idempotency keys, each answered on its own."""
        return self._call.batch("get_keys", calls)

    def begin_key(self, key: str, request_hash: str, **options: Unpack[t.KeyBeginOptions]) -> t.KeyBegun:
        """Opens a key. `run` means that the caller is to run, else the first answer stands."""
        return self._call.call("begin_key", key, rules.body_of(options, request_hash=request_hash))

    def begin_keys(self, calls: Sequence[t.KeyBegin]) -> list[Result[t.KeyBegun]]:
        """Opens keys, each answered on its own."""
        return self._call.batch("begin_keys", calls)

    def renew_key(
        self, key: str, token: str, *, scope: str | None = None, lock_seconds: int | None = None
    ) -> t.Key:
        """Keeps a key for a run that goes on."""
        body = {"token": token, **_set(scope=scope, lock_seconds=lock_seconds)}
        return self._call.call("renew_key", key, body)

    def renew_keys(self, calls: Sequence[t.KeyRenew]) -> list[Result[t.Key]]:
        """Keeps keys for runs that go on, each answered on its own."""
        return self._call.batch("renew_keys", calls)

    def complete_key(self, key: str, token: str, response: Any, *, scope: str | None = None) -> t.Key:
        """Keeps the answer of a run."""
        return self._call.call("complete_key", key, {"token": token, "response": response, **_set(scope=scope)})

    def complete_keys(self, calls: Sequence[t.KeyDone]) -> list[Result[t.Key]]:
        """Keeps the answers of runs, each answered on its own."""
        return self._call.batch("complete_keys", calls)

    def fail_key(self, key: str, token: str, response: Any, *, scope: str | None = None) -> t.Key:
        """Keeps the error of a run; the next begin runs again."""
        return self._call.call("fail_key", key, {"token": token, "response": response, **_set(scope=scope)})

    def fail_keys(self, calls: Sequence[t.KeyDone]) -> list[Result[t.Key]]:
        """Keeps the errors of runs, each answered on its own."""
        return self._call.batch("fail_keys", calls)

    # The record and statistics

    def list_events(self, **query: Unpack[t.ListEventsQuery]) -> Pages[t.Event]:
        """Lists events, newest first, or with `after` in feed order."""
        return Pages(self._call, "list_events", "", dict(query))

    def list_failures(self, **query: Unpack[t.ListFailuresQuery]) -> Pages[t.FailureGroup]:
        """Groups failed and dead-lettered items by type and error, those with the most items first."""
        return Pages(self._call, "list_failures", "", dict(query))

    def list_workers(self, **query: Unpack[t.ListWorkersQuery]) -> Pages[t.WorkerInfo]:
        """Lists workers, last seen first."""
        return Pages(self._call, "list_workers", "", dict(query))

    def stats(self) -> t.Stats:
        """Counts what there is, now."""
        return self._call.call("stats")

    def series(self, **query: Unpack[t.SeriesQuery]) -> t.ListQueueSeries:
        """Counts what happened in each queue, by the minute or a longer step."""
        return self._call.call("series", query=query)

    def suggest_leases(self, **query: Unpack[t.SuggestLeasesQuery]) -> t.ListLeaseAdvice:
        """Suggests leases of types that would have avoided expiries."""
        return self._call.call("suggest_leases", query=query)

    def log_checkpoint(self) -> t.LogCheckpoint:
        """Returns the newest signed checkpoint of the transparency log."""
        return self._call.call("log_checkpoint")

    def log_task(self, task_id: str, *, cursor: str | None = None, limit: int | None = None) -> t.TaskProof:
        """Proves that a task's events are logged."""
        return self._call.call("log_task", task_id, query={"cursor": cursor, "limit": limit})

    def log_consistency(self, from_size: int, to_size: int) -> t.LogConsistency:
        """Proves that the transparency log has only grown between two sizes."""
        return self._call.call("log_consistency", query={"from": from_size, "to": to_size})

    def list_namespaces(self, **query: Unpack[t.ListNamespacesQuery]) -> Pages[t.NamespaceInfo]:
        """Lists the namespaces that had work, by name, each with its open tasks and live workers."""
        return Pages(self._call, "list_namespaces", "", dict(query))

    # Sweeps, archives and relays

    def sweep(self) -> t.SweepStats:
        """Runs one sweep."""
        return self._call.call("sweep", body={})

    def tick(self) -> t.Ticked:
        """Does once what a running server does all the time, and says when to call again."""
        return self._call.call("tick", body={})

    def list_sweeps(self, **query: Unpack[t.ListSweepsQuery]) -> Pages[t.SweepStats]:
        """Lists sweeps with what each did, newest first."""
        return Pages(self._call, "list_sweeps", "", dict(query))

    def doctor(self, *, events: int | None = None) -> t.DoctorReport:
        """Checks the invariants of the whole database, and changes nothing.

        The newest `events` are compared with the transparency log: 100,000 by default, below 0 all.
        """
        return self._call.call("doctor", body={} if events is None else {"events": events})

    def prunable(self) -> t.Prunable:
        """Counts what a pass would archive and remove now, and changes nothing."""
        return self._call.call("prunable")

    def list_archives(self, **query: Unpack[t.ListArchivesQuery]) -> Pages[t.Archive]:
        """Lists archived tasks, newest first."""
        return Pages(self._call, "list_archives", "", dict(query))

    def restore_archive(self, task_id: str) -> t.Task:
        """Brings an archived task back."""
        return self._call.call("restore_archive", task_id, {})

    def delete_archive(self, task_id: str) -> None:
        """Removes what is archived of a task, which cannot be restored then."""
        self._call.call("delete_archive", task_id)

    def list_relays(self) -> Pages[t.Relay]:
        """Says where the relays stand, which send events to other systems."""
        return Pages(self._call, "list_relays", "", {})

    def resume_relay(self, relay_id: str, *, start: str | int = "stored") -> t.Relay:
        """Has a disabled relay tried again, from its stored position, from `now` or from a position of the feed."""
        return self._call.call("resume_relay", relay_id, {} if start == "stored" else {"from": str(start)})

    def forget_relay(self, relay_id: str) -> None:
        """Removes the state of a relay that no server runs any more."""
        self._call.call("forget_relay", relay_id)

    # The server

    def check_token(self) -> t.TaskToken:
        """Says what a task token stands for, while its lease runs. `with_options(token=…)` sets the token."""
        return self._call.call("check_token")

    def health(self) -> t.Condition:
        """Says that the server's process runs."""
        return self._call.call("health")

    def ready(self) -> t.Condition:
        """Says that the server takes calls; else an UnavailableError."""
        return self._call.call("ready")

    def description(self) -> dict[str, Any]:
        """The server's description of itself, as OpenAPI 3.1."""
        return self._call.call("description")

    def metrics(self) -> str:
        """How requests went and what is queued, for Prometheus."""
        _, data = self._call.respond(rules.Request(ROUTES["metrics"]), raw=True)
        return bytes(data).decode()
