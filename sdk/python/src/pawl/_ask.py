"""Questions that an agent asks a person about a call of a tool."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

from . import types as t
from ._async.context import AsyncContext
from ._json import dumps, format_time, hash_of, loads
from ._steps import args_of, step_changed

LEASE_SECONDS = 10  # of a question, until it is handed in
AGAIN = timedelta(seconds=10)  # between two tries of a question that could not be asked


@dataclasses.dataclass
class Decision:
    """What a person says about a call of a tool."""

    approved: bool
    reason: str = ""


def approval_type(name: str) -> t.Type:
    """The definition of a type of questions: its results wait for a person."""
    return {"name": name, "acceptance": True, "approval": {"mode": "manual"}}


async def ask_person(ctx: AsyncContext, type: str, name: str, asked: dict[str, Any]) -> Decision:
    """Asks a person: a child of the task, whose result is the question.

    It is in the list of approvals of the dashboard, of `pawl` and of MCP. Meanwhile the item is suspended.
    A question that was asked with another content under the name is a StepChangedError. In a fork, what was
    answered before it is decided, and what was not is asked anew.
    """
    question = args_of(name, None, [asked], {})
    saved = await ctx._lookup(name)
    if saved is not None and ("attempt" not in saved or saved.get("args_hash") == question.hash):
        return _decision(await ctx._children(name, {}, question))
    metadata = {"item_id": ctx.item_id}
    child = await ctx.spawn(name, type, asked, metadata=metadata)
    if (child.get("metadata") or {}).get("item_id", ctx.item_id) != ctx.item_id:  # another item's
        child = await ctx.spawn(hash_of(f"{ctx.item_id} {name}"), type, asked, metadata=metadata)
    if child["payload"] != loads(dumps(asked)):
        raise step_changed(name, "a person was asked something else under it before")
    worker_id = ctx.lease["worker_id"]
    leases = await ctx.client.claim(worker_id, task_id=child["id"], lease_seconds=LEASE_SECONDS)
    for lease in leases:
        await ctx.client.submit(lease, asked)
    if not leases and child["state"] in ("queued", "checked_out", "in_progress"):
        # It was not asked: its queue is paused or full, or an attempt that was to ask has ended meanwhile.
        await ctx._suspend(until=format_time(ctx.now() + AGAIN))
    wait = {"ids": [child["id"]], "on_failure": "continue"}
    # Older versions saved an answer for the id of its question.
    return _decision(await ctx._children(name, wait, question if saved is None else args_of(name, None, [wait], {})))


def _decision(answers: list[t.ChildResult]) -> Decision:
    [answer] = answers
    error: Any = answer.get("error") or {}
    reason = error.get("message", "") if isinstance(error, dict) else str(error)
    return Decision(answer.get("state") == "completed", reason)
