# Made of src/pawl/_async/streams.py by tools/unasync.py: do not edit.
"""Streams that go on where they broke."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx

from .. import _rules as rules
from .. import types as t
from .._content import MessageContent
from .._errors import PawlError
from .._frames import Frame, Frames, MessageFrame, MessagePosition, Reconnect, is_stream, refused
from .._generated.routes import ROUTES
from .._json import loads
from . import _io
from .connection import Call

if TYPE_CHECKING:
    from typing_extensions import Unpack


def frames(call: Call, r: rules.Request, reconnect: Reconnect) -> Iterator[Frame]:
    """The frames of one connection. When it breaks, it raises."""
    op = r.route.name
    headers = {**rules.headers_of(call.config, r), "Accept": "text/event-stream"}
    timeout = httpx.Timeout(30.0, read=rules.SILENCE)
    parser = Frames()
    try:
        url = rules.url_of(call.config, r)
        with call.connection.http.stream(r.route.method, url, headers=headers, timeout=timeout) as response:
            if not is_stream(response):
                raise rules.refusal(op, response, response.read())
            reconnect.begun = True
            for data in response.iter_bytes():
                for frame in parser.feed(data):
                    if frame.event == "refused":
                        raise refused(frame, op)
                    if frame.id or frame.data:
                        reconnect.moved()
                    yield frame
    except httpx.HTTPError as e:
        raise rules.away(op, e, call.connection.url) from e


class EventStream:
    """The feed of events. Iterate over it; it goes on where it broke, from whichever server answers.

    `position` is where it stands: keep it with what you did, and pass it as `after` to go on there.
    """

    def __init__(self, call: Call, after: str, query: dict[str, Any]) -> None:
        self._call = call
        self._query = query
        #: The position through the last event, as EPOCH-POSITION.
        self.position = after

    def __iter__(self) -> Iterator[t.Event]:
        reconnect = Reconnect(self._call.config)
        while True:
            r = rules.Request(ROUTES["list_events"], query={**self._query, "after": self.position})
            try:
                for frame in frames(self._call, r, reconnect):
                    if frame.id:
                        self.position = frame.id
                    if frame.data:
                        yield loads(frame.data)
                wait = reconnect.after(rules.broken("list_events"))
            except PawlError as e:
                wait = reconnect.after(e)
            _io.sleep(wait)


class MessageStream:
    """A message as it is written. Iterate over it; it goes on where it broke, and ends with the message.

    `after` is the last chunk that came: pass it to go on there.
    """

    def __init__(self, call: Call, message_id: str, after: int, last: int | None, epoch: int) -> None:
        self._call = call
        self._id = message_id
        self._last = last  # until a server has said where these chunks begin
        self._position = MessagePosition(after, epoch)

    @property
    def after(self) -> int:
        """The number of the last chunk that came; -1 = none."""
        return self._position.after

    @property
    def epoch(self) -> int:
        """The epoch of `after`: it rises when the database went back in time. Pass both to go on there."""
        return self._position.epoch

    def __iter__(self) -> Iterator[MessageFrame]:
        reconnect = Reconnect(self._call.config)
        while True:
            query = self._position.query() if self._last is None else {"last": self._last}
            r = rules.Request(ROUTES["follow_message"], id=self._id, query=query)
            try:
                for frame in frames(self._call, r, reconnect):
                    if self._last is not None:
                        self._position.begin(frame)
                        self._last = None
                    out = self._position.take(frame)
                    if out is not None:
                        yield out
                        if out.end is not None:
                            return
                wait = reconnect.after(rules.broken("follow_message"))
            except PawlError as e:
                wait = reconnect.after(e)
            _io.sleep(wait)

    def text(self) -> Iterator[str]:
        """The pieces of text, as they come. Text that is cut off later has been passed on: see `contents`."""
        for frame in self:
            if frame.text:
                yield frame.text

    def contents(self) -> Iterator[MessageContent]:
        """What the message says, after each frame: one object, which changes.

        Text that was abandoned is not in it any more. It needs the message from its beginning.
        """
        content = MessageContent()
        for frame in self:
            content.apply(frame)
            yield content


class StreamCalls:
    """The streams."""

    _call: Call

    def follow_events(self, after: str | int = 0, **query: Unpack[t.FollowEventsOptions]) -> EventStream:
        """Follows the feed of events: those after a position, then new ones, without end.

        0 is the beginning, -1 the end. A ConflictError with the reason epoch means that the database
        went back in time; its `problem` has the `position` to restart from.
        """
        return EventStream(self._call, str(after), dict(query))

    def follow_message(
        self, message_id: str, after: int = -1, *, last: int | None = None, epoch: int = 0
    ) -> MessageStream:
        """Follows a message: the chunks after a number, then new ones, until it has ended.

        With `last` it begins with that many of the chunks that were written so far.
        """
        return MessageStream(self._call, message_id, after, last, epoch)
