"""LangGraph's own suite for savers, each of its tests on each database, and what it does not test."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import random
import sqlite3
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypedDict

import httpx
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import spec
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

import pawl
import pawl.testing
from pawl.langgraph import PawlSaver, _deltas
from tests.test_docs import FOLDER, snippets

Test = Callable[[PawlSaver], Awaitable[None]]


def foreign() -> list[Any]:
    """All tests of the suite, by capability."""
    out = []
    for module in pkgutil.iter_modules(spec.__path__):
        for name, tests in vars(importlib.import_module(f"{spec.__name__}.{module.name}")).items():
            if name.startswith("ALL_"):
                out += [pytest.param(test, id=test.__name__) for test in tests]
    return out


@pytest.mark.parametrize("test", foreign())
def test_conformance(shared: pawl.testing.Server, test: Test) -> None:
    async def run() -> None:
        async with PawlSaver(shared.url, namespace=uuid.uuid4().hex) as saver:
            await test(saver)

    asyncio.run(run())


class Counting(httpx.HTTPTransport):
    """Counts requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        return super().handle_request(request)


def saved(saver: PawlSaver, thread: str, values: dict[str, Any], config: Any = None) -> Any:
    """Puts a checkpoint in which all channels are new."""
    before = saver.get_tuple(config) if config else None
    old = before.checkpoint["channel_versions"] if before else {}
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6(clock_seq=-1))
    checkpoint["channel_values"] = values
    versions: Any = {c: saver.get_next_version(old.get(c), None) for c in values}  # type: ignore[arg-type]
    checkpoint["channel_versions"] = versions
    config = config or {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    return saver.put(config, checkpoint, {"source": "loop", "step": 0, "parents": {}}, versions)


def test_a_put_and_a_read_of_the_newest_are_one_request_each(shared: pawl.testing.Server) -> None:
    transport = Counting()
    with httpx.Client(transport=transport) as http, PawlSaver(client=pawl.Client(shared.url, http=http)) as saver:
        thread = uuid.uuid4().hex
        config = saved(saver, thread, {"a": 1, "b": "two"})
        assert transport.requests == 1
        saver.put_writes(config, [("a", 2), ("b", "three")], "task")
        assert transport.requests == 2
        found = saver.get_tuple({"configurable": {"thread_id": thread}})
        assert transport.requests == 3
    assert found is not None
    assert found.checkpoint["channel_values"] == {"a": 1, "b": "two"}
    assert found.pending_writes == [("task", "a", 2), ("task", "b", "three")]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "ä雪🦫",
        "\0\1\x7f\x80",
        b"\0\xff" * 9,
        2**63 - 1,
        {"a": [None, 1.5, {"b": set()}]},
        "x" * 1_500_000,
        bytes(1_500_000),
    ],
    ids=["empty", "unicode", "control", "bytes", "big", "nested", "large", "large-bytes"],
)
def test_values_are_read_as_they_were_put(shared: pawl.testing.Server, value: Any) -> None:
    with PawlSaver(shared.url) as saver:
        config = saved(saver, f"thread/{uuid.uuid4().hex}, 100% *", {"a/b*,c%": value, "n" * 500: 1})
        found = saver.get_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"a/b*,c%": value, "n" * 500: 1}


def test_many_channels_are_read_in_more_requests(shared: pawl.testing.Server) -> None:
    values = {f"channel {n} {'x' * 60}": n for n in range(400)}
    with PawlSaver(shared.url) as saver:
        found = saver.get_tuple(saved(saver, uuid.uuid4().hex, values))
    assert found is not None
    assert found.checkpoint["channel_values"] == values


def test_storage_is_linear() -> None:
    """A thread whose messages grow by 4 KB in each of 200 turns, which are put whole each time."""
    thread, messages, config, unique = uuid.uuid4().hex, list[str](), None, 0
    with pawl.testing.serve() as server, PawlSaver(server.url) as saver:
        for _ in range(200):
            messages = [*messages, random.randbytes(2000).hex()]
            unique += len(messages[-1])
            config = saved(saver, thread, {"messages": messages}, config)
        found = saver.get_tuple({"configurable": {"thread_id": thread}})
        with sqlite3.connect(server.db.removeprefix("sqlite:")) as db:
            (blobs,) = db.execute("SELECT SUM(LENGTH(body)) FROM blobs").fetchone()
            (rest,) = db.execute(
                "SELECT SUM(COALESCE(LENGTH(snapshot), 0) + LENGTH(metadata) + LENGTH(name)) FROM checkpoints"
            ).fetchone()
    assert found is not None
    assert found.checkpoint["channel_values"]["messages"] == messages
    assert (blobs + rest) / unique <= 1.3


