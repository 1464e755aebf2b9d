"""The session store of the Claude Agent SDK: its suite, and what is Pawl's."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, cast

from claude_agent_sdk import SessionKey, SessionStoreEntry
from claude_agent_sdk.testing import run_session_store_conformance

import pawl
import pawl.testing
from pawl.claude_agent_sdk import PawlSessionStore


def entry(n: int, **more: Any) -> Any:
    return {"type": "user", "uuid": f"u-{n}", "n": n, **more}


def key() -> SessionKey:
    return {"project_key": "p", "session_id": uuid.uuid4().hex}


def test_the_contracts_of_the_sdk(shared: pawl.testing.Server) -> None:
    stores: list[PawlSessionStore] = []

    def fresh() -> PawlSessionStore:
        stores.append(PawlSessionStore(shared.url, namespace=f"n{uuid.uuid4().hex[:12]}"))
        return stores[-1]

    async def check() -> None:
        await run_session_store_conformance(fresh)
        for store in stores:
            await store.aclose()

    asyncio.run(check())


def test_processes_write_one_session(shared: pawl.testing.Server) -> None:
    """No entry is lost or stored twice, and the summary has what all of them wrote."""

    async def check() -> None:
        at, title = key(), cast(SessionStoreEntry, {"type": "title", "customTitle": "named"})
        stores = [PawlSessionStore(shared.url) for _ in range(3)]
        await asyncio.gather(*(s.append(at, [entry(4 * k + n) for n in range(6)]) for k, s in enumerate(stores)))
        await stores[0].append(at, [title])
        await stores[1].append(at, [entry(3)])
        loaded = await stores[2].load(at)
        assert loaded is not None and sorted(cast(int, e.get("n", -1)) for e in loaded) == [-1, *range(14)]
        [summary] = [s for s in await stores[2].list_session_summaries("p") if s["session_id"] == at["session_id"]]
        assert summary["data"]["custom_title"] == "named"
        for s in stores:
            await s.aclose()

    asyncio.run(check())


def test_entries_are_read_as_they_were_written(shared: pawl.testing.Server) -> None:
    async def check() -> None:
        at = key()
        store = PawlSessionStore(shared.url)
        entries = [
            entry(1, text="a\u0000b \ud83d"),
            entry(2, large=2**60, empty={}),
            *(entry(n) for n in range(3, 1200)),
        ]
        await store.append(at, entries)
        assert await store.load(at) == entries
        await store.aclose()

    asyncio.run(check())
