"""The calls about messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _rules as rules
from .. import types as t
from .._results import Result
from .connection import AsyncCall, AsyncPages
from .items import _set, fence

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _writer(lease: t.Fence | str) -> dict[str, Any]:
    return {"writer": lease} if isinstance(lease, str) else fence(lease)


class AsyncMessageCalls:
    """The calls about messages: what an item says, while it says it.

    A message that a task has itself is written with the token `writer` of `open_message`, in place of a lease.
    """

    _call: AsyncCall

    async def start_message(self, lease: t.Fence, role: str, **options: Unpack[t.MessageOptions]) -> t.Message:
        """Begins a message of an item; one with content is whole at once."""
        body = {**fence(lease), **rules.body_of(options, role=role)}
        return await self._call.call("start_message", lease["id"], body)

    async def start_messages(self, calls: Sequence[t.StartCall]) -> list[Result[t.Message]]:
        """Begins messages, each answered on its own."""
        return await self._call.batch("start_messages", calls)

    async def open_message(self, task_id: str, role: str, **options: Unpack[t.OpenOptions]) -> t.OpenedMessage:
        """Opens a message that a task has itself: it is written with the answer's `writer`, without a lease.

        With `on_conflict="return"` it is the message of the thread that the task has already, if it has one.
        """
        return await self._call.call("open_message", task_id, rules.body_of(options, role=role))

    async def open_messages(self, calls: Sequence[t.OpenCall]) -> list[Result[t.OpenedMessage]]:
        """Opens messages that tasks have themselves, each answered on its own."""
        return await self._call.batch("open_messages", calls)

    async def append(self, lease: t.Fence | str, message_id: str, offset: int, chunks: Sequence[t.Chunk]) -> t.Appended:
        """Adds chunks to an open message, at the offset it has. A call that is sent again writes nothing twice."""
        body = {**_writer(lease), "offset": offset, "chunks": list(chunks)}
        return await self._call.call("append", message_id, body)

    async def append_messages(self, calls: Sequence[t.AppendCall]) -> list[Result[t.Appended]]:
        """Adds chunks to messages, each call answered on its own."""
        return await self._call.batch("append_messages", calls)

    async def step_message(self, lease: t.Fence, message_id: str, snapshot: Any = None) -> t.CheckpointRef:
        """Ends a step of an open message, with a checkpoint."""
        return await self._call.call("step_message", message_id, {**fence(lease), **_set(snapshot=snapshot)})

    async def step_messages(self, calls: Sequence[t.StepCall]) -> list[Result[t.CheckpointRef]]:
        """Ends steps of messages, each answered on its own."""
        return await self._call.batch("step_messages", calls)

    async def finish_message(self, lease: t.Fence | str, message_id: str, usage: Any = None) -> t.Message:
        """Ends an open message; its item goes on."""
        return await self._call.call("finish_message", message_id, {**_writer(lease), **_set(usage=usage)})

    async def finish_messages(self, calls: Sequence[t.FinishCall]) -> list[Result[t.Message]]:
        """Finishes messages, each answered on its own."""
        return await self._call.batch("finish_messages", calls)

    async def stop_message(self, message_id: str, *, reason: str | None = None) -> t.Message:
        """Stops an open message: what was said stays, and its worker learns of it."""
        return await self._call.call("stop_message", message_id, _set(reason=reason))

    async def stop_messages(self, calls: Sequence[t.StopCall]) -> list[Result[t.Message]]:
        """Stops messages, each answered on its own."""
        return await self._call.batch("stop_messages", calls)

    def list_messages(self, **query: Unpack[t.ListMessagesQuery]) -> AsyncPages[t.Message]:
        """Lists a conversation in order, open messages too."""
        return AsyncPages(self._call, "list_messages", "", dict(query))

    async def get_message(self, message_id: str) -> t.Message:
        """Reads a message, whole at any moment."""
        return await self._call.call("get_message", message_id)