class State(TypedDict):
    said: Annotated[list[str], lambda old, new: old + new]


def graph(saver: PawlSaver, ran: list[str]) -> Any:
    def think(state: State) -> dict[str, list[str]]:
        ran.append("think")
        return {"said": ["a plan"]}

    def ask(state: State) -> dict[str, list[str]]:
        return {"said": [interrupt("may I?")]}

    builder = StateGraph(State)
    builder.add_node("think", think)
    builder.add_node("ask", ask)
    builder.add_edge(START, "think")
    builder.add_edge("think", "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


def chat_of(saver: PawlSaver, bytes_: int = 3000) -> Any:
    """A graph whose list grows by two entries in each turn."""
    builder = StateGraph(State)
    builder.add_node("say", lambda state: {"said": [random.randbytes(bytes_ // 2).hex()]})
    builder.add_edge(START, "say")
    builder.add_edge("say", END)
    return builder.compile(checkpointer=saver)


class Measuring(Counting):
    """Counts bytes that are sent, too."""

    sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += len(request.content)
        return super().handle_request(request)


def test_a_turn_sends_what_is_new(shared: pawl.testing.Server) -> None:
    transport, config = Measuring(), {"configurable": {"thread_id": uuid.uuid4().hex}}
    sent = []
    with httpx.Client(transport=transport) as http, PawlSaver(client=pawl.Client(shared.url, http=http)) as saver:
        for _ in range(60):
            before = transport.sent
            chat_of(saver).invoke({"said": [random.randbytes(1500).hex()]}, config)
            sent.append(transport.sent - before)
        requests = transport.requests
        assert max(sent[10:]) < 2 * max(sent[1:10]), sent
        state = chat_of(saver).get_state(config)
        assert transport.requests == requests + 1  # it has the value that it has sent
    with PawlSaver(shared.url) as other:  # it has to read all
        assert chat_of(other).get_state(config).values == state.values
        history = list(chat_of(other).get_state_history(config))
    assert [len(s.values.get("said", [])) for s in history[::3]] == list(range(120, 0, -2))
    assert all(s.values["said"] == state.values["said"][: len(s.values["said"])] for s in history if s.values)


def test_several_programs_write_a_thread(shared: pawl.testing.Server) -> None:
    config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
    with PawlSaver(shared.url) as one, PawlSaver(shared.url) as two:
        said: list[str] = []
        for n in range(12):
            saver = two if n % 3 else one
            out = chat_of(saver).invoke({"said": [f"turn {n} " * 200]}, config)
            assert out["said"][: len(said)] == said
            said = out["said"]
            if n == 6:
                two.prune([config["configurable"]["thread_id"]])
        assert chat_of(one).get_state(config).values["said"] == said
        two.delete_thread(config["configurable"]["thread_id"])
        for saver in (one, two):
            assert saver.get_tuple(config) is None
        out = chat_of(one).invoke({"said": ["anew " * 1000]}, config)
        assert chat_of(two).get_state(config).values == out and len(out["said"]) == 2


def test_a_pruned_thread_keeps_what_is_left_whole(shared: pawl.testing.Server) -> None:
    config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
    with PawlSaver(shared.url) as saver:
        for n in range(8):
            out = chat_of(saver).invoke({"said": [f"turn {n} " * 200]}, config)
        saver.prune([config["configurable"]["thread_id"]])
        copied: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
        saver.copy_thread(config["configurable"]["thread_id"], copied["configurable"]["thread_id"])
        for of in (config, copied):
            with PawlSaver(shared.url) as other:
                assert [s.values for s in chat_of(other).get_state_history(of)] == [out]
                more = chat_of(other).invoke({"said": ["more"]}, of)
            assert chat_of(saver).get_state(of).values == more and more["said"][:-2] == out["said"]


@pytest.mark.parametrize("seed", range(20))
def test_differences_make_the_new_value(seed: int) -> None:
    rnd = random.Random(seed)
    old = rnd.randbytes(rnd.choice([0, 5, 5000, 200_000]))
    segments, value = [(old, 0, len(old))], old
    for _ in range(30):
        at, to = sorted(rnd.randrange(len(value) + 1) for _ in range(2))
        new = rnd.choice(
            [
                value + rnd.randbytes(100),
                value[:at] + rnd.randbytes(rnd.randrange(20)) + value[at:],
                value[:at] + value[to:],
                b"\x01" + value[1:] + b"end",
                value[: at // 2] + b"xyz" + value[at // 2 + 3 :],
                value,
            ]
        )
        ops = _deltas.diff(value, new)
        segments = _deltas.compose(segments, ops)
        assert _deltas.joined(segments) == new
        value = new
    assert _deltas.inserted(_deltas.diff(b"\xdc\0\x10" + old, b"\xdc\0\x11" + old + b"new")) <= 3 + 16


def test_a_graph_goes_on_after_the_server_was_killed(own: pawl.testing.Server) -> None:
    config, ran = {"configurable": {"thread_id": "t"}}, list[str]()
    with PawlSaver(own.url) as saver:
        out = graph(saver, ran).invoke({"said": ["hello"]}, config)
        assert out["__interrupt__"][0].value == "may I?"
    own.kill()
    own.start()
    with PawlSaver(own.url) as saver:
        out = graph(saver, ran).invoke(Command(resume="yes"), config)
        assert out["said"] == ["hello", "a plan", "yes"]
        assert ran == ["think"]
        history = list(graph(saver, ran).get_state_history(config))
        assert len(history) >= 4
        saver.prune(["t"])
        assert [s.values for s in graph(saver, ran).get_state_history(config)] == [out]
        saver.delete_thread("t")
        assert saver.get_tuple(config) is None  # type: ignore[arg-type]


def test_rework_runs_the_graph_of_the_readme_anew(shared: pawl.testing.Server, client: pawl.Client) -> None:
    [text] = [s for s in snippets(FOLDER / "README.md") if "def tale(" in s]
    example: dict[str, Any] = {}
    exec(text.partition("\nwith pawl.Client(URL)")[0].replace("http://127.0.0.1:7033", shared.url), example)
    client.put_type("tale", {"acceptance": True, "approval": {"mode": "manual"}})
    task = client.create_task("tale", reply={})
    for n in (1, 2):
        example["worker"].run()
        told = [m for m in client.list_messages(task_id=task["id"]) if m["content"]]
        assert [m["content"][0]["text"] for m in told] == ["The beginning of a tale. The end of a tale. "] * n
        [item] = client.task_items(task["id"])
        assert (item["state"], item["result"]) == ("submitted", ["beginning", "end"])
        client.reject_task(task["id"], errors=[{"code": "thin", "message": "thin"}], allow_rework=n == 1)


def test_branches_of_a_thread_keep_their_own_values(shared: pawl.testing.Server) -> None:
    config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
    with PawlSaver(shared.url) as saver:
        builder = StateGraph(State)
        builder.add_node("say", lambda state: {"said": [f"to {state['said'][-1]}"]})
        builder.add_edge(START, "say")
        builder.add_edge("say", END)
        chat = builder.compile(checkpointer=saver)
        chat.invoke({"said": ["first"]}, config)
        base = chat.get_state(config).config
        for said in ("X", "Y"):
            out = chat.invoke({"said": [said]}, base)
            assert out["said"] == ["first", "to first", said, f"to {said}"]
            assert chat.get_state(config).values == out
        assert [s.values["said"][2:] for s in chat.get_state_history(config)][:6] == [
            *(["Y", "to Y"], ["Y"], []),
            *(["X", "to X"], ["X"], []),
        ]


def test_speed(shared: pawl.testing.Server) -> None:
    """Prints the times; a busy machine fails no test."""
    took, config = [], None
    with PawlSaver(shared.url) as saver:
        thread = uuid.uuid4().hex
        for n in range(200):
            checkpoint = empty_checkpoint()
            checkpoint["id"] = str(uuid6(clock_seq=-1))
            checkpoint["channel_values"] = {"n": n}
            checkpoint["channel_versions"] = {"n": n + 1}
            start = time.perf_counter()
            config = saver.put(
                config or {"configurable": {"thread_id": thread, "checkpoint_ns": ""}},
                checkpoint,
                {"source": "loop", "step": n, "parents": {}},
                {"n": n + 1},
            )
            took.append(time.perf_counter() - start)
    print(f"put p50 {statistics.median(took) * 1000:.2f} ms")
    assert len(took) == 200
