"""What a message says, for a reader that follows it."""

from __future__ import annotations

from typing import Any

from ._frames import MessageFrame


class MessageContent:
    """What a message says so far, without what was abandoned: what `get_message` would answer.

    `follow_message(id).contents()` gives it after each frame. With `apply` it is made of your own frames,
    from the beginning of the message.
    """

    def __init__(self) -> None:
        #: The state of the message: streaming until the frame of its end has come.
        self.status = "streaming"
        self._chunks: list[tuple[int, Any]] = []

    def apply(self, frame: MessageFrame) -> None:
        """Adds a frame: its chunks; or it removes those that were abandoned, or replaces all by a snapshot."""
        self._chunks += [(frame.offset + n, c) for n, c in enumerate(frame.chunks)]
        if frame.abandoned is not None:
            low, high = frame.abandoned.get("from", 0), frame.abandoned.get("to", 0)
            self._chunks = [(n, c) for n, c in self._chunks if not low <= n < high]
        if frame.snapshot is not None:
            content = frame.snapshot.get("content") or []
            self._chunks = [(-1, _chunk(p)) for p in content if p.get("status") != "abandoned"]
            self.status = frame.snapshot.get("status") or self.status
        if frame.end is not None:
            self.status = frame.end.get("status") or self.status

    @property
    def text(self) -> str:
        """The text."""
        return self._join("text")

    @property
    def reasoning(self) -> str:
        """The text of the model's reasoning."""
        return self._join("reasoning")

    @property
    def chunks(self) -> list[Any]:
        """All chunks that are not abandoned, in order."""
        return [c for _, c in self._chunks]

    def _join(self, kind: str) -> str:
        return "".join(c.get("text") or "" for _, c in self._chunks if c.get("type") == kind)


_NAMES = {"toolCallId": "tool_call_id", "toolName": "tool_name", "isError": "is_error", "mediaType": "media_type"}


def _chunk(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a message as a chunk."""
    out = {_NAMES.get(k, k): v for k, v in part.items() if k != "status"}
    return {**out, "type": str(part.get("type", "")).replace("-", "_")}
