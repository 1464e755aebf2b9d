"""The client has every call of the server, and what is generated is fresh."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pawl
from pawl._generated.routes import ROUTES

FOLDER = Path(__file__).resolve().parents[1]

# Calls that are not for programs of ours: browsers of the AI SDK, clients of Durable Streams, other services' webhooks,
# the older shape, a page.
LEFT_OUT = {
    "chat",
    "resume_chat",
    "create_stream",
    "append_stream",
    "read_stream",
    "delete_stream",
    "receive_webhook",
    "plain_create_task",
    "plain_task",
    "plain_task_events",
    "plain_task_cancel",
    "plain_task_retry",
    "reference",
}


@pytest.mark.parametrize("folder", ["_async", "_sync"])
def test_every_call_is_made_somewhere(folder: str) -> None:
    text = "".join(p.read_text() for p in (FOLDER / "src/pawl" / folder).glob("*.py"))
    made = set(re.findall(r'"([a-z_]+)"', text))
    assert {name for name in ROUTES if name not in made} == LEFT_OUT


def test_both_clients_have_the_same_documented_methods() -> None:
    plain = {n: f for n, f in inspect.getmembers(pawl.Client, inspect.isfunction) if not n.startswith("_")}
    other = {n: f for n, f in inspect.getmembers(pawl.AsyncClient, inspect.isfunction) if not n.startswith("_")}
    assert set(plain) - {"close"} == set(other) - {"aclose"}
    assert [n for n, f in {**plain, **other}.items() if not f.__doc__] == []
    for name in set(plain) & set(other):
        assert list(inspect.signature(plain[name]).parameters) == list(inspect.signature(other[name]).parameters)


def test_public_names_are_documented() -> None:
    assert [n for n in pawl.__all__ if not n.startswith("__") and not (getattr(pawl, n).__doc__ or "")] == []


@pytest.mark.parametrize("tool", ["generate", "unasync"])
def test_generated_files_are_fresh(tool: str) -> None:
    subprocess.run([sys.executable, FOLDER / f"tools/{tool}.py", "--check"], check=True)


def test_python_m_pawl_runs_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    said = subprocess.run([sys.executable, "-m", "pawl", "version"], check=True, capture_output=True, text=True).stdout
    assert said.startswith("pawl ")
    monkeypatch.setenv("PAWL_BINARY", "/nowhere/pawl")
    failed = subprocess.run([sys.executable, "-m", "pawl", "version"], capture_output=True, text=True)
    assert failed.returncode == 127 and "PAWL_BINARY" in failed.stderr
