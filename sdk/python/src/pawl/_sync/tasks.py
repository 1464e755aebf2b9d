# Made of src/pawl/_async/tasks.py by tools/unasync.py: do not edit.
"""The calls about tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _rules as rules
from .. import types as t
from .._results import Result
from .connection import Call, Pages

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TaskCalls:
    """The calls about tasks, their items and what belongs to them."""

    _call: Call

    def create_task(self, type: str, payload: Any = None, **options: Unpack[t.NewTaskOptions]) -> t.Task:
        """Creates a task. Without `items` it has one item, whose input is the payload.

        With `dedupe` or `unique`, an older task may be the answer; it has `deduplicated` set.
        """
        body = rules.body_of(options, type=type)
        body["payload"] = payload
        return self._call.call("create_task", body=body)

    def create_tasks(self, tasks: Sequence[t.NewTask]) -> list[Result[t.Task]]:
        """Creates tasks, each answered on its own."""
        return self._call.batch("create_tasks", tasks)

    def get_task(self, task_id: str, **query: Unpack[t.GetTaskQuery]) -> t.TaskView:
        """Reads a task."""
        return self._call.call("get_task", task_id, query=query)

    def list_tasks(self, **query: Unpack[t.ListTasksQuery]) -> Pages[t.TaskView]:
        """Lists tasks, newest first. Iterate over it; it reads page by page."""
        return Pages(self._call, "list_tasks", "", dict(query))

    def update_task(self, task_id: str, *, version: int | None = None, **patch: Unpack[t.TaskPatch]) -> t.Task:
        """Changes a task's title, priority or metadata; with `version`, only the task of that version."""
        headers = {"If-Match": f'"{version}"'} if version is not None else None
        return self._call.call("update_task", task_id, dict(patch), headers=headers)

    def update_tasks(self, calls: Sequence[t.TaskUpdate]) -> list[Result[t.Task]]:
        """Changes tasks, each answered on its own."""
        return self._call.batch("update_tasks", calls)

    def clone_task(self, task_id: str, **options: Unpack[t.CloneOptions]) -> t.Task:
        """Creates a task that is like this one, in whatever state it is."""
        return self._call.call("clone_task", task_id, rules.body_of(options))

    def clone_tasks(self, calls: Sequence[t.TaskClone]) -> list[Result[t.Task]]:
        """Clones tasks, each answered on its own."""
        return self._call.batch("clone_tasks", calls)

    def fork_task(self, task_id: str, checkpoint: int) -> t.Task:
        """Creates a task that goes on from a checkpoint of this one."""
        return self._call.call("fork_task", task_id, {"checkpoint": checkpoint})

    def fork_tasks(self, calls: Sequence[t.TaskFork]) -> list[Result[t.Task]]:
        """Forks tasks, each answered on its own."""
        return self._call.batch("fork_tasks", calls)

    def delete_task(self, task_id: str, *, force: bool = False, reason: str | None = None) -> None:
        """Deletes a task that has ended, or with `force` any, and all that belongs to it."""
        query = {"force": force or None, "reason": reason}
        self._call.call("delete_task", task_id, query=query)

    def delete_tasks(self, calls: Sequence[t.TaskCall]) -> list[Result[str]]:
        """Deletes tasks, each answered on its own."""
        return self._call.batch("delete_tasks", calls)

    def add_items(self, task_id: str, items: Sequence[t.NewItem]) -> t.Task:
        """Adds items to a task whose work is still open."""
        return self._call.call("add_items", task_id, {"items": list(items)})

    def add_items_batch(self, calls: Sequence[t.AddItems]) -> list[Result[t.Task]]:
        """Adds items to tasks, each answered on its own."""
        return self._call.batch("add_items_batch", calls)

    def cancel_task(self, task_id: str, **options: Unpack[t.TaskVerb]) -> t.Task:
        """Cancels a task, or some of its items. Workers learn of it by their next heartbeat."""
        return self._call.call("cancel_task", task_id, rules.body_of(options))

    def cancel_tasks(self, calls: Sequence[t.TaskCall]) -> list[Result[t.Task]]:
        """Cancels tasks, each answered on its own."""
        return self._call.batch("cancel_tasks", calls)

    def retry_task(self, task_id: str, **options: Unpack[t.TaskVerb]) -> t.Task:
        """Queues a task's failed items again and reopens it."""
        return self._call.call("retry_task", task_id, rules.body_of(options))

    def retry_tasks(self, calls: Sequence[t.TaskCall]) -> list[Result[t.Task]]:
        """Retries tasks, each answered on its own."""
        return self._call.batch("retry_tasks", calls)

    def bury_task(self, task_id: str, **options: Unpack[t.TaskVerb]) -> t.Task:
        """Dead-letters a task's failed items."""
        return self._call.call("bury_task", task_id, rules.body_of(options))

    def bury_tasks(self, calls: Sequence[t.TaskCall]) -> list[Result[t.Task]]:
        """Buries tasks, each answered on its own."""
        return self._call.batch("bury_tasks", calls)

    def approve_task(
        self, task_id: str, *, version: int | None = None, **options: Unpack[t.ApproveOptions]
    ) -> t.Task:
        """Approves a submitted task; it is applied where that needs no worker."""
        return self._call.call("approve_task", task_id, rules.body_of(options, version=version))

    def approve_tasks(self, calls: Sequence[t.ApproveCall]) -> list[Result[t.Task]]:
        """Approves tasks, each answered on its own."""
        return self._call.batch("approve_tasks", calls)

    def reject_task(
        self,
        task_id: str,
        errors: Sequence[t.Complaint],
        *,
        version: int | None = None,
        **options: Unpack[t.RejectOptions],
    ) -> t.Task:
        """Rejects a submitted task for good, or with `allow_rework` sends its items back for rework."""
        body = rules.body_of(options, errors=list(errors), version=version)
        return self._call.call("reject_task", task_id, body)

    def reject_tasks(self, calls: Sequence[t.RejectCall]) -> list[Result[t.Task]]:
        """Rejects tasks, each answered on its own."""
        return self._call.batch("reject_tasks", calls)

    def append_checkpoint(
        self,
        task_id: str,
        snapshot: Any,
        *,
        type: t.TaskCheckpointType = "custom",
        **options: Unpack[t.TaskCheckpointOptions],
    ) -> t.CheckpointRef:
        """Saves a checkpoint of the task itself, without a lease."""
        body = rules.body_of(options, type=type)
        body["snapshot"] = snapshot
        return self._call.call("checkpoint_task", task_id, body)

    def append_checkpoints(self, calls: Sequence[t.TaskCheckpoint]) -> list[Result[t.CheckpointRef]]:
        """Saves checkpoints of tasks, each answered on its own."""
        return self._call.batch("checkpoint_tasks", calls)

    def append_task(
        self, task_id: str, checkpoints: Sequence[t.AppendedCheckpoint], **options: Unpack[t.AppendOptions]
    ) -> t.CheckpointsAppended:
        """Appends checkpoints to a task in one request, on condition, without a lease.

        With `expected` the newest checkpoint must have this number; `prune` keeps the newest of each
        prefix. What a name that is taken means is said by `on_conflict` of each checkpoint.
        """
        return self._call.call("append_task", task_id, rules.body_of(options, checkpoints=list(checkpoints)))

    def append_tasks(self, calls: Sequence[t.CheckpointAppend]) -> list[Result[t.CheckpointsAppended]]:
        """Appends checkpoints to tasks, each call answered on its own; `create` makes a task that is not there."""
        return self._call.batch("append_tasks", calls)

    def prune_task(self, task_id: str, rules: Sequence[t.PruneRule]) -> t.CheckpointsPruned:
        """Removes named checkpoints of a task by rules: of each prefix the newest `keep` stay."""
        return self._call.call("prune_task", task_id, {"rules": list(rules)})

    def prune_tasks(self, calls: Sequence[t.CheckpointPrune]) -> list[Result[t.CheckpointsPruned]]:
        """Prunes tasks, each answered on its own."""
        return self._call.batch("prune_tasks", calls)

    def task_result(self, task_id: str, *, partial: bool = False) -> t.TaskResult:
        """Reads what a completed task came to.

        With `partial`, the results of the completed items of a task that failed or was cancelled
        are read too. An open task is a ConflictError.
        """
        return self._call.call("task_result", task_id, query={"partial": partial or None})

    def count_checkpoints(self, task_id: str) -> t.Counts:
        """Counts a task's checkpoints by type."""
        return self._call.call("count_checkpoints", task_id)

    def task_items(self, task_id: str, **query: Unpack[t.TaskItemsQuery]) -> Pages[t.ItemView]:
        """Lists a task's items, oldest first."""
        return Pages(self._call, "task_items", task_id, dict(query))

    def task_events(self, task_id: str, **query: Unpack[t.TaskEventsQuery]) -> Pages[t.Event]:
        """Lists a task's events, newest first."""
        return Pages(self._call, "task_events", task_id, dict(query))

    def task_provenance(self, task_id: str, **query: Unpack[t.TaskProvenanceQuery]) -> Pages[t.ProvenanceRecord]:
        """Lists who did what to a task and with what, oldest first."""
        return Pages(self._call, "task_provenance", task_id, dict(query))

    def task_checkpoints(self, task_id: str, **query: Unpack[t.TaskCheckpointsQuery]) -> Pages[t.Checkpoint]:
        """Lists a task's checkpoints in order of their number."""
        return Pages(self._call, "task_checkpoints", task_id, dict(query))

    def list_checkpoints(self, **query: Unpack[t.ListCheckpointsQuery]) -> Pages[t.Checkpoint]:
        """Lists checkpoints in order of their number."""
        return Pages(self._call, "list_checkpoints", "", dict(query))

    def send_signal(self, name: str, payload: Any = None, *, key: str | None = None) -> t.Signalled:
        """Sends a signal. Items that wait for it are queued; it is kept for those that wait for it later."""
        body = rules.body_of({}, name=name, key=key)
        body["payload"] = payload
        return self._call.call("send_signal", body=body)

    def send_signals(self, calls: Sequence[t.SignalCall]) -> list[Result[t.Signalled]]:
        """Sends signals, each answered on its own."""
        return self._call.batch("send_signals", calls)

    def bulk(self, verb: str, filter: t.BulkFilter, **options: Unpack[t.BulkOptions]) -> t.Task | t.BulkCount:
        """Retries, cancels, buries, deletes or updates all tasks that a filter selects, in the background."""
        return self._call.call("bulk", body=rules.body_of(options, verb=verb, filter=dict(filter)))
