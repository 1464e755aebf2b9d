"""What lines of a worker's log say of a job."""

from __future__ import annotations

from typing import Any

from ._job import Job


def named(job: Job) -> str:
    """What a line of the log calls a job."""
    lease = job.lease
    return f"{lease['id']} of type {lease['type']}, attempt {lease['attempt']}, task {lease['task_id']}"


def about(job: Job) -> dict[str, Any]:
    """What a line of the log says of a job."""
    lease = job.lease
    return {
        "item_id": lease["id"],
        "task_id": lease["task_id"],
        "item_type": lease["type"],
        "attempt": lease["attempt"],
        **(job.span.about if job.span else {}),
    }
