"""PawlSaver, the checkpointer."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from typing_extensions import Self

from .._async.client import AsyncClient
from .._async.threads import AsyncThreads
from .._sync.client import Client
from .._sync.threads import Threads
from ._store import THREAD_TYPE, Format

__all__ = ["THREAD_TYPE", "PawlSaver"]


class PawlSaver(BaseCheckpointSaver[float]):
    """Keeps the checkpoints of LangGraph in Pawl, for graphs that are invoked sync or async.

    A thread is a task of the type `langgraph.thread`. To put a checkpoint is one request, and so is to
    read the newest one if the saver has its large values. A value of a channel is stored once, whatever number of
    checkpoints have it, and large values are sent and stored as differences from the version before.
    `pawl checkpoint list` shows what there is.

    url, key and namespace are those of the server; or bring a `client`, an `async_client`, or both.
    `close` or `aclose` closes the connections that the saver has made itself.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7033",
        key: str = "",
        *,
        namespace: str = "",
        client: Client | None = None,
        async_client: AsyncClient | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._given = (url, key, namespace)
        self._client, self._async_client = client, async_client

    @cached_property
    def _sync(self) -> Threads:
        url, key, namespace = self._given
        return Threads(self._client or Client(url, key, namespace=namespace), Format(self.serde))

    @cached_property
    def _async(self) -> AsyncThreads:
        url, key, namespace = self._given
        return AsyncThreads(self._async_client or AsyncClient(url, key, namespace=namespace), Format(self.serde))

    def close(self) -> None:
        """Closes the connections of the sync methods."""
        if self._client is None and "_sync" in self.__dict__:
            self._sync.client.close()

    async def aclose(self) -> None:
        """Closes the connections of the async methods, and those of the sync ones."""
        if self._async_client is None and "_async" in self.__dict__:
            await self._async.client.aclose()
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def get_next_version(self, current: float | None, channel: None) -> float:
        """A version that no other branch of the thread has: a whole number and a random fraction.

        A value is stored under its version, so that two values never have the same one.
        """
        return int(current or 0) + 1 + random.random()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Reads a checkpoint, or the newest one of the thread and namespace."""
        return self._sync.get_tuple(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Reads checkpoints, newest first. `filter` compares members of the metadata."""
        return self._sync.search(config, filter, before, limit)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint and the new values of its channels, in one transaction."""
        return self._sync.put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Stores pending writes of a checkpoint, in one transaction."""
        self._sync.put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Deletes a thread: its task, with all checkpoints. The record keeps one event."""
        self._sync.delete_thread(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Removes the checkpoints of some runs, in all threads."""
        self._sync.delete_for_runs(run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies a thread to another one. What the target has already stays."""
        self._sync.copy_thread(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keeps the newest checkpoint of each namespace (`keep_latest`), or deletes the threads (`delete`).

        Older checkpoints stay where a DeltaChannel needs them.
        """
        self._sync.prune([str(t) for t in thread_ids], strategy)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As get_tuple."""
        return await self._async.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As list."""
        async for found in self._async.search(config, filter, before, limit):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As put."""
        return await self._async.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As put_writes."""
        await self._async.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """As delete_thread."""
        await self._async.delete_thread(str(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As delete_for_runs."""
        await self._async.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As copy_thread."""
        await self._async.copy_thread(str(source_thread_id), str(target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As prune."""
        await self._async.prune([str(t) for t in thread_ids], strategy)
