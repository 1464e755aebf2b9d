"""Durable runs of Pydantic AI, with scripted models."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="Pydantic AI needs Python 3.11")

from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, FunctionToolset, ModelRetry, RunContext
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

import pawl
import pawl.testing
from pawl.pydantic_ai import APPROVAL_TYPE, Decision, PawlDurability, approval_type, run
from tests.conftest import Kept, Running, ended, until


class Script:
    """A model that answers with its next line."""

    def __init__(self, *lines: list[Any]) -> None:
        self.lines, self.calls = list(lines), 0

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.calls += 1
        return ModelResponse(parts=self.lines.pop(0))

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        self.calls += 1
        for n, part in enumerate(self.lines.pop(0)):
            if isinstance(part, TextPart):
                for word in part.content.split(" "):
                    yield word + " "
            else:
                yield {n: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self.answer, stream_function=self.stream)


def calls(*called: tuple[str, dict[str, Any]]) -> list[Any]:
    return [ToolCallPart(name, args, tool_call_id=f"{name}-{n}") for n, (name, args) in enumerate(called)]


class Sum(BaseModel):
    total: int


@pytest.mark.parametrize("streamed", [False, True])
def test_no_call_is_made_twice(shared: pawl.testing.Server, client: pawl.Client, kind: str, streamed: bool) -> None:
    """The first attempt fails after the run: the second gets all of it from the saved steps."""
    script = Script(calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})), [TextPart("It is ten.")])
    ran: list[str] = []
    events: list[str] = []

    async def told(ctx: RunContext[Any], stream: Any) -> None:
        async for event in stream:
            events.append(type(event).__name__)

    durability: PawlDurability[Any] = PawlDurability(event_stream_handler=told if streamed else None)
    agent = Agent(script.model, name="adder", capabilities=[durability])

    @agent.tool_plain
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0.2 if a == 1 else 0)  # the later call ends first
        ran.append(f"add {a} {b}")
        return a + b

    seen: list[Any] = []

    async def work(ctx: pawl.AsyncContext) -> Any:
        result = await run(ctx, agent, "1 + 2 + 3 + 4?")
        seen.append((result.run_id, len(result.all_messages()), result.usage.requests))
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0, "once more")
        returns = [p.content for m in result.all_messages() for p in m.parts if p.part_kind == "tool-return"]
        return [result.output, returns]

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == ["It is ten." + (" " if streamed else ""), [3, 7]]
    assert sorted(ran) == ["add 1 2", "add 3 4"] and script.calls == 2
    assert seen[0] == seen[1]
    assert not streamed or {"PartDeltaEvent", "FunctionToolResultEvent"} <= set(events)
    if streamed:
        assert events.count("FunctionToolResultEvent") == 2  # told once, too


@pytest.mark.parametrize("own", [False, True])
def test_an_agent_in_a_tool_is_part_of_its_step(
    shared: pawl.testing.Server, client: pawl.Client, kind: str, own: bool
) -> None:
    """The first attempt fails between two calls of one agent: each call has its own answer."""
    asked = [[ToolCallPart("ask", {"about": about}, tool_call_id=about)] for about in ("cats", "dogs")]
    boss = Agent(Script(*asked, [TextPart("The end.")]).model, name="boss", capabilities=[PawlDurability()])

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(f"about {messages[0].parts[-1].content}")])  # type: ignore[union-attr]

    expert = Agent(FunctionModel(answer), name="expert", capabilities=[PawlDurability()])

    @boss.tool_plain
    async def ask(about: str) -> str:
        if about == "dogs" and len(attempts) == 1:
            raise pawl.RetryAfter(0, "once more")
        result = await (run(attempts[-1], expert, about, name=about) if own else expert.run(about))
        return str(result.output)

    attempts: list[pawl.AsyncContext] = []

    async def work(ctx: pawl.AsyncContext) -> Any:
        attempts.append(ctx)
        result = await run(ctx, boss, "go")
        return [p.content for m in result.all_messages() for p in m.parts if p.part_kind == "tool-return"]

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == ["about cats", "about dogs"] and len(attempts) == 2
    requests = {c["name"] for c in client.task_checkpoints(task["id"]) if "expert__model" in c.get("name", "")}
    assert requests == ({f"{about} expert__model.request 1" for about in ("cats", "dogs")} if own else set())


def test_its_own_spans_are_below_the_attempts(
    shared: pawl.testing.Server, client: pawl.Client, kind: str, kept: Kept
) -> None:
    script = Script(calls(("add", {"a": 1, "b": 2})), [TextPart("It is three.")])
    agent = Agent(script.model, name="adder", capabilities=[PawlDurability(), Instrumentation()])

    @agent.tool_plain
    async def add(a: int, b: int) -> int:
        return a + b

    async def work(ctx: pawl.AsyncContext) -> Any:
        result = await run(ctx, agent, "1 + 2?")
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0, "once more")
        return result.output

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    until(lambda: len(kept.named(f"process {kind}")) == 2)
    steps = [s.name.partition("__")[2] for s in kept.get_finished_spans() if s.name.startswith("step ")]
    # The second attempt asks nothing again; Pydantic AI draws its own spans around what was saved, too.
    assert steps == ["model.request 1", "function_toolset__<agent>.call_tool:add add-0 1", "model.request 2"]
    assert len(kept.named("execute_tool add")) == 2
    runs = {s.parent.span_id for s in kept.named("invoke_agent adder") if s.parent}
    assert runs == {s.context.span_id for s in kept.named(f"process {kind}") if s.context}


def test_typed_output_retries_and_toolsets(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    script = Script(
        calls(("divide", {"by": 0})), calls(("divide", {"by": 2})), calls(("final_result", {"total": "x"})),
        calls(("final_result", {"total": 21})),
    )  # fmt: skip
    tools: FunctionToolset[Any] = FunctionToolset(id="math")
    ran: list[int] = []

    @tools.tool_plain
    def divide(by: int) -> int:
        ran.append(by)
        if by == 0:
            raise ModelRetry("not by 0")
        return 42 // by

    agent = Agent(
        script.model, name="typed", output_type=Sum, toolsets=[tools], capabilities=[PawlDurability()], retries=2
    )

    async def work(ctx: pawl.AsyncContext) -> Any:
        result = await run(ctx, agent, "42 / 2?")
        if ctx.attempt == 1:
            raise pawl.RetryAfter(0, "once more")
        return [type(result.output).__name__, result.output.total]

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == ["Sum", 21]
    assert ran == [0, 2] and script.calls == 4


@pytest.mark.parametrize("approved", [True, False])
def test_a_person_approves_a_call(shared: pawl.testing.Server, client: pawl.Client, kind: str, approved: bool) -> None:
    client.put_type(APPROVAL_TYPE, {**approval_type(), "approval": {"mode": "manual", "not_by_requester": False}})
    script = Script(calls(("pay", {"amount": 7})), [TextPart("Done." if approved else "Not done.")])
    agent = Agent(script.model, name="payer", output_type=[str, DeferredToolRequests], capabilities=[PawlDurability()])
    ran: list[int] = []

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    async def work(ctx: pawl.AsyncContext) -> Any:
        result = await run(ctx, agent, "pay 7")
        returns = [p.content for m in result.all_messages() for p in m.parts if p.part_kind == "tool-return"]
        return [result.output, returns, ctx.attempt]

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        asked = until(
            lambda: [
                t for t in client.list_tasks(type=[APPROVAL_TYPE], state=["submitted"]) if t["parent_id"] == task["id"]
            ]
        )
        assert asked[0]["payload"] == {"tool": "pay", "arguments": {"amount": 7}} and ran == []
        if approved:
            client.approve_task(asked[0]["id"], version=asked[0]["version"])
        else:
            errors: list[Any] = [{"code": "no", "message": "too much"}]
            client.reject_task(asked[0]["id"], version=asked[0]["version"], errors=errors)
        ended(client, task)
        fork = client.fork_task(task["id"], max(c["sequence"] for c in client.task_checkpoints(task["id"])))
        ended(client, fork)  # nothing is called or asked again
        assert client.task_result(fork["id"])["payload"][0] == client.task_result(task["id"])["payload"][0]
    output, returns, attempt = client.task_result(task["id"])["payload"]
    assert (attempt, script.calls, ran) == (2, 2, [7] if approved else [])
    assert output == ("Done." if approved else "Not done.")
    assert returns == ["paid"] if approved else "too much" in returns[0]


def test_rework_asks_the_model_anew(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    client.put_type(kind, {"acceptance": True, "approval": {"mode": "manual"}})
    script = Script([TextPart("one")], [TextPart("two")])
    agent = Agent(script.model, name="writer", capabilities=[PawlDurability()])

    async def work(ctx: pawl.AsyncContext) -> Any:
        return (await run(ctx, agent, f"write {ctx.lease.get('reasons')}")).output

    task = client.create_task(kind)
    for n, said in enumerate(("one", "two")):
        if n > 0:
            client.reject_task(task["id"], errors=[{"code": "thin", "message": "thin"}], allow_rework=True)
        with Running(shared, {kind: work}):
            until(lambda: client.get_task(task["id"])["state"] == "submitted")
        [item] = client.task_items(task["id"])
        assert (item["result"], script.calls) == (said, n + 1)


def test_another_way_to_decide(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    script = Script(calls(("pay", {"amount": 7})), [TextPart("Done.")])
    agent = Agent(script.model, name="payer", output_type=[str, DeferredToolRequests], capabilities=[PawlDurability()])

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int) -> str:
        return "paid"

    async def ask(ctx: pawl.AsyncContext, name: str, call: ToolCallPart) -> Decision:
        return Decision(await ctx.wait_for(name, "decide", kind))

    async def work(ctx: pawl.AsyncContext) -> Any:
        return (await run(ctx, agent, "pay 7", ask=ask)).output

    task = client.create_task(kind)
    client.send_signal("decide", True, key=kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == "Done."


def test_a_call_whose_id_comes_again_is_asked_about_again(
    shared: pawl.testing.Server, client: pawl.Client, kind: str
) -> None:
    turns = [[ToolCallPart("pay", {"amount": n}, tool_call_id="c1")] for n in (7, 9)]
    script = Script(*turns, [TextPart("Done.")])
    agent = Agent(script.model, name="payer", output_type=[str, DeferredToolRequests], capabilities=[PawlDurability()])
    paid: list[int] = []

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    async def ask(ctx: pawl.AsyncContext, name: str, call: ToolCallPart) -> Decision:
        return Decision(await ctx.step(name, lambda: call.args_as_dict()["amount"] < 8))

    async def work(ctx: pawl.AsyncContext) -> Any:
        return (await run(ctx, agent, "pay", ask=ask)).output

    task = client.create_task(kind)
    with Running(shared, {kind: work}):
        ended(client, task)
    assert client.task_result(task["id"])["payload"] == "Done." and paid == [7]
    names = {c["name"] for c in client.task_checkpoints(task["id"]) if "name" in c}
    assert {"run approval c1", "run approval c1#2"} <= names


def test_an_agent_without_the_capability_is_refused_and_other_runs_are_as_before() -> None:
    async def check() -> None:
        with pytest.raises(ValueError, match="PawlDurability"):
            await run(None, Agent(Script([TextPart("x")]).model, name="a"), "x")  # type: ignore[arg-type]
        script = Script([TextPart("free")])
        agent = Agent(script.model, name="a", capabilities=[PawlDurability()])
        assert (await agent.run("x")).output == "free"

    asyncio.run(check())


WORKER = """
import os, sys, time, pathlib, pawl
from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pawl.pydantic_ai import PawlDurability, run

url, kind, folder = sys.argv[1:]
worker = pawl.Worker(url, lease_seconds=1)

def called(what: str) -> None:
    with open(folder + "/called", "a") as f:
        f.write(what + "\\n")

async def answer(messages, info):
    called("model")
    returns = [p for m in messages for p in m.parts if p.part_kind == "tool-return"]
    steps = [ToolCallPart("look", {"at": "it"}, tool_call_id="c1"), ToolCallPart("wait", {}, tool_call_id="c2")]
    return ModelResponse(parts=[steps[len(returns)] if len(returns) < 2 else TextPart("The end.")])

agent = Agent(FunctionModel(answer), name="a", capabilities=[PawlDurability()])

@agent.tool_plain
def look(at: str) -> str:
    called("look " + at)
    return "seen"

@agent.tool_plain
def wait() -> str:
    if not os.path.exists(folder + "/go"):
        pathlib.Path(folder, "held").touch()
        time.sleep(60)
    called("wait")
    return "waited"

@worker.handler(kind)
async def work(ctx: pawl.AsyncContext) -> str:
    return (await run(ctx, agent, "go")).output

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
    assert (tmp_path / "called").read_text().split() == ["model", "look", "it", "model", "wait", "model"]
