"""Agents of three frameworks that die while they pay: through the gate, and with ctx.effect."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="Pydantic AI needs Python 3.11")

import pawl
import pawl.testing
from tests.conftest import DATABASES, database, until

POINTS = ["before the row", "after the row", "after sending", "after the answer", "after the record"]
FRAMEWORKS = ["langgraph", "pydantic_ai", "openai_agents"]
RESOLUTIONS = ["probe", "repetition", "person"]


class Bank(ThreadingHTTPServer):
    """Counts payments by order. At /charge it recognises keys, and it kills its caller where that says so."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Till)
        self.paid: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        """A caller that is gone."""


class Till(BaseHTTPRequestHandler):
    server: Bank

    def do_GET(self) -> None:
        known = self.path.removeprefix("/mail/") in self.server.keys
        self.reply(200 if known else 404)

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        point, key = self.headers["X-Point"], self.headers["Idempotency-Key"]
        if point == "after the row":
            self.kill()
        with self.server.lock:
            if self.path != "/charge" or key not in self.server.keys:
                self.server.paid[order] += 1
            self.server.keys.add(key)
        if point in ("after sending", "after the answer"):
            self.kill()
        self.reply(200)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(self.headers["X-Pid"]), signal.SIGKILL)

    def reply(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b'"paid"')

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


WORKER = Path(__file__).with_name("paying_agent.py")


@pytest.fixture
def bank() -> Iterator[Bank]:
    with Bank() as bank:
        threading.Thread(target=bank.serve_forever, daemon=True).start()
        yield bank
        bank.shutdown()


def decide(client: pawl.Client, bank: Bank, orders: dict[str, str]) -> None:
    """The person: who looks at what was paid."""
    for effect in client.list_effects(state=["unknown"]):
        if orders.get(effect["task_id"], "").endswith("person"):
            outcome = "happened" if bank.paid[orders[effect["task_id"]]] else "did_not_happen"
            with contextlib.suppress(pawl.ConflictError):  # a late report has decided
                client.resolve_effect(effect["id"], outcome, answer="paid" if outcome == "happened" else None)


# PAWL_CRASHES says how often each framework dies at each point, in each way; without it each does once.
@pytest.mark.parametrize("which", DATABASES)
def test_agents_that_die_pay_once(bank: Bank, tmp_path: Path, kind: str, which: str) -> None:
    times = int(os.environ.get("PAWL_CRASHES", "1"))
    upstream = {"key_header": "Idempotency-Key", "effects": ["POST /charge", "POST /mail"], "url": bank.url}
    config = tmp_path / "pawl.yaml"
    config.write_text(json.dumps({"gate": {"upstreams": {"bank": upstream}}}))
    runs = [
        {"framework": f, "way": w, "point": p, "resolution": RESOLUTIONS[(n + i) % 3], "order": f"{f} {w} {p} {n}"}
        for n in range(times)
        for i, (f, w, p) in enumerate(itertools.product(FRAMEWORKS, ["gate", "effect"], POINTS))
    ]
    with pawl.testing.serve(db=database(which), args=["--config", str(config)]) as server:
        client = server.client()
        orders, tasks = {}, []
        for n, run in enumerate(runs):
            run |= {"type": f"{kind}.{n}", "order": f"{run['order']} {run['resolution']}"}
            task = client.create_task(run["type"], {"url": server.url, "bank": bank.url, **run}, max_attempts=9)
            tasks.append(task)
            orders[task["id"]] = run["order"]
        (tmp_path / "runs").write_text(json.dumps(runs))
        agents = subprocess.Popen([sys.executable, str(WORKER), server.url, str(tmp_path / "runs")])
        try:

            def done() -> bool:
                assert agents.poll() is None, "the agents have ended"
                decide(client, bank, orders)
                return all(client.get_task(t["id"])["state"] == "completed" for t in tasks)

            until(done, 60.0 + 20.0 * len(runs))
        finally:
            agents.kill()
            agents.wait()
        died = (tmp_path / "runs.died").read_text().splitlines()
        assert sorted(died) == sorted(r["type"] for r in runs)  # each has died once
        unknown = 0
        for run, task in zip(runs, tasks, strict=True):
            assert bank.paid[run["order"]] == 1, run
            assert [f["state"] for f in client.list_effects(task=task["id"])] == ["done"], run
            undecidable = run["way"] == "effect" and run["point"] in POINTS[1:4]
            was = "effect_unknown" in [e["event"] for e in client.list_events(task=task["id"])]
            assert was == undecidable, run
            unknown += was
        print(
            f"{len(runs)} agents died: {len(runs)} payments = effects done; {unknown} were unknown, all that cannot be told"
        )
