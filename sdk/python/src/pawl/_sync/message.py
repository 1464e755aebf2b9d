# Made of src/pawl/_async/message.py by tools/unasync.py: do not edit.
"""A message that is written piece by piece."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from .. import _rules as rules
from .. import _trace
from .. import types as t
from .._errors import ConflictError, MessageStopped, PawlError, Permanent
from .._json import dumps, loads
from .._retried import Retried
from .._steps import args_of, final, replayed
from . import _io
from .context import _decoded, _inside, _step_error
from .items import _set

if TYPE_CHECKING:
    from .context import Context

P = ParamSpec("P")
T = TypeVar("T")

FLUSH_BYTES = 32 << 10  # that are sent without waiting
MAX_CHUNK_TEXT = 32 << 10  # characters of text in one chunk, at most 128 KiB
MAX_CHUNKS = 1000  # of one call
MAX_APPEND = 1 << 20  # bytes of one call; the last chunk may go over it


def start_message(context: Context, options: Mapping[str, Any]) -> MessageWriter:
    """Goes on with a message of the item, or starts one."""
    if context._earlier is None:
        # In the first attempt too: the task's creator may have started a message, and stopped it.
        state = context.resume() if context.attempt > 1 else context._read_state()
        context._earlier = list(state["messages"])
    if context._started < len(context._earlier):
        ref = context._earlier[context._started]
    else:
        body = {**context._fence(), **rules.body_of(options, role="assistant")}
        m: t.Message = context._send("start_message", context.item_id, body, others=True)
        ref = {
            "id": m["id"],
            "status": m["status"],
            "model": m.get("model") or "",
            "max_steps": m.get("max_steps") or 0,
            "step_number": m.get("step_number") or 0,
            "offset": 0,
        }
    context._started += 1
    if ref["status"] == "stopped":
        raise MessageStopped("the message was stopped")
    return MessageWriter(context, ref)


class MessageWriter:
    """Writes a message. What is written is sent in batches, at most 100 ms late.

    `step`, `finish` and the end of the handler wait until all is saved. Use it in a `with`
    statement, which finishes the message at its end; a message that is not finished is finished with
    its item. A message that an earlier attempt finished ignores what is written again: see `ended`.
    """

    def __init__(self, context: Context, ref: t.MessageRef) -> None:
        self._context = context
        self._ref = ref
        self._mutex = threading.Lock()  # guards what follows
        self._waiting: list[t.Chunk] = []
        self._unsent: list[t.Chunk] = []  # that are being sent, or were when the caller was cancelled
        self._size = 0
        self._timer: Any = None
        self._error: Exception | None = None
        self._sending = _io.Lock()
        self._finished = ref["status"] != "streaming"
        self._offset = ref["offset"]
        self._step = ""  # the name of the running step
        self._wrote = False  # chunks that no step has ended
        if not self._finished:
            context._job.on_stopped[ref["id"]] = self._stop
            context._job.closing.append(self._close)

    @property
    def id(self) -> str:
        """The message's id."""
        return self._ref["id"]

    @property
    def model(self) -> str:
        """The model that the message was started with."""
        return self._ref.get("model") or ""

    @property
    def max_steps(self) -> int:
        """How many steps the message may have."""
        return self._ref["max_steps"]

    @property
    def step_number(self) -> int:
        """The number of the last completed step; 0 = none."""
        return self._ref["step_number"]

    @property
    def ended(self) -> bool:
        """Whether the message is finished, by an earlier attempt or by `finish`."""
        return self._finished

    @property
    def stopped(self) -> bool:
        """Whether the message was stopped: `write` raises MessageStopped."""
        return isinstance(self._error, MessageStopped)

    def text(self, text: str) -> None:
        """Appends text."""
        self.write({"type": "text", "text": text})

    def reasoning(self, text: str) -> None:
        """Appends text of the model's reasoning."""
        self.write({"type": "reasoning", "text": text})

    def tool_call(self, id: str, name: str, input: Any) -> None:
        """Writes a call of a tool."""
        self.write({"type": "tool_call", "tool_call_id": id, "tool_name": name, "input": input})

    def tool_result(self, id: str, name: str, output: Any, *, is_error: bool = False) -> None:
        """Writes the result of a tool."""
        chunk: t.Chunk = {"type": "tool_result", "tool_call_id": id, "tool_name": name, "output": output}
        if is_error:
            chunk["is_error"] = True
        self.write(chunk)

    def write(self, *chunks: t.Chunk) -> None:
        """Appends chunks as they are. It waits only when much is waiting to be sent."""
        if self._finished:
            return
        chunks = tuple(_cleaned(c) for c in chunks)
        sizes = [len(dumps(c, "the chunk")) for c in chunks]
        with self._mutex:
            if self._error is not None:
                raise self._error
            self._wrote = self._wrote or bool(chunks)
            for chunk, size in zip(chunks, sizes, strict=True):
                self._add(chunk, size)
            full = self._size >= FLUSH_BYTES
            if not full and self._timer is None and self._waiting:
                self._timer = _io.Timer(self._context._flush_seconds, self._flush_quietly)
        if full:
            self.flush()

    def _add(self, chunk: t.Chunk, size: int) -> None:
        """Adds a chunk: texts of one type are joined, and long ones cut."""
        kind = chunk["type"]
        if kind not in ("text", "reasoning"):
            self._waiting.append(chunk)
            self._size += size
            return
        text = chunk.get("text") or ""
        while text:
            last = self._waiting[-1] if self._waiting else None
            room = MAX_CHUNK_TEXT - len(last.get("text") or "") if last is not None and last["type"] == kind else 0
            if last is not None and room > 0:
                last["text"] = (last.get("text") or "") + text[:room]
                text = text[room:]
            else:
                self._waiting.append({"type": kind, "text": text[:MAX_CHUNK_TEXT]})
                text = text[MAX_CHUNK_TEXT:]
        self._size += size

    def flush(self) -> None:
        """Returns when all that was written is saved. It raises why nothing more can be."""
        with self._sending:
            while True:
                with self._mutex:
                    if self._error is not None:
                        raise self._error
                    if self._timer is not None:
                        self._timer.cancel()
                        self._timer = None
                    chunks = self._unsent = self._unsent or self._take()
                if not chunks:
                    return
                body = {**self._context._fence(), "offset": self._offset, "chunks": chunks}
                said = self._ask("append", body)
                self._offset, self._unsent = said["offset"], []

    def _take(self) -> list[t.Chunk]:
        size, n = 0, 0
        while n < len(self._waiting) and n < MAX_CHUNKS and size < MAX_APPEND:
            size += len(dumps(self._waiting[n]))
            n += 1
        chunks, self._waiting = self._waiting[:n], self._waiting[n:]
        self._size = 0 if not self._waiting else self._size
        return chunks

    def _flush_quietly(self) -> None:
        try:
            self.flush()
        except Exception as e:
            self._fail(e)  # the next write raises it

    def _close(self) -> None:
        """Sends what is left at the end of the handler. That the message was stopped takes no result away."""
        if not self._finished:
            with contextlib.suppress(MessageStopped):
                self.flush()

    def named_step(
        self,
        name: str,
        fn: Callable[Concatenate[MessageWriter, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Writes a step once for the item: `fn(message, *args, **kwargs)` writes it with the methods of the message.

        What `fn` returns is saved as JSON under the name, with the end of the step. A later attempt gets it
        without calling `fn`. A step that an earlier attempt began and did not end is written again: readers
        see what was written of it as abandoned. Names and arguments are as in the context's `step`.

        Write inside of steps only: a step after chunks that no step has ended is an InvalidError, since a
        later attempt would write them again. So is one after a step that failed in this attempt when it had
        written something: let the error pass, and the next attempt writes the step again.
        """
        if isinstance(fn, Retried):
            what = "a step of a message cannot be tried again within the attempt; let its error pass"
            raise Permanent(f"step {name!r}: {what}")
        c = self._context
        hashed = args_of(name, _without_first(fn), list(args), kwargs)
        with c._entered(name) as token:
            try:
                saved = c._lookup(name)
                if saved is None:
                    self._enter(name)
                    c._reserved.pop(name, None)  # as in a step
                    try:
                        with _trace.step(name, c.item_id):
                            began = time.monotonic()
                            result = _io.resolve(fn(self, *args, **kwargs))
                            kept = hashed.kept(began)
                            with final(name):
                                snapshot = loads(dumps(result, f"the result of step {name!r}"))
                                _io.finish(self._end_step(snapshot=snapshot, name=name, **kept))
                    finally:
                        self._step = ""
                else:
                    snapshot = replayed(name, saved, hashed, self.id)
                    _trace.replayed(name)
            finally:
                _inside.reset(token)
        out: T = _decoded(name, fn, snapshot)
        return out

    def _enter(self, name: str) -> None:
        if self._step:
            raise _step_error(
                name, f"step {self._step!r} of the message is running; the steps of a message come one after the other"
            )
        if self._wrote:
            raise _step_error(
                name,
                "the message has words that no step has ended, and a later attempt would write them again: "
                "write inside of steps, and let the error of a step pass",
            )
        self._step = name

    def _outside(self, call: str) -> None:
        if self._step:
            raise _step_error(self._step, f"{call} is called before the step has ended; it ends by itself")

    def step(self, snapshot: Any = None) -> t.CheckpointRef | None:
        """Ends a step with one checkpoint, from which the next attempt goes on behind `step_number`.

        Without a snapshot it is the message's content so far. `named_step` is a step that a later attempt
        skips by itself.
        """
        self._outside("step")
        return self._end_step(**_set(snapshot=snapshot))

    def _end_step(self, **call: Any) -> t.CheckpointRef | None:
        if self._finished:
            return None
        self.flush()
        ref: t.CheckpointRef = self._ask("step_message", {**self._context._fence(), **call})
        self._ref["step_number"] += 1
        self._wrote = False
        if call.get("name"):
            metadata = {**call.get("metadata", {}), "message_id": self.id}
            self._context._remember(ref, "iteration_end", **{**call, "metadata": metadata})
        return ref

    def finish(self, usage: Any = None) -> None:
        """Ends the message; the item goes on. `usage` is a JSON object, for example token counts."""
        if self._finished:
            return
        self._outside("finish")
        self.flush()
        self._ask("finish_message", {**self._context._fence(), **_set(usage=usage)})
        self._finished = True

    def _ask(self, name: str, body: dict[str, Any]) -> Any:
        try:
            return self._context._send(name, self.id, body, others=True)
        except ConflictError as e:
            if e.state == "stopped":
                self._stop()
                raise self._error or e from e
            self._fail(e)
            raise
        except PawlError as e:
            self._fail(e)
            raise

    def _fail(self, e: Exception) -> None:
        with self._mutex:
            if self._error is None:
                self._error = e
            self._waiting = []

    def _stop(self) -> None:
        """The message was stopped: nothing more is written."""
        self._fail(MessageStopped("the message was stopped"))

    def __enter__(self) -> MessageWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()


def _without_first(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the message in place, whose other parameters have the names of the arguments."""
    return functools.partial(fn, None)


def _cleaned(chunk: t.Chunk) -> t.Chunk:
    """The chunk with text that the server takes; the caller's own is left alone."""
    return {**chunk, "text": clean(chunk["text"])} if chunk.get("text") else chunk


def clean(text: str) -> str:
    """Text that the server takes: without NUL and halves of characters."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text) if not _whole(text) else text


def _whole(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
