"""Effects that happen once for a key."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import Any

import pytest

import pawl
import pawl._async.once
import pawl._sync.once
import pawl.testing

from .conftest import until
from .proxy import Proxy


@dataclasses.dataclass
class Receipt:
    id: str
    amount: int


def test_it_runs_once_for_a_request(client: pawl.Client, kind: str) -> None:
    ran: list[int] = []

    def charge(amount: int) -> Receipt:
        ran.append(amount)
        return Receipt("r1", amount)

    got = [client.once(kind, {"order": 17}, charge, 700) for _ in range(3)]
    assert got == [Receipt("r1", 700)] * 3 and ran == [700]
    with pytest.raises(pawl.KeyReusedError):
        client.once(kind, {"order": 18}, charge, 700)
    assert ran == [700]


def test_async_and_plain_clients_share_keys(client: pawl.Client, kind: str) -> None:
    async def main() -> Any:
        async with pawl.AsyncClient(client._call.connection.url) as other:

            async def make() -> dict[str, int]:
                return {"n": 1}

            return await other.once(kind, [1, None, "é"], make)

    assert asyncio.run(main()) == {"n": 1}
    assert client.once(kind, [1, None, "é"], lambda: {"n": 2}) == {"n": 1}


def test_what_failed_runs_again(client: pawl.Client, kind: str) -> None:
    def fail() -> None:
        raise RuntimeError("the card was declined")

    with pytest.raises(RuntimeError, match="declined"):
        client.once(kind, 1, fail)
    with pytest.raises(TypeError, match="the result"):
        client.once(kind, 1, lambda: object())
    key = client.get_key(kind, scope="once")
    assert (
        key["status"] == "failed" and isinstance(key["response"], dict) and "the result" in key["response"]["message"]
    )
    nothing: Any = client.once(kind, 1, lambda: None)
    assert nothing is None
    assert client.once(kind, 1, lambda: "again") is None


def test_a_key_is_renewed_while_it_runs(client: pawl.Client, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pawl._sync.once, pawl._async.once):
        monkeypatch.setattr(module, "RENEWALS", 600)  # each 0.1 s
    begun, over = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert over.wait(30)
        return "done"

    got: list[str] = []
    running = threading.Thread(target=lambda: got.append(client.once(kind, 1, slow)))
    running.start()
    assert begun.wait(30)
    with pytest.raises(pawl.KeyInFlightError):
        client.once(kind, 1, slow)
    first = client.get_key(kind, scope="once")["locked_until"]
    until(lambda: client.get_key(kind, scope="once")["locked_until"] != first)
    over.set()
    running.join(30)
    assert got == ["done"]


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("broken", ["before the call", "after the call"])
def test_a_result_is_kept_although_the_connection_breaks(
    shared: pawl.testing.Server, client: pawl.Client, kind: str, is_async: bool, broken: str
) -> None:
    ran: list[int] = []
    with Proxy(shared.port) as proxy:

        def charge() -> int:
            ran.append(1)
            if broken == "after the call":
                proxy.drop_answers(1, b'"completed"')
            else:
                proxy.cut()
                threading.Timer(2, proxy.mend).start()
            return len(ran)

        async def main() -> Any:
            async with pawl.AsyncClient(proxy.url) as other:
                return await other.once(kind, 1, charge)

        got = asyncio.run(main()) if is_async else pawl.Client(proxy.url).once(kind, 1, charge)
        assert proxy.dropped == (1 if broken == "after the call" else 0)
    assert got == 1 and client.once(kind, 1, charge) == 1 and ran == [1]
