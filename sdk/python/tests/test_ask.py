"""Questions to a person."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import pawl
import pawl.testing
from pawl import _ask

from .conftest import Running, ended, until


def test_a_question_that_could_not_be_asked_is_asked_again(
    shared: pawl.testing.Server, client: pawl.Client, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue of the questions is paused while the handler asks: it asks later."""
    monkeypatch.setattr(_ask, "AGAIN", timedelta(seconds=1))
    asked = kind + ".approval"
    client.put_type(asked, {**_ask.approval_type(asked), "approval": {"mode": "manual", "not_by_requester": False}})
    client.pause_queue(asked)

    async def work(ctx: pawl.AsyncContext) -> Any:
        decision = await _ask.ask_person(ctx, asked, "may I?", {"amount": 7})
        return [decision.approved, decision.reason]

    task = client.create_task(kind, max_attempts=1)
    with Running(shared, {kind: work}):
        until(lambda: list(client.list_tasks(type=[asked])))
        ended(client, task, "queued")  # it holds no lease
        client.resume_queue(asked)
        [question] = until(lambda: list(client.list_tasks(type=[asked], state=["submitted"])))
        client.reject_task(question["id"], version=question["version"], errors=[{"code": "no", "message": "too much"}])
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == [False, "too much"]
