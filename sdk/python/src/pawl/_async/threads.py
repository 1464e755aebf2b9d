"""The threads of LangGraph: the calls of pawl.langgraph.PawlSaver."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from .. import _rules as rules
from .._errors import ConflictError, NotFoundError, error_of
from .._generated.routes import ROUTES
from .._json import dumps
from ..langgraph import _deltas as deltas
from ..langgraph import _store as store
from . import _io
from .client import AsyncClient
from .connection import AsyncPages

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple


APPEND = ROUTES["append_tasks"]._replace(own_key=False, repeats=True)


class AsyncThreads:
    """Threads that are kept by a server."""

    def __init__(self, client: AsyncClient, format: store.Format) -> None:
        self.client, self.format = client, format
        self._known = deltas.Threads(_io.Lock)

    async def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Reads a checkpoint, or the newest one of a thread and namespace.

        It is one request, unless there are large values that the saver has not read or written last.
        """
        query = store.query_of(store.thread_of(config), store.namespace_of(config), id=store.checkpoint_id_of(config))
        for left in (2, 1, 0):
            try:
                return await self._newest(query)
            except store.Gone:  # it was pruned meanwhile
                if left == 0:
                    raise
        return None

    async def _newest(self, query: dict[str, Any]) -> CheckpointTuple | None:
        async for row in self._rows({**query, "limit": 1}):
            s = row["snapshot"]
            known = self._known.of(s["thread"])
            values = dict(known.values) if known.task == row["task_id"] else {}
            read = _Reading(self, {v.ref: v for v in values.values()})
            out = await read.whole(row)
            if known.newest is None or known.task == row["task_id"]:
                known.of_task(row["task_id"])
                known.values.update({(s["namespace"], channel): v for channel, v in read.values.items()})
                self._known.bound()
            return out
        return None

    async def search(
        self,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Reads checkpoints, newest first: of a thread and namespace, of a thread, or of all threads."""
        wanted = (filter, store.checkpoint_id_of(before), store.checkpoint_id_of(config))
        left = limit
        if config is not None:
            queries = [self._query(config, filter)]
        else:
            queries = [store.query_of(thread, None, filter) for thread in await self._threads()]
        for query in queries:
            reading = _Reading(self, {})
            async for row in self._rows({**query, "limit": min(left, 100) if left is not None and not filter else 100}):
                if left is not None and left <= 0:
                    return
                if self.format.fits(row, *wanted):
                    try:
                        found = await reading.whole(row)
                    except store.Gone:  # it was pruned meanwhile
                        continue
                    left = None if left is None else left - 1
                    yield found

    def _query(self, config: RunnableConfig, filter: Mapping[str, Any] | None) -> dict[str, Any]:
        namespace = config["configurable"].get("checkpoint_ns")
        id = store.checkpoint_id_of(config)
        return store.query_of(store.thread_of(config), None if namespace is None else str(namespace), filter, id)

    async def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint and the new values of its channels: one request, unless the values are very large.

        A large value is sent as what differs from the last one of its channel that the saver knows. That one is
        there: the append is refused if the task has another newest checkpoint than the saver knows of.
        """
        thread = store.thread_of(config)
        known = self._known.of(thread)
        async with known.lock:
            body, stored = self._body(config, checkpoint, metadata, new_versions, known)
            try:
                await self._append(body, known)
            except (ConflictError, NotFoundError):
                if "create" in body:
                    raise
                known.forget()  # another program has changed the thread
                body, stored = self._body(config, checkpoint, metadata, new_versions, known)
                await self._append(body, known)
            known.values.update(stored)
        self._known.bound()
        return store.config_of(thread, store.namespace_of(config), checkpoint["id"])

    def _body(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        known: deltas.Thread,
    ) -> tuple[dict[str, Any], dict[tuple[str, str], deltas.Stored]]:
        values = known.values if known.newest is not None else {}
        body, stored = self.format.put(config, checkpoint, metadata, new_versions, values)
        if known.task is not None and known.newest is not None and values:
            del body["create"]
            body["task_id"], body["expected"] = known.task, known.newest
        return body, stored

    async def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        """Stores pending writes: one request."""
        if writes:
            known = self._known.of(store.thread_of(config))
            async with known.lock:
                await self._append(self.format.writes(config, writes, task_id, task_path), known)

    async def delete_thread(self, thread: str) -> None:
        """Deletes the task of a thread, with all checkpoints."""
        task = await self._task(thread)
        if task is not None:
            try:
                await self.client.delete_task(task)
            except NotFoundError:
                pass  # another call has deleted it

    async def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Removes the checkpoints of some runs, in all threads."""
        threads: dict[str, None] = {}
        for run in run_ids:
            query = {"own": True, "name_prefix": "c/", "metadata": {"m.run_id": str(run)}, "limit": 1000}
            async for row in self._rows(query):
                threads[row["snapshot"]["thread"]] = None
        runs = {str(run) for run in run_ids}
        for thread in threads:
            rows = await self._checkpoints(thread)
            gone = [row for row in rows if (row.get("metadata") or {}).get("m.run_id") in runs]
            await self._prune(thread, self.format.prunable(rows, gone))

    async def copy_thread(self, source: str, target: str) -> None:
        """Copies all checkpoints, values and writes of a thread to another one."""
        query = {"task_type": store.THREAD_TYPE, "task_key": store.key_of(source), "own": True, "limit": 1000}
        rows = [row async for row in self._rows(query) if row.get("name", "pruned") != "pruned"]
        if rows:
            checkpoints = list(store.copy_of(rows, target))
            known = self._known.of(target)
            async with known.lock:
                await self._append({"create": store.task_of(target), "checkpoints": checkpoints}, known)

    async def prune(self, threads: Sequence[str], strategy: str) -> None:
        """Keeps the newest checkpoint of each namespace of some threads, or deletes the threads."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy is {strategy!r}, not keep_latest or delete")
        for thread in threads:
            if strategy == "delete":
                await self.delete_thread(thread)
                continue
            rows = await self._checkpoints(thread)
            spaces: dict[str, dict[str, Any]] = {}
            for row in rows:
                spaces.setdefault(row["snapshot"]["namespace"], {})[row["snapshot"]["id"]] = row
            kept = {k["name"] for by_id in spaces.values() for k in self.format.kept(by_id[max(by_id)], by_id)}
            gone = [row for row in rows if row["name"] not in kept]
            await self._prune(thread, self.format.prunable(rows, gone))

    async def _append(self, body: dict[str, Any], known: deltas.Thread) -> None:
        for call in store.appends(body):
            if "expected" in call:
                call["expected"] = known.newest
            before = known.newest
            answer = await self._send(call)
            known.of_task(answer["task_id"])
            new = sum(1 for c in answer["checkpoints"] if not c.get("kept"))
            if before is None or answer["newest"] - new != before:
                known.values = {}  # what was read before may be gone
            known.newest = answer["newest"]

    async def _send(self, call: dict[str, Any]) -> dict[str, Any]:
        """Makes an append. To repeat one changes nothing, so it needs no idempotency key."""
        r = rules.Request(APPEND, body=b'{"items":[' + dumps(call, "a checkpoint") + b"]}")
        row = (await self.client._call.send(r))["results"][0]
        if row.get("error") is not None:
            raise error_of(row["error"], op=APPEND.name)
        return cast("dict[str, Any]", row["value"])

    async def _prune(self, thread: str, rules: Sequence[dict[str, Any]]) -> None:
        for call in store.prunes(thread, rules):
            while (await self._send(call)).get("pruned", 0) >= store.MAX_APPEND:
                pass

    async def _rows(self, query: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Checkpoints as the server has them. A thread that does not exist has none."""
        pages: AsyncPages[dict[str, Any]] = AsyncPages(self.client._call, "list_checkpoints", "", dict(query))
        try:
            async for page in pages.pages():
                for row in page.items:
                    yield row
        except NotFoundError:
            return

    async def _checkpoints(self, thread: str) -> list[dict[str, Any]]:
        """The checkpoints of a thread, without what they refer to."""
        query = store.query_of(thread, None)
        del query["refs"]
        return [row async for row in self._rows({**query, "limit": 1000})]

    async def _task(self, thread: str) -> str | None:
        query = {"task_type": store.THREAD_TYPE, "task_key": store.key_of(thread), "brief": True, "limit": 1}
        async for row in self._rows(query):
            return str(row["task_id"])
        return None

    async def _threads(self) -> list[str]:
        """All threads, the newest first."""
        tasks = self.client.list_tasks(type=[store.THREAD_TYPE], limit=1000)
        return [str(task["payload"]["thread_id"]) async for task in tasks]


class _Reading:
    """Reads checkpoints of a thread with what they refer to, large values once."""

    def __init__(self, threads: AsyncThreads, known: dict[str, deltas.Stored]) -> None:
        self._threads = threads
        self._known = known  # by what their names begin with
        self._chains: dict[str, store.Chain] = {}
        self.values: dict[str, deltas.Stored] = {}  # of the channels of the checkpoint that was read last

    async def whole(self, row: dict[str, Any]) -> CheckpointTuple:
        """A checkpoint with the values of its channels and its writes."""
        s = row["snapshot"]
        refs = row.get("refs") or []
        if row.get("refs_left") or "refs" not in (row.get("metadata") or {}):
            found = {r["name"]: r for r in refs}
            small = [ref[0] for ref in self._threads.format.refs(row).values() if len(ref) == 1]
            for prefix in [*small, store.name_of("w", s["namespace"], s["id"])]:
                async for r in self._threads._rows({**self._of(s), "name_prefix": prefix}):
                    found[r["name"]] = r
            refs = list(found.values())
        pieces: dict[str, list[Any]] = {}
        for r in refs:
            if r["name"].startswith("b/"):
                pieces.setdefault(r["name"].rsplit("/", 2)[0] + "/", []).append(r)
        self.values = {}
        for channel, ref in self._threads.format.refs(row).items():
            if len(ref) > 1:
                self.values[channel] = self._known.get(ref[0]) or await self._read(s, channel, *ref)
            elif ref[0] in pieces:
                version = unquote(ref[0].rsplit("/", 2)[1])
                self.values[channel] = store.Chain(version, *store.whole_of(pieces[ref[0]])).stored(ref[0], version)
        writes = [r["snapshot"] for r in refs if r["name"].startswith("w/")]
        return self._threads.format.tuple_of(row, {c: (v.kind, v.data) for c, v in self.values.items()}, writes)

    async def _read(self, s: dict[str, Any], channel: str, ref: str, version: str, base: str) -> deltas.Stored:
        """A large value, with what it is made of."""
        whole = store.name_of("b", s["namespace"], channel, base)
        chain = self._chains.get(whole)
        if chain is None:
            rows = [r async for r in self._threads._rows({**self._of(s), "name_prefix": whole})]
            chain = self._chains[whole] = store.Chain(base, *store.whole_of(rows))
        if not chain.has(version):
            differences = store.name_of("d", s["namespace"], channel, base)
            chain.add([r async for r in self._threads._rows({**self._of(s), "name_prefix": differences})])
        return chain.stored(ref, version)

    def _of(self, s: dict[str, Any]) -> dict[str, Any]:
        return {"task_type": store.THREAD_TYPE, "task_key": store.key_of(s["thread"]), "own": True, "limit": 1000}
