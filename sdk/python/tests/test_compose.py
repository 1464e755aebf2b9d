"""examples/compose: the worker does its work, and ends in peace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pawl
import pawl.testing

from .conftest import ROOT, ended

WORKER = ROOT / "examples/compose/worker.py"


def test_the_worker_of_compose(shared: pawl.testing.Server, client: pawl.Client) -> None:
    worker = subprocess.Popen([sys.executable, WORKER], env={**os.environ, "PAWL_SERVER": shared.url})
    try:
        task = client.create_task("greet", "Ana")
        ended(client, task)
        assert client.task_result(task["id"])["payload"] == "Hello, Ana!"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    finally:
        worker.kill()
        worker.wait()
