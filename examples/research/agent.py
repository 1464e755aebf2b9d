"""A research agent: a graph of LangGraph, whose report a person approves. See README.md.

python agent.py [URL]
"""

import functools
import os
import sys
import time
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

import pawl
from pawl.langgraph import PawlSaver

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7033"
REPORT = {
    "name": "research.report",
    "acceptance": True,
    "approval": {"mode": "manual"},
    "result_schema": {"type": "object", "required": ["title", "text", "sources"]},
}


class State(TypedDict):
    question: str
    topics: list[str]
    notes: Annotated[list[str], add]  # the notes of parallel readers are joined
    reasons: list[str]  # why a person has sent the report back
    report: dict[str, Any]


def model(prompt: str) -> str:
    """Asks a model: the one that MODEL names, such as openai:gpt-5, or else a script."""
    if name := os.environ.get("MODEL"):
        from langchain.chat_models import init_chat_model

        return str(init_chat_model(name).invoke(prompt).text)
    words = prompt.split("\n")
    if words[0] == "topics":
        return "\n".join(f"{aspect} of {words[1]}" for aspect in ("history", "cost", "risk"))
    if words[0] == "note":
        return f"What is known about the {words[1]}."
    return "\n".join(words[1:])


def plan(state: State) -> dict[str, Any]:
    return {"topics": model(f"topics\n{state['question']}").split("\n")}


def readers(state: State) -> list[Send]:
    return [Send("read", {"topic": topic}) for topic in state["topics"]]


def read(state: dict[str, str]) -> dict[str, Any]:
    """Reads about one topic. It is saved when it is done, and not read again after a crash."""
    if folder := os.environ.get("READ_LOG"):
        with (Path(folder) / "read").open("a") as log:
            log.write(state["topic"] + "\n")
        hold = Path(folder) / "hold"
        while hold.exists() and state["topic"].startswith("risk"):
            time.sleep(0.05)  # the test kills the agent here
    return {"notes": [model(f"note\n{state['topic']}")]}


def write(state: State) -> dict[str, Any]:
    text = model("\n".join(["report", *sorted(state["notes"]), *state.get("reasons", [])]))
    return {"report": {"title": state["question"], "text": text, "sources": state["topics"]}}


def graph(saver: PawlSaver) -> Any:
    builder = StateGraph(State)
    builder.add_node("plan", plan)
    builder.add_node("read", read)
    builder.add_node("write", write)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", readers, ["read"])
    builder.add_edge("read", "write")
    builder.add_edge("write", END)
    return builder.compile(checkpointer=saver)


worker = pawl.Worker(URL, lease_seconds=30 if "READ_LOG" not in os.environ else 1)
saver = PawlSaver(URL)
research = graph(saver)


@worker.handler("research.report")
def report(ctx: pawl.Context) -> dict[str, Any]:
    """Does the research of a task, or goes on with it. The result waits for a person."""
    config = {"configurable": {"thread_id": ctx.task_id}}
    go = functools.partial(research.invoke, config=config, durability="sync")  # a step is saved before the next begins
    before = research.get_state(config)
    if reasons := [r["message"] for r in ctx.lease.get("reasons") or []]:  # it was sent back: the notes are good
        research.update_state(config, {"reasons": reasons}, as_node="read")
        state = go(None)
    elif "report" in before.values:  # a worker died before it handed in the report
        state = before.values
    elif before.created_at:  # a worker died in the middle
        state = go(None)
    else:
        state = go({"question": ctx.input["question"]})
    return dict(state["report"])


if __name__ == "__main__":
    with pawl.Client(URL) as client:
        client.put_type("research.report", REPORT)  # type: ignore[arg-type]
    worker.run()
    saver.close()
