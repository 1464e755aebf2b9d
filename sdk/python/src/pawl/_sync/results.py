# Made of src/pawl/_async/results.py by tools/unasync.py: do not edit.
"""What tasks come to."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .. import types as t
from .._errors import ConflictError, LimitError, TaskFailed, UnavailableError
from .._rules import id_of
from . import _io
from .tasks import TaskCalls

MAX_WAIT = 60  # seconds of one request
OVER = ("completed", "failed", "dead_lettered", "rejected", "cancelled")


class Results(TaskCalls):
    """The calls about tasks, and the waits for their results."""

    def wait(self, task: str | Mapping[str, Any], timeout: float | None = None) -> Any:
        """Waits until a task has ended, and returns its result. `task` is a task or its id.

        The server answers when the task ends; nothing is polled. A task that waits for approval has not
        ended. While the server is away or has too many calls that wait, the wait goes on; only its first
        request is given up.

        >>> client.wait(client.create_task("invoice", {"of": 17}), timeout=30)  # doctest: +SKIP
        {'total': 4200}

        Raises:
            TaskFailed: the task failed, or was dead-lettered, rejected or cancelled. Its `task` says more.
            TimeoutError: the task has not ended after `timeout` seconds. None = no limit.
            NotFoundError: there is no such task, or it was deleted meanwhile.
        """
        id = id_of("wait", task)
        end = None if timeout is None else time.monotonic() + max(timeout, 0.0)
        state, pause = "", 0.0
        while True:
            seconds = 0
            if state:  # the first request finds out whether the server and the task are there
                seconds = MAX_WAIT if end is None else max(min(int(end - time.monotonic()), MAX_WAIT), 0)
            query = {"fields": ["state"], "include": ["result"], "wait_seconds": seconds or None}
            try:
                seen = self._call.call("get_task", id, query=query, wait=float(seconds))
                state, pause = seen["state"], 0.0
            except (UnavailableError, LimitError) as e:
                if not state:
                    raise
                pause = max(min(2 * pause + 0.1, 5.0), e.retry_after)
            else:
                if state in OVER:
                    return self._result_of(id, seen)
            left = float(MAX_WAIT) if end is None else end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"task {id} is {state} after {timeout:g} s")
            if left < 1 or pause:
                _io.sleep(min(max(pause, 0.05), left))

    def result(self, task: str | Mapping[str, Any]) -> Any:
        """The result of a completed task. `task` is a task or its id.

        >>> client.result("tsk_01M7YH871CX3G0E5ZQMGF8KJ47")  # doctest: +SKIP
        {'total': 4200}

        Raises:
            TaskFailed: the task failed, or was dead-lettered, rejected or cancelled. Its `task` says more.
            ConflictError: the task has not ended; `wait` waits for it.
            NotFoundError: there is no such task.
        """
        id = id_of("result", task)
        try:
            return (self.task_result(id))["payload"]
        except ConflictError as e:
            found: t.TaskView = self.get_task(id)
            if found["state"] in OVER[1:]:
                raise TaskFailed(found) from e
            raise

    def _result_of(self, id: str, seen: Mapping[str, Any]) -> Any:
        """The result of a task that has ended, which the answer may have already."""
        result = (seen.get("included") or {}).get("result")
        if seen["state"] == "completed" and result and "payload" in result:
            return result["payload"]
        return self.result(id)
