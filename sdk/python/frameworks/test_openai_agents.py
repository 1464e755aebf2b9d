"""Durable runs and sessions of the OpenAI Agents SDK, with scripted models."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    ModelRetrySettings,
    ModelSettings,
    RunConfig,
    RunContextWrapper,
    Runner,
    Tool,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from agents.items import TResponseInputItem
from agents.models.interface import Model, ModelProvider
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.usage import Usage

import pawl
import pawl.testing
from pawl.openai_agents import APPROVAL_TYPE, Decision, PawlSession, approval_type, run
from tests.conftest import Kept, Running, ended, until

set_tracing_disabled(True)

Item = TResponseInputItem


def said(text: str) -> Item:
    return {"role": "user", "content": text}


def test_a_session_keeps_its_items_in_order(shared: pawl.testing.Server) -> None:
    async def check() -> None:
        id = f"s-{uuid.uuid4().hex}" + "x" * 300
        session, other = PawlSession(id, shared.url), PawlSession(id + "y", shared.url)
        assert (await session.get_items(), await session.pop_item()) == ([], None)
        await session.clear_session()
        await session.add_items([])
        await session.add_items([said("one"), said("two")])
        await session.add_items([said("three"), {"role": "assistant", "content": "\u0001 \U0001f9ab"}])
        await other.add_items([said("of another")])
        assert [i.get("content") for i in await session.get_items()] == ["one", "two", "three", "\u0001 \U0001f9ab"]
        assert [i.get("content") for i in await session.get_items(2)] == ["three", "\u0001 \U0001f9ab"]
        assert await session.get_items(0) == []
        assert await session.pop_item() == {"role": "assistant", "content": "\u0001 \U0001f9ab"}
        assert await session.pop_item() == said("three")
        await session.add_items([said("four")], key="k")
        await session.add_items([said("four")], key="k")
        assert [i.get("content") for i in await PawlSession(id, shared.url).get_items()] == ["one", "two", "four"]
        await session.clear_session()
        assert (await session.get_items(), await session.pop_item()) == ([], None)
        await session.add_items([said("again")])
        assert await session.get_items() == [said("again")]
        assert await other.get_items() == [said("of another")]
        await session.aclose()
        await other.aclose()

    asyncio.run(check())


def test_concurrent_calls_lose_no_item_and_return_none_twice(shared: pawl.testing.Server) -> None:
    async def check() -> None:
        id = uuid.uuid4().hex
        sessions = [PawlSession(id, shared.url) for _ in range(4)]
        await asyncio.gather(*(s.add_items([said(f"{n} {k}") for k in range(5)]) for n, s in enumerate(sessions)))
        assert len(await sessions[0].get_items()) == 20
        popped = await asyncio.gather(*(s.pop_item() for s in sessions for _ in range(3)))
        texts = [str(i.get("content")) for i in popped if i is not None]
        left = [str(i.get("content")) for i in await sessions[0].get_items()]
        assert (
            len(texts) == 12
            and len(set(texts)) == 12
            and sorted([*texts, *left]) == sorted(f"{n} {k}" for n in range(4) for k in range(5))
        )
        for s in sessions:
            await s.aclose()

    asyncio.run(check())


def test_a_conversation_of_the_sdk_goes_on(shared: pawl.testing.Server) -> None:
    async def check() -> None:
        id = uuid.uuid4().hex
        for n, (question, answer) in enumerate([("Who?", "Ana"), ("And when?", "Monday")]):
            session = PawlSession(id, shared.url)
            model = ScriptedModel([[assistant_message(answer)]])
            result = await Runner.run(Agent(name="a", model=model), question, session=session)
            assert result.final_output == answer
            assert len(await session.get_items()) == 2 * n + 2
            await session.aclose()

    asyncio.run(check())


@function_tool
def add(a: int, b: int) -> int:
    """Adds."""
    ran.append(f"add {a} {b}")
    return a + b


ran: list[str] = []


def script() -> list[Any]:
    return [[function_call("add", {"a": 1, "b": 2}, call_id="c1")], [assistant_message("It is three.")]]


@pytest.mark.parametrize("streamed", [False, True])
def test_no_call_is_made_twice(shared: pawl.testing.Server, client: pawl.Client, kind: str, streamed: bool) -> None:
    """The first attempt fails after the run: the second gets all of it from the saved steps."""
    ran.clear()
    model = ScriptedModel(script())
    events: list[list[str]] = []

    async def work(ctx: pawl.AsyncContext) -> Any:
        seen: list[str] = []
        events.append(seen)

        async def told(event: Any) -> None:
            seen.append(event.data.type if event.type == "raw_response_event" else event.type)

        result = await run(
            ctx, Agent(name="adder", model=model, tools=[add]), "1 + 2?", on_event=told if streamed else None
        )
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0, "once more")
        return [result.final_output, len(result.raw_responses), result.context_wrapper.usage.requests]

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == ["It is three.", 2, 2]
    assert ran == ["add 1 2"] and len(model.calls) == 2
    names = {c.get("name") for c in client.task_checkpoints(task["id"])}
    assert {"run model 1", "run tool c1", "run model 2"} <= names
    if streamed:
        first, second = events
        assert "response.output_text.delta" in first and first.count("response.completed") == 2
        assert "response.output_text.delta" not in second and second.count("response.completed") == 2
        assert first.count("run_item_stream_event") == second.count("run_item_stream_event") == 3


@pytest.mark.parametrize("streamed", [False, True])
def test_a_model_that_is_asked_again_keeps_the_names_of_its_turns(
    shared: pawl.testing.Server, client: pawl.Client, kind: str, streamed: bool
) -> None:
    """A second attempt asks no model again of which a try of the first one failed."""
    ran.clear()
    model = ScriptedModel([RuntimeError("busy"), *script()])
    settings = ModelSettings(retry=ModelRetrySettings(max_retries=2, policy=lambda _: True))

    async def told(event: Any) -> None:
        pass

    async def work(ctx: pawl.AsyncContext) -> Any:
        agent = Agent(name="adder", model=model, model_settings=settings, tools=[add])
        result = await run(ctx, agent, "1 + 2?", on_event=told if streamed else None)
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0, "once more")
        return result.final_output

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == "It is three."
    assert ran == ["add 1 2"] and len(model.calls) == 3
    names = [c["name"] for c in client.task_checkpoints(task["id"]) if "name" in c]
    assert names == ["run model 1", "run tool c1", "run model 2"]


class Broken(ScriptedModel):
    """Its first stream breaks off."""

    broken = False

    async def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        if self.broken:
            async for event in super().stream_response(*args, **kwargs):
                yield event
        self.broken = True


def test_a_stream_that_breaks_off_is_no_turn(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    client.put_type(kind, {"backoff": {"base_seconds": 1, "max_seconds": 1}})
    model = Broken([[assistant_message("It is three.")]])

    async def told(event: Any) -> None:
        pass

    async def work(ctx: pawl.AsyncContext) -> Any:
        return (await run(ctx, Agent(name="adder", model=model), "1 + 2?", on_event=told)).final_output

    task = client.create_task(kind, max_attempts=3)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == "It is three."


@pytest.mark.parametrize("streamed", [False, True])
def test_models_and_tools_are_spans(
    shared: pawl.testing.Server, client: pawl.Client, kind: str, kept: Kept, streamed: bool
) -> None:
    model = ScriptedModel(script(), default_usage=Usage(requests=1, input_tokens=11, output_tokens=5, total_tokens=16))

    async def told(_: Any) -> None:
        return

    async def work(ctx: pawl.AsyncContext) -> Any:
        agent = Agent(name="adder", model=model, tools=[add])
        result = await run(ctx, agent, "1 + 2?", on_event=told if streamed else None)
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0, "once more")
        return result.final_output

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    chats = kept.named("chat ScriptedModel")
    assert [(c.attributes or {})["gen_ai.usage.output_tokens"] for c in chats] == [5, 5]
    steps = {s.context.span_id: s.name for s in kept.get_finished_spans() if s.context and s.name.startswith("step ")}
    assert [steps[c.parent.span_id] for c in chats if c.parent] == ["step run model 1", "step run model 2"]
    [called] = kept.named("execute_tool add")
    assert called.parent and steps[called.parent.span_id] == "step run tool c1"
    assert (called.attributes or {})["gen_ai.tool.call.id"] == "c1"


def test_models_of_the_provider_handoffs_and_sessions_are_steps(
    shared: pawl.testing.Server, client: pawl.Client, kind: str
) -> None:
    triage_model = ScriptedModel([[function_call("transfer_to_expert", {}, call_id="h1")]])
    model = ScriptedModel([[assistant_message("forty-two")]])
    expert = Agent(name="expert", model=model)
    triage = Agent(name="triage", model=triage_model, handoffs=[expert])
    expert.handoffs = [triage]  # they know each other
    id = uuid.uuid4().hex

    async def work(ctx: pawl.AsyncContext) -> Any:
        session = PawlSession(id, client=ctx.client)
        result = await run(ctx, triage, "the answer?", session=session, run_config=RunConfig(tracing_disabled=True))
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0, "once more")
        return [result.last_agent.name, result.final_output, len(await session.get_items())]

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    name, output, kept = client.task_result(task["id"])["payload"]
    assert (name, output, len(triage_model.calls), len(model.calls)) == ("expert", "forty-two", 1, 1)

    async def items() -> int:
        session = PawlSession(id, shared.url)
        try:
            return len(await session.get_items())
        finally:
            await session.aclose()

    assert asyncio.run(items()) == kept == 4  # the question, the handoff and its output, the answer


class Named(ModelProvider):
    """Has its models by their names."""

    def __init__(self, models: dict[str, Model]) -> None:
        self.models = models

    def get_model(self, model_name: str | None) -> Model:
        return self.models[model_name or ""]


class Slow(ScriptedModel):
    """The others begin before it answers."""

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0.05)
        return await super().get_response(*args, **kwargs)


@pytest.mark.parametrize("asked", [["alice", "bob"], ["alice"]])
def test_an_agent_that_is_a_tool_is_one_step(
    shared: pawl.testing.Server, client: pawl.Client, kind: str, asked: list[str]
) -> None:
    """Its turns are no turns of the run, whose models it takes: no agent gets the answer of another."""
    turns = [function_call(name, {"input": "hi"}, call_id=name) for name in asked]
    boss = ScriptedModel([turns, RuntimeError("away"), [assistant_message("The end.")]])
    experts = {name: Slow([[assistant_message(f"I am {name}")]]) for name in asked}
    config = RunConfig(model_provider=Named({"boss": boss, **experts}))

    async def work(ctx: pawl.AsyncContext) -> Any:
        tools: list[Tool] = [Agent(name=name, model=name).as_tool(name, "Asks.") for name in asked]
        try:
            result = await run(ctx, Agent(name="boss", model="boss", tools=tools), "go", run_config=config)
        except RuntimeError:
            raise pawl.RetryAfter(0, "once more") from None
        return [result.final_output, [i.output for i in result.new_items if i.type == "tool_call_output_item"]]

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == ["The end.", [f"I am {name}" for name in asked]]
    names = {c["name"] for c in client.task_checkpoints(task["id"]) if "name" in c}
    assert names == {"run model 1", "run model 2", *(f"run tool {name}" for name in asked)}


def test_tools_behind_a_handoff_are_steps(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    ran.clear()
    to_adder = [function_call("transfer_to_adder", {}, call_id="h1")]
    model = ScriptedModel(script())
    adder = Agent(name="adder", model=model, tools=[add])
    triage = Agent(name="triage", model=ScriptedModel([to_adder]), handoffs=[handoff(adder)])

    async def work(ctx: pawl.AsyncContext) -> Any:
        result = await run(ctx, triage, "1 + 2?")
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0, "once more")
        return [result.last_agent.name, result.final_output]

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == ["adder", "It is three."]
    assert ran == ["add 1 2"] and len(model.calls) == 2


def test_a_long_session_is_read_once(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    """Its items have more than the 1 MiB of a step's result. A later attempt sees those of the first one."""
    id = uuid.uuid4().hex
    seen: list[int] = []

    class Seeing(ScriptedModel):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            seen.append(len(kwargs["input"] if "input" in kwargs else args[1]))
            if len(seen) == 1:
                raise RuntimeError("away")
            return await super().get_response(*args, **kwargs)

    model = Seeing([[assistant_message("The end.")]])

    async def work(ctx: pawl.AsyncContext) -> Any:
        session = PawlSession(id, client=ctx.client)
        if ctx.attempt == 1:
            await session.add_items([said(str(n) * 100_000) for n in range(9)] + [said("9" * 400_000)])
        try:
            return (await run(ctx, Agent(name="a", model=model), "go", session=session)).final_output
        except RuntimeError:
            await session.add_items([said("of another")])
            raise pawl.RetryAfter(0, "once more") from None

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == "The end."
    assert seen == [11, 11]


