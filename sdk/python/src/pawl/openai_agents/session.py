"""PawlSession, the memory of a conversation."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from typing import Any, cast

from agents.items import TResponseInputItem
from agents.memory import SessionABC

from .. import types as t
from .._async.client import AsyncClient
from .._errors import ConflictError, NotFoundError

#: The type of the tasks that are sessions.
SESSION_TYPE = "openai-agents.session"

NEVER = "2200-01-01T00:00:00Z"  # when the item of a session may be claimed: the task holds no work
MAX_KEY = 255  # characters of a unique key
MAX_APPEND = 1000  # checkpoints of one append, and those that one call removes


class PawlSession(SessionABC):
    """Keeps the items of a conversation in Pawl, as checkpoints of a task of the type `openai-agents.session`.

    `add_items` is one transaction, and so is `pop_item`: no item is lost or returned twice, whatever
    number of processes use the session. url, key and namespace are those of the server; or bring a `client`.
    """

    def __init__(
        self,
        session_id: str,
        url: str = "http://127.0.0.1:7033",
        key: str = "",
        *,
        namespace: str = "",
        client: AsyncClient | None = None,
    ) -> None:
        self.session_id = session_id
        self._own = client is None
        self._client = client or AsyncClient(url, key, namespace=namespace)
        self._key = session_id
        if len(session_id) > MAX_KEY:
            self._key = "sha256-" + hashlib.sha256(session_id.encode()).hexdigest()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, oldest first; with `limit` the newest ones."""
        if limit is not None and limit <= 0:
            return []
        rows = await self._rows(limit)
        return [cast("TResponseInputItem", row["snapshot"]) for row in reversed(rows)]

    async def add_items(self, items: Sequence[TResponseInputItem], *, key: str | None = None) -> None:
        """Appends items. A later call with the same `key` adds nothing."""
        name = "item/" + (hashlib.sha256(key.encode()).hexdigest() if key is not None else uuid.uuid4().hex)
        rows: list[t.AppendedCheckpoint] = [
            {"type": "custom", "name": f"{name}/{n}/", "snapshot": item, "on_conflict": "keep"}
            for n, item in enumerate(items)
        ]
        for at in range(0, len(rows), MAX_APPEND):
            await self._append({"create": self._task(), "checkpoints": rows[at : at + MAX_APPEND]})

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the newest item, and returns it; None if there is none."""
        while True:
            newest = await self._newest()
            rows = await self._rows(1)
            if newest is None or not rows:
                return None
            try:
                await self._remove(rows[0]["name"], expected=newest)
            except ConflictError:
                continue  # another call has changed the session
            return cast("TResponseInputItem", rows[0]["snapshot"])

    async def clear_session(self) -> None:
        """Removes all items."""
        if await self._newest() is not None:
            while (await self._remove("item/")).get("pruned", 0) >= MAX_APPEND:
                pass

    async def aclose(self) -> None:
        """Closes the connections, if the session has made them itself."""
        if self._own:
            await self._client.aclose()

    def _task(self) -> t.NewTask:
        return {
            "type": SESSION_TYPE,
            "payload": {"session_id": self.session_id},
            "run_at": NEVER,
            "unique": {"by": "key", "key": self._key, "on_conflict": "return"},
        }

    async def _append(self, call: t.CheckpointAppend) -> t.CheckpointsAppended:
        [result] = await self._client.append_tasks([call])
        return result.get()

    async def _remove(self, prefix: str, expected: int | None = None) -> t.CheckpointsAppended:
        """Removes items by their names. The newest checkpoint of a task stays, so a mark takes its place."""
        mark: t.AppendedCheckpoint = {"type": "custom", "name": "pruned", "snapshot": None, "on_conflict": "replace"}
        call: t.CheckpointAppend = {
            "create": self._task(),
            "checkpoints": [mark],
            "prune": [{"prefix": prefix, "keep": 0}],
        }
        if expected is not None:
            call["expected"] = expected
        return await self._append(call)

    async def _rows(self, limit: int | None) -> list[Any]:
        """Items as the server has them, newest first. A session that does not exist has none."""
        pages = self._client.list_checkpoints(
            task_type=SESSION_TYPE,
            task_key=self._key,
            own=True,
            name_prefix="item/",
            order="desc",
            limit=min(limit or MAX_APPEND, MAX_APPEND),
        )
        rows: list[Any] = []
        try:
            async for row in pages:
                rows.append(row)
                if len(rows) == limit:
                    break
        except NotFoundError:
            pass
        return rows

    async def _newest(self) -> int | None:
        """The number of the newest checkpoint of the task; None = there is no task."""
        pages = self._client.list_checkpoints(
            task_type=SESSION_TYPE, task_key=self._key, own=True, order="desc", limit=1, brief=True
        )
        try:
            async for row in pages:
                return row["sequence"]
        except NotFoundError:
            pass
        return None
