"""The package of Standard Webhooks accepts what a relay sends, and what a worker that is called gets."""

from __future__ import annotations

import http.server
import json
import queue
import threading
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

import pawl.testing

from .conftest import DATABASES, database

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("kind", DATABASES)
def test_the_signatures_are_valid(kind: str, tmp_path: Path) -> None:
    seen: queue.Queue[tuple[str, dict[str, str], bytes]] = queue.Queue()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.put((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{receiver.server_port}"
    config = tmp_path / "pawl.yaml"
    config.write_text(
        json.dumps(
            {
                "relay": {
                    "sinks": [f"hook={url}/relay#allow_private&events=completed"],
                    "secrets": [f"hook={SECRET}"],
                },
                "push": {"report": {"url": f"{url}/push", "secret": SECRET, "allow_private": True}},
            }
        )
    )
    try:
        with pawl.testing.serve(db=database(kind), args=["--config", str(config)]) as server:
            task = server.client().create_task("report", {"name": "é"})
            by_path: dict[str, Any] = {}
            while set(by_path) != {"/relay", "/push"}:
                path, headers, body = seen.get(timeout=30)
                by_path[path] = Webhook(SECRET).verify(body, headers)
                with pytest.raises(WebhookVerificationError):
                    Webhook(OTHER).verify(body, headers)
                with pytest.raises(WebhookVerificationError):
                    Webhook(SECRET).verify(body + b" ", headers)
            assert by_path["/push"]["task_id"] == task["id"]
            assert by_path["/push"]["input"] == {"name": "é"}
            assert task["id"] in json.dumps(by_path["/relay"])
    finally:
        receiver.shutdown()
        receiver.server_close()