@pytest.mark.parametrize("approved", [True, False])
def test_a_person_approves_a_call(shared: pawl.testing.Server, client: pawl.Client, kind: str, approved: bool) -> None:
    client.put_type(APPROVAL_TYPE, {**approval_type(), "approval": {"mode": "manual", "not_by_requester": False}})
    ran.clear()

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pays."""
        ran.append(f"pay {amount}")
        return "paid"

    model = ScriptedModel(
        [[function_call("pay", {"amount": 7}, call_id="p1")], [assistant_message("Done." if approved else "Not done.")]]
    )

    async def work(ctx: pawl.AsyncContext) -> Any:
        result = await run(ctx, Agent(name="payer", model=model, tools=[pay]), "pay 7", name="payment")
        outputs = [i.output for i in result.new_items if i.type == "tool_call_output_item"]
        return [result.final_output, outputs, ctx.attempt]

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        asked = until(
            lambda: [
                t for t in client.list_tasks(type=[APPROVAL_TYPE], state=["submitted"]) if t["parent_id"] == task["id"]
            ]
        )
        assert asked[0]["payload"] == {"agent": "payer", "tool": "pay", "arguments": '{"amount":7}'} and ran == []
        ended(client, task, "queued")  # it holds no lease
        if approved:
            client.approve_task(asked[0]["id"], version=asked[0]["version"])
        else:
            client.reject_task(
                asked[0]["id"], version=asked[0]["version"], errors=[{"code": "no", "message": "too much"}]
            )
        ended(client, task)
        fork = client.fork_task(task["id"], max(c["sequence"] for c in client.task_checkpoints(task["id"])))
        ended(client, fork)  # nothing is called or asked again
        assert client.task_result(fork["id"])["payload"][0] == client.task_result(task["id"])["payload"][0]
    output, outputs, attempt = client.task_result(task["id"])["payload"]
    assert attempt == 2 and len(model.calls) == 2
    if approved:
        assert (output, outputs, ran) == ("Done.", ["paid"], ["pay 7"])
    else:
        assert output == "Not done." and "too much" in outputs[0] and ran == []


def test_rework_asks_the_model_anew(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    client.put_type(kind, {"acceptance": True, "approval": {"mode": "manual"}})
    agent = Agent(name="writer", model=ScriptedModel([[assistant_message("one")], [assistant_message("two")]]))

    async def work(ctx: pawl.AsyncContext) -> Any:
        return (await run(ctx, agent, f"write {ctx.lease.get('reasons')}")).final_output

    task = client.create_task(kind)
    for n, text in enumerate(("one", "two")):
        if n > 0:
            client.reject_task(task["id"], errors=[{"code": "thin", "message": "thin"}], allow_rework=True)
        with Running(shared, {kind: work}):
            until(lambda: client.get_task(task["id"])["state"] == "submitted")
        [item] = client.task_items(task["id"])
        assert item["result"] == text


def test_another_way_to_decide(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pays."""
        return "paid"

    async def ask(ctx: pawl.AsyncContext, name: str, item: Any) -> Decision:
        return Decision(await ctx.wait_for(name, "decide", item.call_id))

    async def work(ctx: pawl.AsyncContext) -> Any:
        model = ScriptedModel(
            [[function_call("pay", {"amount": 7}, call_id=kind)]]
            if ctx.attempt == 1
            else [[assistant_message("Done.")]]
        )
        return (await run(ctx, Agent(name="payer", model=model, tools=[pay]), "pay 7", ask=ask)).final_output

    task = client.create_task(kind)
    client.send_signal("decide", True, key=kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == "Done."


@pytest.mark.parametrize("way", ["person", "at once"])
@pytest.mark.parametrize("approved", [True, False])
def test_an_agent_that_is_a_tool_waits_for_approvals(
    shared: pawl.testing.Server, client: pawl.Client, kind: str, approved: bool, way: str
) -> None:
    """Its second wait, and what it says in the end, come as from an agent that was never interrupted."""
    client.put_type(APPROVAL_TYPE, {**approval_type(), "approval": {"mode": "manual", "not_by_requester": False}})
    ran.clear()

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pays."""
        ran.append(f"pay {amount}")
        return "paid"

    pays = [[function_call("pay", {"amount": n}, call_id=f"p{n}")] for n in (7, 8)]
    clerk = Agent(name="clerk", model=ScriptedModel([*pays, [assistant_message("I am done.")]]), tools=[pay])
    boss = ScriptedModel([[function_call("clerk", {"input": "pay"}, call_id="c1")], [assistant_message("The end.")]])
    id = uuid.uuid4().hex

    async def ask(ctx: pawl.AsyncContext, name: str, item: Any) -> Decision:
        return Decision(approved)

    async def work(ctx: pawl.AsyncContext) -> Any:
        agent = Agent(name="boss", model=boss, tools=[clerk.as_tool("clerk", "Asks.")])
        session = PawlSession(id, client=ctx.client)
        result = await run(ctx, agent, "go", session=session, ask=ask if way == "at once" else None)
        outputs = [i.output for i in result.new_items if i.type == "tool_call_output_item"]
        return [result.final_output, outputs, len(await session.get_items())]

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        for _ in range(2 if way == "person" else 0):
            [asked] = until(
                lambda: [
                    t
                    for t in client.list_tasks(type=[APPROVAL_TYPE], state=["submitted"])
                    if t["parent_id"] == task["id"]
                ]
            )
            assert asked["payload"]["agent"] == "clerk"
            if approved:
                client.approve_task(asked["id"], version=asked["version"])
            else:
                client.reject_task(asked["id"], version=asked["version"], errors=[{"code": "no", "message": "no"}])
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == ["The end.", ["I am done."], 4]
    assert ran == (["pay 7", "pay 8"] if approved else [])


def test_a_call_whose_id_comes_again_is_asked_about_again(
    shared: pawl.testing.Server, client: pawl.Client, kind: str
) -> None:
    """Models number their calls in each run: the agent that is a tool and the one that uses it give the same ids."""
    paid: list[int] = []

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        return "paid"

    def turns(amount: int, last: str) -> list[Any]:
        return [[function_call("pay", {"amount": amount}, call_id="call_0")], [assistant_message(last)]]

    clerk = Agent(name="clerk", model=ScriptedModel(turns(7, "I am done.")), tools=[pay])
    to_clerk = [function_call("clerk", {"input": "pay"}, call_id="c1")]
    boss = ScriptedModel([to_clerk, *turns(9000, "The end.")])

    async def ask(ctx: pawl.AsyncContext, name: str, item: Any) -> Decision:
        return Decision(await ctx.step(name, lambda: item.agent.name == "clerk"))

    async def work(ctx: pawl.AsyncContext) -> Any:
        agent = Agent(name="boss", model=boss, tools=[clerk.as_tool("clerk", "Asks."), pay])
        return (await run(ctx, agent, "go", ask=ask)).final_output

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == "The end." and paid == [7]
    names = {c["name"] for c in client.task_checkpoints(task["id"]) if "name" in c}
    assert {"run approval call_0", "run approval call_0#2"} <= names


@pytest.mark.parametrize("form", ["mapping", "dataclass", "none"])
def test_the_context_of_the_caller_is_not_saved(
    shared: pawl.testing.Server, client: pawl.Client, kind: str, form: str
) -> None:
    """An agent that is a tool of one that is a tool waits. Its tools get the context of the attempt that calls them."""
    seen: list[Any] = []

    @dataclasses.dataclass
    class Login:
        token: str

    @function_tool(needs_approval=True)
    def pay(context: RunContextWrapper[Any], amount: int) -> str:
        """Pays."""
        seen.append(context.context)
        return "paid"

    def uses(name: str) -> ScriptedModel:
        call = function_call(name, {"amount": 7} if name == "pay" else {"input": "pay"}, call_id=name)
        return ScriptedModel([[call], [assistant_message("The end.")]])

    models = {name: uses(name) for name in ("pay", "cashier", "clerk")}
    contexts: list[Any] = []

    async def ask(ctx: pawl.AsyncContext, name: str, item: Any) -> Decision:
        return Decision(await ctx.wait_for(name, "decide", kind))

    async def work(ctx: pawl.AsyncContext) -> Any:
        of: dict[str, Any] = {
            "mapping": {"token": "s3cr3t", "db": object()},
            "dataclass": Login("s3cr3t"),
            "none": None,
        }
        contexts.append(of[form])
        cashier = Agent(name="cashier", model=models["pay"], tools=[pay]).as_tool("cashier", "Pays.")
        clerk = Agent(name="clerk", model=models["cashier"], tools=[cashier]).as_tool("clerk", "Asks.")
        result = await run(
            ctx, Agent(name="boss", model=models["clerk"], tools=[clerk]), "go", ask=ask, context=contexts[-1]
        )
        return result.final_output

    task = client.create_task(kind, max_attempts=1)
    with Running(shared, {kind: work}):
        until(lambda: any(c.get("name") == "run approval pay" for c in client.task_checkpoints(task["id"])))
        client.send_signal("decide", True, key=kind)
        ended(client, task)
    assert "s3cr3t" not in json.dumps(list(client.task_checkpoints(task["id"])))
    assert len(contexts) == 2 and len(seen) == 1 and seen[0] is contexts[1]


UNKNOWN = """
import asyncio, sys
import agents
from agents.testing import ScriptedModel, assistant_message, function_call
function = sys.argv[1] == "a function"
if function:
    del sys.modules["agents.agent_tool_state"].record_agent_tool_resume_state
else:
    del agents.FunctionTool._is_agent_tool
import pawl
from pawl.openai_agents import run

class Context:
    item_id, rework = "i", 0
    async def step(self, name, call):
        return await call()

agents.set_tracing_disabled(True)

@agents.function_tool(needs_approval=not function)  # without the function the SDK itself waits for none
def pay() -> str:
    "Pays."
    print("paid")
    return "paid"

async def ask(ctx, name, item):
    return pawl.openai_agents.Decision(True)

def agent(name, called, tools):
    call = function_call(called, {} if called == "pay" else {"input": "pay"}, call_id="c1")
    return agents.Agent(name=name, model=ScriptedModel([[call], [assistant_message("The end.")]]), tools=tools)

print(asyncio.run(run(Context(), agent("plain", "pay", [pay]), "go", ask=ask)).final_output)
boss = agent("boss", "clerk", [agent("clerk", "pay", [pay]).as_tool("clerk", "Asks.")])
try:
    asyncio.run(run(Context(), boss, "go", ask=ask))
except pawl.Permanent as e:
    print(e.code)
"""


@pytest.mark.parametrize("missing", ["a function", "an attribute"])
def test_a_version_without_the_undocumented_names_runs_agents_that_are_no_tools(missing: str) -> None:
    done = subprocess.run([sys.executable, "-c", UNKNOWN, missing], capture_output=True, text=True, timeout=120)
    assert (done.stdout.split("\n"), done.stderr) == (["paid", "The end.", "unsupported", ""], "")


WORKER = """
import os, sys, time, pathlib, pawl
from agents import Agent, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.usage import Usage
from pawl.openai_agents import run

set_tracing_disabled(True)
url, kind, folder = sys.argv[1:]
worker = pawl.Worker(url, lease_seconds=1)

def called(what: str) -> None:
    with open(folder + "/called", "a") as f:
        f.write(what + "\\n")

class Counted(ScriptedModel):
    async def get_response(self, *args, **kwargs):
        called("model")
        return await super().get_response(*args, **kwargs)

@function_tool
def look(at: str) -> str:
    "Looks."
    called("look " + at)
    return "seen"

@function_tool
def wait() -> str:
    "Waits."
    if not os.path.exists(folder + "/go"):
        pathlib.Path(folder, "held").touch()
        time.sleep(60)
    called("wait")
    return "waited"

@worker.handler(kind)
async def work(ctx: pawl.AsyncContext) -> str:
    script = [
        [function_call("look", {"at": "it"}, call_id="c1")],
        [function_call("wait", {}, call_id="c2")],
        [assistant_message("The end.")],
    ]
    model = Counted(script[2:] if os.path.exists(folder + "/go") else script)
    result = await run(ctx, Agent(name="a", model=model, tools=[look, wait]), "go")
    return result.final_output

worker.run()
"""


def test_an_agent_that_is_killed_in_a_tool(
    shared: pawl.testing.Server, client: pawl.Client, kind: str, tmp_path: Path
) -> None:
    task = client.create_task(kind)
    command = [sys.executable, "-c", textwrap.dedent(WORKER), shared.url, kind, str(tmp_path)]
    first = subprocess.Popen(command, env={**os.environ})
    try:
        until((tmp_path / "held").exists)
    finally:
        first.kill()
        first.wait()
    (tmp_path / "go").touch()
    second = subprocess.Popen(command, env={**os.environ})
    try:
        ended(client, task)
    finally:
        second.kill()
        second.wait()
    assert client.task_result(task["id"])["payload"] == "The end."
    calls = (tmp_path / "called").read_text().split("\n")[:-1]
    assert calls == ["model", "look it", "model", "wait", "model"]
