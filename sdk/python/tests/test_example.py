"""examples/research: an agent that is killed, whose report is sent back once and then approved."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pawl
import pawl.testing

from .conftest import ROOT, until

AGENT = ROOT / "examples/research/agent.py"


def start(server: pawl.testing.Server, folder: Path) -> subprocess.Popen[bytes]:
    env = {k: v for k, v in os.environ.items() if k != "MODEL"}
    return subprocess.Popen([sys.executable, AGENT, server.url], env={**env, "READ_LOG": str(folder)})


def test_the_research_agent(own: pawl.testing.Server, tmp_path: Path) -> None:
    client = own.client()
    (tmp_path / "hold").touch()
    first = start(own, tmp_path)
    try:
        until(lambda: [t for t in client.list_types() if t["name"] == "research.report"])
        task = client.create_task("research.report", {"question": "Steam engines?"})
        id = task["id"]
        saved: Any = {"task_type": "langgraph.thread", "task_key": id, "name_prefix": "w/"}
        until(lambda: (tmp_path / "read").exists() and (tmp_path / "read").read_text().count("\n") == 3)
        until(lambda: [c["snapshot"].get("channel") for c in client.list_checkpoints(**saved)].count("notes") == 2)
    finally:
        first.kill()
        first.wait()
    (tmp_path / "hold").unlink()
    second = start(own, tmp_path)
    try:
        task = until(lambda: (t := client.get_task(id)) and t["state"] == "submitted" and t)
        [item] = client.task_items(id)
        assert (
            item["result"]["title"] == "Steam engines?"
            and "known about the risk of Steam engines?" in item["result"]["text"]
        )
        read = (tmp_path / "read").read_text().split("\n")
        assert [read.count(f"{aspect} of Steam engines?") for aspect in ("history", "cost", "risk")] == [1, 1, 2]

        errors = [{"code": "thin", "message": "name the inventors"}]
        client.reject_task(id, version=task["version"], errors=errors, allow_rework=True)  # type: ignore[arg-type]
        task = until(
            lambda: (t := client.get_task(id)) and t["version"] > task["version"] and t["state"] == "submitted" and t
        )
        [item] = client.task_items(id)
        assert item["result"]["text"].endswith("name the inventors")
        assert (tmp_path / "read").read_text().count("\n") == 4  # nothing was read again
        client.approve_task(id, version=task["version"])
        assert client.task_result(id)["payload"]["sources"] == [
            f"{a} of Steam engines?" for a in ("history", "cost", "risk")
        ]
    finally:
        second.terminate()
        second.wait()


STORY = ROOT / "examples/story/story.py"


def test_the_story_is_told_once(own: pawl.testing.Server) -> None:
    env = {**os.environ, "PAUSE": "0.02", "LEASE": "1"}
    client = own.client()
    reader = subprocess.Popen([sys.executable, STORY, "ask", "a fox", own.url], stdout=subprocess.PIPE, text=True)
    tell: list[str | Path] = [sys.executable, STORY, "tell", own.url]
    first = subprocess.Popen(tell, env=env)
    try:
        message = until(lambda: client.list_messages(status="streaming").all())[0]
        until(lambda: "the middle of the story" in text_of(client, message["id"]))
    finally:
        first.kill()
        first.wait()
    second = subprocess.Popen(tell, env=env)
    try:
        until(lambda: client.get_message(message["id"])["status"] == "complete")
        [task] = client.list_tasks(type="story")
        chapter = "This is the {} of the story of a fox. " + "It goes on and on. " * 3
        want = "".join(chapter.format(n) for n in ("beginning", "middle", "end"))
        assert text_of(client, message["id"]) == want
        *_, content = client.follow_message(message["id"]).contents()
        assert content.text == want and content.status == "complete"
        until(lambda: client.get_task(task["id"])["state"] == "completed")
        assert client.task_result(task["id"])["payload"] == {"beginning": 25, "middle": 25, "end": 25}
        steps = client.list_checkpoints(task_id=task["id"], type="iteration_end").all()
        assert [(c["name"], c["attempt"], c["snapshot"]) for c in steps] == [
            ("beginning", 1, 25),
            ("middle", 2, 25),
            ("end", 2, 25),
        ]
        shown, _ = reader.communicate(timeout=30)
        assert shown.endswith(want + "\n") and "--- the teller was interrupted:" in shown
    finally:
        for process in (reader, second):
            process.terminate()
            process.wait()


def text_of(client: pawl.Client, id: str) -> str:
    """What a message says, without what was abandoned."""
    parts: Any = client.get_message(id)["content"]
    return "".join(p.get("text", "") for p in parts if p.get("status") != "abandoned")
