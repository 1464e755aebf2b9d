"""Agents that pay. First each dies in a process of its own, at its point; then one worker goes on with all."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, TypedDict

import httpx
from agents import Agent as OpenAIAgent
from agents import function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from langgraph.graph import END, START, StateGraph
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import pawl
import pawl.openai_agents
import pawl.pydantic_ai
from pawl.langgraph import PawlSaver

set_tracing_disabled(True)

#: Where this process dies; None = it does not.
point: str | None = None


def at(where: str) -> None:
    if where == point:
        os._exit(1)


async def pay(ctx: pawl.AsyncContext, job: dict[str, Any]) -> str:
    """Pays what the job says, and may die of it."""
    headers = {"X-Pid": str(os.getpid()), "X-Point": point or ""}
    path = "/charge" if job["resolution"] == "repetition" else "/mail"
    at("before the row")
    async with httpx.AsyncClient(timeout=60) as http:
        if job["way"] == "gate":
            headers["Authorization"] = f"Bearer {ctx.lease['token']}"
            answer = await http.post(job["url"] + "/gate/bank" + path, json=job["order"], headers=headers)
            answer.raise_for_status()
            out: str = answer.json()
        else:

            async def send(key: str) -> str:
                at("after the row")
                headers["Idempotency-Key"] = key
                answer = await http.post(job["bank"] + path, json=job["order"], headers=headers)
                at("after the answer")
                said: str = answer.json()
                return said

            async def ask(key: str) -> pawl.Probed:
                known = (await http.get(f"{job['bank']}/mail/{key}")).status_code == 200
                return pawl.Probed(known, "paid" if known else None)

            out = await ctx.effect(
                "pay",
                send,
                request=job["order"],
                repeatable=job["resolution"] == "repetition",
                probe=ask if job["resolution"] == "probe" else None,
            )
    at("after the record")
    return out


async def langgraph(ctx: pawl.AsyncContext, job: dict[str, Any]) -> str:
    class State(TypedDict, total=False):
        out: str

    async def node(state: State) -> State:
        return {"out": await pay(ctx, job)}

    graph = StateGraph(State)
    graph.add_node("pay", node)
    graph.add_edge(START, "pay")
    graph.add_edge("pay", END)
    async with PawlSaver(job["url"], namespace=job["type"]) as saver:
        config: Any = {"configurable": {"thread_id": job["type"]}}
        begun = await saver.aget_tuple(config)
        out = await graph.compile(checkpointer=saver).ainvoke(None if begun else {"out": ""}, config)
    said: str = out["out"]
    return said


async def pydantic_ai(ctx: pawl.AsyncContext, job: dict[str, Any]) -> str:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if any(p.part_kind == "tool-return" for m in messages for p in m.parts):
            return ModelResponse(parts=[TextPart("paid")])
        return ModelResponse(parts=[ToolCallPart("pay_order", {}, tool_call_id="p1")])

    agent = Agent(FunctionModel(answer), name="payer", capabilities=[pawl.pydantic_ai.PawlDurability()])

    @agent.tool_plain
    async def pay_order() -> str:
        return await pay(ctx, job)

    return str((await pawl.pydantic_ai.run(ctx, agent, "pay")).output)


async def openai_agents(ctx: pawl.AsyncContext, job: dict[str, Any]) -> str:
    @function_tool(failure_error_function=None)
    async def pay_order() -> str:
        """Pays."""
        return await pay(ctx, job)

    script: list[Any] = [[function_call("pay_order", {}, call_id="p1")], [assistant_message("paid")]]
    answered = "run model 1" in (await ctx.resume())["steps"]  # an attempt may end before it saves an answer
    model = ScriptedModel(script[answered:])
    result = await pawl.openai_agents.run(ctx, OpenAIAgent(name="payer", model=model, tools=[pay_order]), "pay")
    return str(result.final_output)


FRAMEWORKS = {"langgraph": langgraph, "pydantic_ai": pydantic_ai, "openai_agents": openai_agents}


async def work(ctx: pawl.AsyncContext) -> str:
    job: dict[str, Any] = ctx.input
    return await FRAMEWORKS[job["framework"]](ctx, job)


def main(url: str, runs: Path) -> None:
    global point
    jobs = json.loads(runs.read_text())
    dying: dict[int, str] = {}

    def reap() -> None:
        pid, status = os.wait()
        if status != 0:
            with runs.with_suffix(".died").open("a") as f:
                f.write(dying[pid] + "\n")

    for n, job in enumerate(jobs):
        if n >= 6:
            reap()
        pid = os.fork()
        if pid == 0:
            signal.alarm(600)  # where it does not come to its point
            point = job["point"]
            worker = pawl.Worker(url, lease_seconds=5)
            worker.add(job["type"], work)
            worker.run()
            os._exit(0)
        dying[pid] = job["type"]
    for _ in range(min(6, len(jobs))):
        reap()
    worker = pawl.Worker(url, lease_seconds=5, concurrency=6)
    for job in jobs:
        worker.add(job["type"], work)
    worker.run()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
