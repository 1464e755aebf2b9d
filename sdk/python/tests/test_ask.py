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


def test_a_name_is_of_one_question(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    """A person who was asked one thing has not decided another."""
    asked = kind + ".approval"
    client.put_type(asked, {**_ask.approval_type(asked), "approval": {"mode": "manual", "not_by_requester": False}})

    async def work(ctx: pawl.AsyncContext) -> Any:
        decision = await _ask.ask_person(ctx, asked, "may I?", {"amount": 7 if ctx.attempt == 1 else 9000})
        return decision.approved

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        [question] = until(lambda: list(client.list_tasks(type=[asked], state=["submitted"])))
        client.approve_task(question["id"], version=question["version"])
        ended(client, task, "failed")
    [item] = client.task_items(task["id"])
    assert "asked something else" in str(item["error"])


def test_each_item_asks_for_itself(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    """The keys of children are those of the task: two items with equal questions need two answers."""
    asked = kind + ".approval"
    client.put_type(asked, {**_ask.approval_type(asked), "approval": {"mode": "manual", "not_by_requester": False}})

    async def work(ctx: pawl.AsyncContext) -> Any:
        return (await _ask.ask_person(ctx, asked, "may I?", {"amount": 7})).approved

    task = client.create_task(kind, items=[{"input": 1}, {"input": 2}])
    with Running(shared, {kind: work}):
        questions = until(
            lambda: two if len(two := list(client.list_tasks(type=[asked], state=["submitted"]))) > 1 else None
        )
        for question in questions:
            client.approve_task(question["id"], version=question["version"])
        ended(client, task)


def test_a_fork_has_the_answers_of_before(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    """What was answered before the fork is decided in it for the same question. What was not is asked anew."""
    asked = kind + ".approval"
    client.put_type(asked, {**_ask.approval_type(asked), "approval": {"mode": "manual", "not_by_requester": False}})
    amounts = [7]

    async def work(ctx: pawl.AsyncContext) -> Any:
        await ctx.step("first", lambda: 1)
        decision = await _ask.ask_person(ctx, asked, "may I?", {"amount": amounts[-1]})
        return [decision.approved, decision.reason]

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        [question] = until(lambda: list(client.list_tasks(type=[asked], state=["submitted"])))
        client.reject_task(question["id"], version=question["version"], errors=[{"code": "no", "message": "too much"}])
        ended(client, task)
        after = client.fork_task(task["id"], 2)
        ended(client, after)
        assert client.task_result(after["id"])["payload"] == [False, "too much"]
        assert len(list(client.list_tasks(type=[asked]))) == 1

        before = client.fork_task(task["id"], 1)
        [question] = until(lambda: list(client.list_tasks(type=[asked], state=["submitted"])))
        client.approve_task(question["id"], version=question["version"])
        ended(client, before)
        assert client.task_result(before["id"])["payload"] == [True, ""]

        amounts.append(9000)
        other = client.fork_task(task["id"], 2)
        ended(client, other, "failed")
    [item] = client.task_items(other["id"])
    assert "this task is a fork of" in str(item["error"]) and "/amount" in str(item["error"])
    assert len(list(client.list_tasks(type=[asked]))) == 2
