"""A worker that Pawl calls: a plain HTTP handler. It answers with the result, or with 202 and
reports the result later, under the token of the lease."""

import base64
import hashlib
import hmac
import json
import os
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ.get("PUSH_SECRET", "").removeprefix("whsec_"))
if not KEY:
    raise SystemExit("PUSH_SECRET is the secret of the type, whsec_…")
PAWL = os.environ.get("PAWL_SERVER", "http://127.0.0.1:7033")


def signed(headers, body: bytes) -> bool:
    """Whether the request is signed with the secret, by Standard Webhooks, and is not old."""
    at = headers["webhook-timestamp"]
    text = f"{headers['webhook-id']}.{at}.".encode() + body
    want = base64.b64encode(hmac.new(KEY, text, hashlib.sha256).digest()).decode()
    given = headers["webhook-signature"].split()
    return abs(time.time() - int(at)) < 300 and any(hmac.compare_digest(g, "v1," + want) for g in given)


def later(item: dict, token: str, result: object) -> None:
    body = {"worker_id": item["worker_id"], "attempt": item["attempt"], "result": result}
    headers = {"Authorization": token, "Content-Type": "application/json"}
    url = f"{PAWL}/v1/items/{item['id']}:complete"
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")).close()


class Function(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not signed(self.headers, body):
            return self.answer(401)
        item = json.loads(body)
        result = {"text": " ".join(item["input"]["words"]), "by": "python"}
        if item["input"].get("slow"):
            self.answer(202)
            threading.Thread(target=later, args=(item, self.headers["Authorization"], result)).start()
        else:
            self.answer(200, json.dumps(result).encode())

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Function)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
