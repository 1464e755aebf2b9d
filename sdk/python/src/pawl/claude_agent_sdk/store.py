"""PawlSessionStore, which keeps the transcripts of sessions."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import uuid
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, cast

from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)

from .. import types as t
from .._async.client import AsyncClient
from .._errors import ConflictError, NotFoundError

#: The type of the tasks that are sessions.
SESSION_TYPE = "claude-agent-sdk.session"

NEVER = "2200-01-01T00:00:00Z"  # when the item of a session may be claimed: the task holds no work
MAX_APPEND = 500  # entries of one call, beside the rows that go with them
MAX_BYTES = 4 << 20  # of the entries of one call
SUMMARY = "summary/"  # what the names of summaries begin with, before the hash of the project
NOT_HELD = re.compile(r"\\u0000|\\ud[89a-f]", re.IGNORECASE)  # what the server's JSON cannot hold, in escaped text


class PawlSessionStore(SessionStore):
    """Keeps sessions in Pawl: each is a task of the type `claude-agent-sdk.session`, each entry a checkpoint of it.

    An entry with a `uuid` is stored once. The summary of a session is stored with its entries, in one
    transaction, so any number of processes may write one session. url, key and namespace are those of the
    server; or bring a `client`.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7033",
        key: str = "",
        *,
        namespace: str = "",
        client: AsyncClient | None = None,
    ) -> None:
        self._own = client is None
        self._client = client or AsyncClient(url, key, namespace=namespace)
        self._writing = asyncio.Lock()  # calls of a process are stored in their order

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Adds entries."""
        prefix = _prefix(key)
        rows: dict[str, tuple[SessionStoreEntry, t.AppendedCheckpoint]] = {}
        for entry in entries:
            name = prefix + (_hash(str(entry["uuid"])) if entry.get("uuid") else uuid.uuid4().hex)
            rows[name] = (entry, {"type": "custom", "name": name, "snapshot": _stored(entry), "on_conflict": "keep"})
        async with self._writing:
            part: list[tuple[SessionStoreEntry, t.AppendedCheckpoint]] = []
            size = 0
            for row in rows.values():
                more = len(json.dumps(row[1]))
                if part and (len(part) >= MAX_APPEND or size + more > MAX_BYTES):
                    await self._add(key, part)
                    part, size = [], 0
                part.append(row)
                size += more
            if part:
                await self._add(key, part)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries of a transcript, in their order; None if there are none."""
        found = [_entry(row["snapshot"]) async for row in self._rows(key, name_prefix=_prefix(key))]
        return found or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, with the times of their last entries."""
        return [
            {"session_id": s["session_id"], "mtime": s["mtime"]} for s in await self.list_session_summaries(project_key)
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The summaries of the sessions of a project."""
        rows = self._client.list_checkpoints(own=True, name_prefix=SUMMARY + _hash(project_key), limit=1000)
        return [_summary(row) async for row in rows]

    async def delete(self, key: SessionKey) -> None:
        """Deletes a session with all that belongs to it; with a subpath, that transcript alone."""
        task = ""
        async for row in self._rows(key, brief=True, limit=1):
            task = row["task_id"]
            break
        if not task:
            return
        try:
            if not key.get("subpath"):
                await self._client.delete_task(task, force=True)
                return
            # The newest checkpoint of a task stays, so a mark takes its place.
            mark: t.AppendedCheckpoint = {
                "type": "custom",
                "name": "pruned",
                "snapshot": None,
                "on_conflict": "replace",
            }
            prune: list[t.PruneRule] = [{"prefix": p, "keep": 0} for p in (_prefix(key), _path(key))]
            while True:
                [result] = await self._client.append_tasks([{"task_id": task, "checkpoints": [mark], "prune": prune}])
                if result.get().get("pruned", 0) < 1000:
                    return
        except NotFoundError:
            pass  # another call has deleted it

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session."""
        return [row["snapshot"] async for row in self._rows(key, name_prefix="path/")]

    async def aclose(self) -> None:
        """Closes the connections, if the store has made them itself."""
        if self._own:
            await self._client.aclose()

    async def _add(self, key: SessionKey, rows: list[tuple[SessionStoreEntry, t.AppendedCheckpoint]]) -> None:
        """Adds entries in one transaction, with the subpath or the summary of them and all before them."""
        create: t.NewTask = {
            "type": SESSION_TYPE,
            "payload": {"project_key": key["project_key"], "session_id": key["session_id"]},
            "run_at": NEVER,
            "unique": {"by": "key", "key": _task_key(key), "on_conflict": "return"},
        }
        call: t.CheckpointAppend = {"create": create, "checkpoints": [checkpoint for _, checkpoint in rows]}
        if key.get("subpath"):
            name = _path(key)
            call["checkpoints"].append(
                {"type": "custom", "name": name, "snapshot": key["subpath"], "on_conflict": "keep"}
            )
            [result] = await self._client.append_tasks([call])
            result.get()
            return
        entries = [entry for entry, _ in rows]
        while True:
            newest = 0
            async for row in self._rows(key, brief=True, order="desc", limit=1):
                newest = row["sequence"]
                break
            name = SUMMARY + _hash(key["project_key"])
            before = [_summary(row) async for row in self._rows(key, name_prefix=name)]
            summary = fold_session_summary(before[0] if before else None, key, entries)
            kept = {"session_id": key["session_id"], "data": _stored(summary["data"])}
            folded: t.AppendedCheckpoint = {"type": "custom", "name": name, "snapshot": kept, "on_conflict": "replace"}
            try:
                [result] = await self._client.append_tasks(
                    [{**call, "expected": newest, "checkpoints": [*call["checkpoints"], folded]}]
                )
                result.get()
                return
            except ConflictError:
                continue  # another process has written: its entries are in the next summary

    async def _rows(self, key: SessionKey | SessionListSubkeysKey, **query: Any) -> AsyncIterator[Any]:
        """Checkpoints of a session as the server has them. A session that does not exist has none."""
        query = {"task_type": SESSION_TYPE, "task_key": _task_key(key), "own": True, "limit": 1000, **query}
        try:
            async for row in self._client.list_checkpoints(**cast("t.ListCheckpointsQuery", query)):
                yield row
        except NotFoundError:
            pass


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _task_key(key: SessionKey | SessionListSubkeysKey) -> str:
    return _hash(json.dumps([key["project_key"], key["session_id"]]))


def _path(key: SessionKey) -> str:
    return "path/" + _hash(key["subpath"])


def _prefix(key: SessionKey) -> str:
    """What the names of the entries of a transcript begin with."""
    return f"sub/{_hash(key['subpath'])}/" if key.get("subpath") else "main/"


def _stored(value: Any) -> Any:
    """An object as the server stores it: as text if it has characters that the server's JSON cannot hold."""
    text = json.dumps(value)
    return text if NOT_HELD.search(text) else value


def _entry(stored: Any) -> Any:
    return json.loads(stored) if isinstance(stored, str) else stored


def _summary(row: Any) -> SessionSummaryEntry:
    """A summary, whose time is that of its storage by the server."""
    at = datetime.fromisoformat(row["created_at"].replace("Z", "+00:00"))
    return {
        "session_id": row["snapshot"]["session_id"],
        "mtime": int(at.timestamp() * 1000),
        "data": _entry(row["snapshot"]["data"]),
    }
