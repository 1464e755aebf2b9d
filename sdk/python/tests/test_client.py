"""The client: calls, refusals, pages and batches."""

from __future__ import annotations

import pytest

import pawl


def test_create_claim_complete(client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, {"url": "https://example.com/a.pdf"}, title="a page")
    assert (task["type"], task["state"], task["items"]) == (kind, "queued", 1)
    [lease] = client.claim("w1", types=[kind])
    assert lease["input"] == {"url": "https://example.com/a.pdf"}
    assert client.heartbeat(lease)["cancelled"] is False
    item = client.complete(lease, {"words": 10391})
    assert item["state"] == "completed"
    assert client.task_result(task["id"])["payload"] == {"words": 10391}


def test_a_refusal_is_an_exception(client: pawl.Client, kind: str) -> None:
    with pytest.raises(pawl.NotFoundError) as e:
        client.get_task("tsk_01M7YH871CX3G0E5ZQMGF8KJ47")
    assert (e.value.code, e.value.status, e.value.retryable) == ("not_found", 404, False)
    with pytest.raises(pawl.InvalidError) as invalid:
        client.create_task("")
    assert invalid.value.fields[0]["pointer"] == "/type"
    client.create_task(kind)
    [lease] = client.claim("w1", types=[kind])
    with pytest.raises(pawl.LeaseLostError) as lost:
        client.complete({"id": lease["id"], "worker_id": "w9", "attempt": 1}, None)
    assert lost.value.reason == "taken"
