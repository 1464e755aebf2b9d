"""Server-sent events, and where a reader stands in them: the same for both clients."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import httpx

from ._errors import PawlError, error_of
from ._json import loads
from ._rules import LONGEST_WAIT, Config

SHORTEST_PAUSE = 0.05  # before a stream is asked for again
LONGEST_PAUSE = 5.0


@dataclasses.dataclass
class Frame:
    """What a stream sends between two empty lines. A keep-alive frame is empty."""

    id: str = ""
    event: str = ""
    data: str = ""


class Frames:
    """Makes frames of bytes, however they are cut."""

    def __init__(self) -> None:
        self._rest = b""
        self._frame = Frame()
        self._lines: list[str] = []

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        out: list[Frame] = []
        for raw in lines:
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            if not line:
                self._frame.data = "\n".join(self._lines)
                out.append(self._frame)
                self._frame, self._lines = Frame(), []
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                self._frame.id = value
            elif name == "event":
                self._frame.event = value
            elif name == "data":
                self._lines.append(value)
        return out


def refused(frame: Frame, op: str) -> PawlError:
    """The error of a stream that the server ends for good."""
    problem = loads(frame.data)
    return error_of(problem if isinstance(problem, dict) else {}, op=op)


class Reconnect:
    """The pauses of a stream that breaks. Only the first connection has a limited number of tries."""

    def __init__(self, config: Config) -> None:
        self._left = config.tries
        self._pause = SHORTEST_PAUSE
        self.begun = False  # a server has answered

    def moved(self) -> None:
        """Something came: the next pause is short again."""
        self._pause = SHORTEST_PAUSE

    def after(self, err: PawlError) -> float:
        """How long to wait before the stream is asked for again; raises the error if it is over."""
        if err.code not in ("unavailable", "limit") or err.retry_after > LONGEST_WAIT:
            raise err
        if not self.begun:
            self._left -= 1
            if self._left <= 0:
                raise err
        wait = max(self._pause * (1 + random.random()), err.retry_after)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return wait


def is_stream(response: httpx.Response) -> bool:
    """Whether an answer is a stream."""
    kind = str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()
    return response.status_code == 200 and kind == "text/event-stream"


@dataclasses.dataclass
class MessageFrame:
    """A piece of a message: `chunks` from `offset` on, or what befell it. One member besides `offset` is set."""

    offset: int
    chunks: list[Any] = dataclasses.field(default_factory=list)
    abandoned: dict[str, Any] | None = None  # chunks of a step that was cut off
    snapshot: dict[str, Any] | None = None  # the whole message, in place of what came before
    end: dict[str, Any] | None = None  # the message has ended

    @property
    def text(self) -> str:
        """The text in the chunks."""
        return "".join(c.get("text") or "" for c in self.chunks if c.get("type") == "text")


class MessagePosition:
    """A reader's position in a message."""

    def __init__(self, after: int, epoch: int = 0) -> None:
        self.after = after  # the last chunk that was passed on
        self.epoch = epoch  # of that number: it rises when the database went back in time
        self._told = -1  # the end of the newest cut that was passed on

    def query(self) -> dict[str, int]:
        """Where a stream continues."""
        return {"after": self.after, "epoch": self.epoch} if self.epoch else {"after": self.after}

    def begin(self, frame: Frame) -> None:
        """The first frame of a reader who asked for the last chunks: its id is the one before them."""
        if frame.id and not frame.data:
            self._at(frame.id)

    def _at(self, frame_id: str) -> None:
        epoch, _, number = frame_id.rpartition("-")
        self.after, self.epoch = int(number), int(epoch or 0)

    def take(self, frame: Frame) -> MessageFrame | None:
        """What a frame means for the reader; None = nothing new, or something of a newer server."""
        if not frame.data:
            return None
        if frame.id and frame.event == "snapshot":  # of a later epoch: what was read may be lost
            self._at(frame.id)
            self._told = -1
        elif frame.id:
            self.epoch = int(frame.id.rpartition("-")[0] or 0)
        offset = self.after + 1
        value = loads(frame.data) if frame.event in ("", "abandoned", "snapshot", "end") else None
        if not isinstance(value, dict):
            return None
        if frame.event == "":
            chunks = value.get("chunks") or []
            at = int(value.get("offset", offset))
            self.after = at + len(chunks) - 1
            return MessageFrame(at, chunks)
        if frame.event == "abandoned":
            if value.get("to", -1) <= self._told:
                return None  # it was passed on before the stream broke
            self._told = value.get("to", -1)
            return MessageFrame(offset, abandoned=value)
        return MessageFrame(offset, snapshot=value) if frame.event == "snapshot" else MessageFrame(offset, end=value)
