"""What the README shows runs, and the package can be built and installed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pawl
import pawl.testing

from .conftest import Running, ended, until

FOLDER = Path(__file__).resolve().parents[1]
MIGRATING = FOLDER.parents[1] / "docs/migrating.md"
EFFECTS = FOLDER.parents[1] / "docs/effects.md"


def snippets(path: Path) -> list[str]:
    """The Python of a document."""
    return re.findall(r"(?ms)^```python\n(.*?)^```$", path.read_text())


SNIPPETS = snippets(FOLDER / "README.md")


def test_the_readme_runs(shared: pawl.testing.Server, client: pawl.Client, tmp_path: Path) -> None:
    assert len(SNIPPETS) == 14
    for n, text in enumerate(SNIPPETS):
        if "pydantic_ai" in text and importlib.util.find_spec("pydantic_ai") is None:
            continue  # on Python 3.10, for which it has no version
        text = text.replace("http://127.0.0.1:7033", shared.url)
        text = text.replace(
            "worker.run()  # until",
            "worker.options = dataclasses.replace(worker.options, drain=True)\nworker.run()  # until",
        )
        text = text.replace("timeout=30", "timeout=0.1")
        path = tmp_path / f"snippet_{n}.py"
        path.write_text(text)
        subprocess.run([sys.executable, path], check=True, timeout=60)
    later, mail = client.list_tasks(type="mail.send").all()  # the newest first
    assert later["state"] == "queued"  # no worker was there when it was waited for
    assert client.task_result(mail["id"])["payload"] == {"to": "ana@example.com", "text": "Hello!"}


def test_the_page_about_migrating_runs(own: pawl.testing.Server, tmp_path: Path) -> None:
    texts = snippets(MIGRATING)
    assert len(texts) == 8
    client = own.client()
    order = client.create_task("order", 20)
    chat = client.create_task("agent.chat", "Why?", reply={})
    for n, text in enumerate(texts):
        path = tmp_path / f"migrating_{n}.py"
        path.write_text(text.replace("http://127.0.0.1:7033", own.url))
        subprocess.run([sys.executable, path], check=True, timeout=60)
        subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", path], check=True, timeout=120)
    until(lambda: client.get_task(order["id"])["state"] == "completed" or run_again(tmp_path / "migrating_1.py"))
    assert client.task_result(order["id"])["payload"] == "charged 20, shipped"
    [message] = client.list_messages(task_id=chat["id"])
    assert message["content"] == [{"type": "text", "text": "You ask: Why?"}]


def test_the_page_about_effects_runs(shared: pawl.testing.Server, client: pawl.Client, kind: str) -> None:
    [text] = snippets(EFFECTS)
    keys: list[str] = []

    def pay(order: dict[str, int], key: str) -> dict[str, int]:
        keys.append(key)
        if len(keys) == 1:
            raise OSError("the connection was cut")
        return {"charge": order["eur"]}

    names: dict[str, Any] = {"pawl": pawl, "pay": pay}
    exec(text, names)
    client.put_type(kind, {"backoff": {"base_seconds": 1, "max_seconds": 1}})
    task = client.create_task(kind, {"eur": 5})

    def charge(ctx: pawl.Context) -> Any:
        return names["charge"](ctx, ctx.input)

    with Running(shared, {kind: charge}):
        ended(client, task, "completed")
    assert client.task_result(task["id"])["payload"] == {"charge": 5}
    assert len(keys) == 2 and keys[0] == keys[1]  # the service recognises it, so it may be repeated


def run_again(path: Path) -> bool:
    """Runs a snippet again: its worker ended while an item slept."""
    subprocess.run([sys.executable, path], check=True, timeout=60)
    return False


def test_the_wheel_is_built_and_installed(tmp_path: Path) -> None:
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        tmp_path,
        FOLDER,
    ]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    [wheel] = tmp_path.glob("pawl_work-*.whl")
    venv.create(tmp_path / "env", with_pip=True, system_site_packages=False)
    python = tmp_path / "env/bin/python"
    install: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
    subprocess.run(install, check=True, timeout=300)
    code = "import pawl, importlib.resources as r; print(pawl.__version__, (r.files('pawl') / 'py.typed').is_file())"
    out = subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert out.stdout == f"{pawl.__version__} True\n"
