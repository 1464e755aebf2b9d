# Made of src/pawl/_async/threads.py by tools/unasync.py: do not edit.
"""The threads of LangGraph: the calls of pawl.langgraph.PawlSaver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from .. import _rules as rules
from .._errors import NotFoundError, error_of
from .._generated.routes import ROUTES
from .._json import dumps
from ..langgraph import _store as store
from .client import Client
from .connection import Pages

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple


APPEND = ROUTES["append_tasks"]._replace(own_key=False, repeats=True)


class Threads:
    """Threads that are kept by a server."""

    def __init__(self, client: Client, format: store.Format) -> None:
        self.client, self.format = client, format

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Reads a checkpoint, or the newest one of a thread and namespace: one request."""
        query = store.query_of(store.thread_of(config), store.namespace_of(config), id=store.checkpoint_id_of(config))
        for row in self._rows({**query, "limit": 1}):
            return self._whole(row)
        return None

    def search(
        self,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Iterator[CheckpointTuple]:
        """Reads checkpoints, newest first: of a thread and namespace, of a thread, or of all threads."""
        wanted = (filter, store.checkpoint_id_of(before), store.checkpoint_id_of(config))
        left = limit
        if config is not None:
            queries = [self._query(config, filter)]
        else:
            queries = [store.query_of(thread, None, filter) for thread in self._threads()]
        for query in queries:
            for row in self._rows({**query, "limit": min(left, 100) if left is not None and not filter else 100}):
                if left is not None and left <= 0:
                    return
                if self.format.fits(row, *wanted):
                    left = None if left is None else left - 1
                    yield self._whole(row)

    def _query(self, config: RunnableConfig, filter: Mapping[str, Any] | None) -> dict[str, Any]:
        namespace = config["configurable"].get("checkpoint_ns")
        id = store.checkpoint_id_of(config)
        return store.query_of(store.thread_of(config), None if namespace is None else str(namespace), filter, id)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint and the new values of its channels: one request, unless the values are very large."""
        self._append(self.format.put(config, checkpoint, metadata, new_versions))
        return store.config_of(store.thread_of(config), store.namespace_of(config), checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        """Stores pending writes: one request."""
        if writes:
            self._append(self.format.writes(config, writes, task_id, task_path))

    def delete_thread(self, thread: str) -> None:
        """Deletes the task of a thread, with all checkpoints."""
        task = self._task(thread)
        if task is not None:
            try:
                self.client.delete_task(task)
            except NotFoundError:
                pass  # another call has deleted it

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Removes the checkpoints of some runs, in all threads."""
        threads: dict[str, None] = {}
        for run in run_ids:
            query = {"own": True, "name_prefix": "c/", "metadata": {"m.run_id": str(run)}, "limit": 1000}
            for row in self._rows(query):
                threads[row["snapshot"]["thread"]] = None
        runs = {str(run) for run in run_ids}
        for thread in threads:
            rows = self._checkpoints(thread)
            gone = [row for row in rows if (row.get("metadata") or {}).get("m.run_id") in runs]
            self._prune(thread, self.format.prunable(rows, gone))

    def copy_thread(self, source: str, target: str) -> None:
        """Copies all checkpoints, values and writes of a thread to another one."""
        query = {"task_type": store.THREAD_TYPE, "task_key": store.key_of(source), "own": True, "limit": 1000}
        rows = [row for row in self._rows(query) if row.get("name", "pruned") != "pruned"]
        if rows:
            checkpoints = list(store.copy_of(rows, target))
            self._append({"create": store.task_of(target), "checkpoints": checkpoints})

    def prune(self, threads: Sequence[str], strategy: str) -> None:
        """Keeps the newest checkpoint of each namespace of some threads, or deletes the threads."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy is {strategy!r}, not keep_latest or delete")
        for thread in threads:
            if strategy == "delete":
                self.delete_thread(thread)
                continue
            rows = self._checkpoints(thread)
            spaces: dict[str, dict[str, Any]] = {}
            for row in rows:
                spaces.setdefault(row["snapshot"]["namespace"], {})[row["snapshot"]["id"]] = row
            kept = {k["name"] for by_id in spaces.values() for k in self.format.kept(by_id[max(by_id)], by_id)}
            gone = [row for row in rows if row["name"] not in kept]
            self._prune(thread, self.format.prunable(rows, gone))

    def _append(self, body: dict[str, Any]) -> None:
        for call in store.appends(body):
            self._send(call)

    def _send(self, call: dict[str, Any]) -> dict[str, Any]:
        """Makes an append. To repeat one changes nothing, so it needs no idempotency key."""
        r = rules.Request(APPEND, body=b'{"items":[' + dumps(call, "a checkpoint") + b"]}")
        row = (self.client._call.send(r))["results"][0]
        if row.get("error") is not None:
            raise error_of(row["error"], op=APPEND.name)
        return cast("dict[str, Any]", row["value"])

    def _prune(self, thread: str, rules: Sequence[dict[str, Any]]) -> None:
        for call in store.prunes(thread, rules):
            while (self._send(call)).get("pruned", 0) >= store.MAX_APPEND:
                pass

    def _rows(self, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Checkpoints as the server has them. A thread that does not exist has none."""
        pages: Pages[dict[str, Any]] = Pages(self.client._call, "list_checkpoints", "", dict(query))
        try:
            for page in pages.pages():
                for row in page.items:
                    yield row
        except NotFoundError:
            return

    def _whole(self, row: dict[str, Any]) -> CheckpointTuple:
        """A checkpoint with what it refers to, which a large one needs more requests for."""
        refs = row.get("refs") or []
        s = row["snapshot"]
        if row.get("refs_left") or "refs" not in (row.get("metadata") or {}):
            of = {"task_type": store.THREAD_TYPE, "task_key": store.key_of(s["thread"]), "own": True, "limit": 1000}
            found = {r["name"]: r for r in refs}
            for prefix in [*s["values"], store.name_of("w", s["namespace"], s["id"])]:
                for r in self._rows({**of, "name_prefix": prefix}):
                    found[r["name"]] = r
            refs = list(found.values())
        return self.format.tuple_of(row, refs)

    def _checkpoints(self, thread: str) -> list[dict[str, Any]]:
        """The checkpoints of a thread, without what they refer to."""
        query = store.query_of(thread, None)
        del query["refs"]
        return [row for row in self._rows({**query, "limit": 1000})]

    def _task(self, thread: str) -> str | None:
        query = {"task_type": store.THREAD_TYPE, "task_key": store.key_of(thread), "brief": True, "limit": 1}
        for row in self._rows(query):
            return str(row["task_id"])
        return None

    def _threads(self) -> list[str]:
        """All threads, the newest first."""
        tasks = self.client.list_tasks(type=[store.THREAD_TYPE], limit=1000)
        return [str(task["payload"]["thread_id"]) for task in tasks]
