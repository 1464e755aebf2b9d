"""Values that are stored as what differs from an earlier version, and what a saver knows of a thread."""

from __future__ import annotations

import bisect
import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

MIN_DELTA = 4096  # bytes of values that are stored as differences
MAX_DELTA = 400_000  # inserted bytes of one difference
MAX_DEPTH = 1000  # differences on one value that is stored whole
CHAIN = 64 << 10  # bytes that a value and its differences may have beyond twice its length
EDITS = 8  # places of one difference
NEAR = 16  # bytes that an edit may replace or insert, besides the end
SAME = 16  # bytes that are the same after an edit
MAX_KNOWN = 64 << 20  # bytes of values that a saver keeps

Op = tuple[int, int] | bytes  # a range of the older value, or bytes of the new one
Segment = tuple[bytes, int, int]


def diff(old: bytes, new: bytes) -> list[Op]:
    """What makes the new value of the old one. It finds a few small edits, and one end or middle of any length."""
    ops: list[Op] = []
    i = j = 0
    for _ in range(EDITS):
        n = _common(old, i, new, j)
        if n:
            ops.append((i, i + n))
            i, j = i + n, j + n
        near = _near(old, i, new, j)
        if near is None:
            break
        if near[1]:
            ops.append(new[j : j + near[1]])
        i, j = i + near[0], j + near[1]
    n = _common_end(old, i, new, j)
    if j < len(new) - n:
        ops.append(new[j : len(new) - n])
    if n:
        ops.append((len(old) - n, len(old)))
    return ops


def inserted(ops: Sequence[Op]) -> int:
    """How many bytes a difference inserts."""
    return sum(len(op) for op in ops if isinstance(op, bytes))


def _common(a: bytes, i: int, b: bytes, j: int) -> int:
    """How many bytes are the same from two places on."""
    n, most, step = 0, min(len(a) - i, len(b) - j), 64 << 10
    while n < most:
        k = min(step, most - n)
        if a[i + n : i + n + k] == b[j + n : j + n + k]:
            n += k
        elif k == 1:
            break
        else:
            step = k // 2
    return n


def _common_end(a: bytes, i: int, b: bytes, j: int) -> int:
    """How many bytes at the ends are the same, not before two places."""
    n, most, step = 0, min(len(a) - i, len(b) - j), 64 << 10
    while n < most:
        k = min(step, most - n)
        if a[len(a) - n - k : len(a) - n] == b[len(b) - n - k : len(b) - n]:
            n += k
        elif k == 1:
            break
        else:
            step = k // 2
    return n


def _near(a: bytes, i: int, b: bytes, j: int) -> tuple[int, int] | None:
    """How many bytes of each to skip until they go on in the same way."""
    for total in range(1, NEAR + 1):
        for skip in range(total + 1):
            at, to = i + skip, j + total - skip
            same = a[at : at + SAME]
            if len(same) == SAME and same == b[to : to + SAME]:
                return skip, total - skip
    return None


def compose(older: Sequence[Segment], ops: Sequence[Op]) -> list[Segment]:
    """The segments of a value that is made of an older one."""
    ends: list[int] = []
    for _, low, high in older:
        ends.append((ends[-1] if ends else 0) + high - low)
    out: list[Segment] = []
    for op in ops:
        if isinstance(op, bytes):
            out.append((op, 0, len(op)))
            continue
        at, to = op
        n = bisect.bisect_right(ends, at)
        while at < to:
            data, low, _ = older[n]
            begin = ends[n - 1] if n else 0
            end = min(to, ends[n])
            out.append((data, low + at - begin, low + end - begin))
            at, n = end, n + 1
    return out


def joined(segments: Sequence[Segment]) -> bytes:
    """The bytes of segments."""
    if len(segments) == 1 and segments[0][1:] == (0, len(segments[0][0])):
        return segments[0][0]
    return b"".join([data[low:high] for data, low, high in segments])


@dataclasses.dataclass
class Stored:
    """A value that the server has."""

    ref: str
    base: str  # the version of the value that is stored whole
    version: str
    kind: str
    data: bytes
    chain: int  # bytes that are stored of it and what it is made of
    depth: int  # of differences


class Thread:
    """What a saver knows of a thread: its task, the number of the task's newest checkpoint, and its last values."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock  # held by appends, so that the number is right
        self.task: str | None = None
        self.newest: int | None = None
        self.values: dict[tuple[str, str], Stored] = {}  # by namespace and channel

    def of_task(self, task: str) -> None:
        """Forgets what is known of another task."""
        if self.task != task:
            self.task, self.newest, self.values = task, None, {}

    def forget(self) -> None:
        """Forgets all: another program has changed the thread."""
        self.task, self.newest, self.values = None, None, {}

    @property
    def size(self) -> int:
        """The bytes of its values."""
        return sum(len(v.data) for v in list(self.values.values()))


class Threads:
    """What a saver knows of the threads that it used last."""

    def __init__(self, lock: Callable[[], Any]) -> None:
        self._lock = lock
        self._mutex = threading.Lock()
        self._threads: OrderedDict[str, Thread] = OrderedDict()

    def of(self, thread: str) -> Thread:
        """What is known of a thread."""
        with self._mutex:
            out = self._threads.pop(thread, None) or Thread(self._lock())
            self._threads[thread] = out
            return out

    def bound(self) -> None:
        """Forgets what was used longest ago, if the values have too many bytes."""
        with self._mutex:
            left = sum(t.size for t in self._threads.values())
            for name in list(self._threads)[:-1]:
                if left <= MAX_KNOWN and len(self._threads) <= 10_000:
                    return
                left -= self._threads.pop(name).size
