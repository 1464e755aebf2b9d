"""How LangGraph's checkpoints are kept in Pawl: names, bodies of calls, and what is read back.

A thread is a task. Its checkpoints, the values of its channels and its pending writes are checkpoints
of that task, each under a name:

    c/NAMESPACE/CHECKPOINT/                  a checkpoint without the values of its channels
    b/NAMESPACE/CHANNEL/VERSION/PIECE/       a piece of the value that a channel has in a version
    d/NAMESPACE/CHANNEL/BASE/VERSION/        what differs from an earlier version; the version BASE is stored whole
    w/NAMESPACE/CHECKPOINT/TASK/NUMBER/      a pending write

A checkpoint refers to its writes and to its small values, so one request reads them with it. Large values are
read by their names, unless the saver has them: it keeps the last ones, and sends what differs from them. A value is
stored once for each version of its channel. A name ends with a slash, so none is the beginning of another.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from . import _deltas as deltas
from ._deltas import Op, Segment, Stored

#: The type of the tasks that are threads.
THREAD_TYPE = "langgraph.thread"

# The item of a thread is never claimed: the task holds no work.
NEVER = "2200-01-01T00:00:00Z"

MAX_KEY = 255  # characters of a unique key
MAX_PART = 200  # characters of one part of a name, of which there are at most four
MAX_REFS = 12_000  # bytes of the references in the metadata of a checkpoint, which has 16 KiB
MAX_APPEND = 1000  # checkpoints of one append
MAX_APPEND_BYTES = 4 << 20  # bytes of snapshots in one append
MAX_RULES = 100  # rules of one append

MAX_PIECE = 700_000  # bytes of a piece: as JSON it has at most 4/3 of it, and a snapshot may have 1 MiB
SHORT = bytes(range(0x20, 0x7F))  # what JSON writes as one byte
NOT_CONTROL = b"\0" + bytes(range(0x20, 0x100))

ZERO = "\u0100"  # stands for the byte 0, which no text in Pawl has: it is behind the characters of other bytes

Body = dict[str, Any]
Row = Mapping[str, Any]


def part(text: str) -> str:
    """A part of a name: without slashes and stars, and of a bounded length."""
    out = quote(text, safe=":.-_|@ ")
    return out if len(out) <= MAX_PART else "sha256-" + hashlib.sha256(text.encode()).hexdigest()


def name_of(kind: str, *parts: str) -> str:
    """The name of a checkpoint of the task, or what such names begin with."""
    return "/".join([kind, *map(part, parts)]) + "/"


def thread_of(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def namespace_of(config: RunnableConfig) -> str:
    return str(config["configurable"].get("checkpoint_ns") or "")


def key_of(thread: str) -> str:
    """The unique key of the task of a thread."""
    if len(thread) <= MAX_KEY:
        return thread
    return "sha256-" + hashlib.sha256(thread.encode()).hexdigest()


def task_of(thread: str) -> Body:
    """The task of a thread, which is created once."""
    return {
        "type": THREAD_TYPE,
        "payload": {"thread_id": thread},
        "run_at": NEVER,
        "unique": {"by": "key", "key": key_of(thread), "on_conflict": "return"},
    }


class Gone(Exception):
    """What a checkpoint refers to is not there: it was pruned since the checkpoint was read."""


class Format:
    """Turns LangGraph's objects into snapshots and back, with the serializer of a saver."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde = serde

    def dump(self, value: Any) -> list[str]:
        """A value as JSON: its type, how its bytes are written, and the bytes."""
        kind, data = self.serde.dumps_typed(value)
        return [kind, *written(data)]

    def load(self, dumped: Sequence[str]) -> Any:
        """The value that dump was given."""
        kind, how, text = dumped
        return self.serde.loads_typed((kind, read(how, text)))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        versions: ChannelVersions,
        known: Mapping[tuple[str, str], Stored],
    ) -> tuple[Body, dict[tuple[str, str], Stored]]:
        """The append that stores a checkpoint with the new values of its channels, and these values.

        A value is stored as what differs from the known value of its channel, where that pays.
        """
        ns, values = namespace_of(config), checkpoint["channel_values"]
        bare = {k: v for k, v in checkpoint.items() if k != "channel_values"}
        rows: list[Body] = []
        stored: dict[tuple[str, str], Stored] = {}
        refs: dict[str, list[Any]] = {}
        for channel, version in checkpoint["channel_versions"].items():
            if channel not in values:
                continue
            old = known.get((ns, channel))
            if old is None or old.version != str(version):  # it is new, or it is not known how it was stored
                kind, data = self.serde.dumps_typed(values[channel])
                old, some = stored_of(ns, channel, str(version), kind, data, old if channel in versions else None)
                stored[ns, channel] = old
                rows += some
            refs[channel] = ref_of(old)
        described = get_checkpoint_metadata(config, metadata)
        snapshot = {
            "thread": thread_of(config),
            "namespace": ns,
            "id": checkpoint["id"],
            "parent": config["configurable"].get("checkpoint_id"),
            "checkpoint": self.dump(bare),
            "metadata": self.dump(described),
            "values": refs,
        }
        row = row_of(name_of("c", ns, checkpoint["id"]), snapshot, "replace")
        row["metadata"] = found_by(described)
        small = [f"{ref[0]}0/" for ref in refs.values() if len(ref) == 1]
        wanted = [*small, name_of("w", ns, checkpoint["id"]) + "*"]
        if len(small) < MAX_APPEND and sum(len(ref) + 3 for ref in wanted) < MAX_REFS:
            row["metadata"]["refs"] = wanted
        return {"create": task_of(thread_of(config)), "checkpoints": [*rows, row]}, stored

    def writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str) -> Body:
        """The append that stores pending writes. Those of special channels replace earlier ones."""
        ns, id = namespace_of(config), config["configurable"]["checkpoint_id"]
        rows: dict[str, Body] = {}
        for at, (channel, value) in enumerate(writes):
            number = WRITES_IDX_MAP.get(channel, at)
            name = name_of("w", ns, id, task, str(number))
            snapshot = {"task": task, "path": path, "number": number, "channel": channel, "value": self.dump(value)}
            rows[name] = row_of(name, snapshot, "replace" if number < 0 else "keep")
        return {"create": task_of(thread_of(config)), "checkpoints": list(rows.values())}

    def refs(self, row: Row) -> dict[str, list[Any]]:
        """Where the values of a checkpoint's channels are: a name, or what it begins with, and for large ones more."""
        s = row["snapshot"]
        if isinstance(s["values"], dict):
            return s["values"]
        named = set(s["values"])  # as earlier versions of this package wrote it
        versions = self.load(s["checkpoint"])["channel_versions"]
        refs = {c: name_of("b", s["namespace"], c, str(v)) for c, v in versions.items()}
        return {c: [ref] for c, ref in refs.items() if ref in named}

    def tuple_of(
        self, row: Row, values: Mapping[str, tuple[str, bytes]], writes: Iterable[Mapping[str, Any]]
    ) -> CheckpointTuple:
        """The checkpoint of a row, of the values of its channels, and of its writes."""
        s = row["snapshot"]
        bare = self.load(s["checkpoint"])
        sorted_ = sorted(writes, key=lambda w: writes_sort_key(w["path"], w["task"], w["number"]))
        return CheckpointTuple(
            config=config_of(s["thread"], s["namespace"], s["id"]),
            checkpoint=cast(
                "Checkpoint",
                {**bare, "channel_values": {c: self.serde.loads_typed(v) for c, v in values.items()}},
            ),
            metadata=self.load(s["metadata"]),
            parent_config=config_of(s["thread"], s["namespace"], s["parent"]) if s["parent"] else None,
            pending_writes=[(w["task"], w["channel"], self.load(w["value"])) for w in sorted_],
        )

    def fits(self, row: Row, filter: Mapping[str, Any] | None, before: str | None, id: str | None) -> bool:
        """Whether a list that has such conditions has a checkpoint."""
        s = row["snapshot"]
        if (id is not None and s["id"] != id) or (before is not None and s["id"] >= before):
            return False
        metadata = self.load(s["metadata"]) if filter else {}
        return all(metadata.get(k) == v for k, v in (filter or {}).items())

    def kept(self, latest: Row, by_id: Mapping[str, Row]) -> Iterator[Row]:
        """A checkpoint and those of its ancestors that it is not whole without.

        The value of a DeltaChannel is made of the writes since the ancestor that has it whole.
        """
        yield latest
        counters = self.load(latest["snapshot"]["metadata"]).get("counters_since_delta_snapshot") or {}
        versions = self.load(latest["snapshot"]["checkpoint"])["channel_versions"]
        open_ = {c for c in counters if c in versions} - self.channels(latest)
        row = by_id.get(latest["snapshot"]["parent"])
        while open_ and row is not None:
            yield row
            open_ -= self.channels(row)
            row = by_id.get(row["snapshot"]["parent"])

    def channels(self, row: Row) -> set[str]:
        """The channels whose values a checkpoint refers to."""
        return set(self.refs(row))

    def prunable(self, rows: Sequence[Row], gone: Iterable[Row]) -> list[Body]:
        """Rules that remove some of the checkpoints of a thread, with their writes and unshared values.

        A value goes with all that is stored as what differs from it.
        """
        gone = list(gone)
        left = {row["name"] for row in rows} - {row["name"] for row in gone}
        shared = {p for row in rows if row["name"] in left for ref in self.refs(row).values() for p in prefixes_of(ref)}
        prefixes: dict[str, None] = {}
        for row in gone:
            s = row["snapshot"]
            prefixes[row["name"]] = None
            prefixes[name_of("w", s["namespace"], s["id"])] = None
            for ref in self.refs(row).values():
                prefixes.update((p, None) for p in prefixes_of(ref) if p not in shared)
        return [{"prefix": p, "keep": 0} for p in prefixes]


def stored_of(
    ns: str, channel: str, version: str, kind: str, data: bytes, old: Stored | None
) -> tuple[Stored, list[Body]]:
    """How a value is stored, and the rows of it."""
    if old is not None and old.kind == kind and len(data) >= deltas.MIN_DELTA and len(old.data) >= deltas.MIN_DELTA:
        ops = deltas.diff(old.data, data)
        size = deltas.inserted(ops)
        chain = old.chain + size
        if (
            size <= min(len(data) // 2, deltas.MAX_DELTA)
            and chain <= 2 * len(data) + deltas.CHAIN
            and old.depth < deltas.MAX_DEPTH
        ):
            ref = name_of("d", ns, channel, old.base, version)
            how = [list(op) if isinstance(op, tuple) else written(op) for op in ops]
            snapshot = {"of": old.version, "kind": kind, "ops": how, "chain": chain, "depth": old.depth + 1}
            return Stored(ref, old.base, version, kind, data, chain, old.depth + 1), [row_of(ref, snapshot, "keep")]
    ref = name_of("b", ns, channel, version)
    pieces = [[kind, *written(data[at : at + MAX_PIECE])] for at in range(0, max(len(data), 1), MAX_PIECE)]
    rows = [row_of(f"{ref}{at}/", piece, "keep") for at, piece in enumerate(pieces)]
    return Stored(ref, version, version, kind, data, len(data), 0), rows


def ref_of(value: Stored) -> list[Any]:
    """Where a value is: what its name begins with; of a large one its version, and the one that is stored whole."""
    if value.depth == 0 and len(value.data) < deltas.MIN_DELTA:
        return [value.ref]
    return [value.ref, value.version, value.base]


def prefixes_of(ref: Sequence[Any]) -> list[str]:
    """What the names of a value and of all that is made of it begin with."""
    kind, ns, channel, version, *_ = str(ref[0]).split("/")
    return [f"b/{ns}/{channel}/{version}/", *([f"d/{ns}/{channel}/{version}/"] if kind == "d" or len(ref) > 1 else [])]


def whole_of(pieces: Iterable[Row]) -> tuple[str, bytes]:
    """A value that is stored whole, of its pieces. It raises Gone if it is not there."""
    found = {int(row["name"].rsplit("/", 2)[1]): row["snapshot"] for row in pieces}
    if not found or set(found) != set(range(len(found))):
        raise Gone("a value of a checkpoint is not there")
    parts = [found[at] for at in range(len(found))]
    return parts[0][0], b"".join(read(how, text) for _, how, text in parts)


class Chain:
    """A value that is stored whole, and all versions that are stored as what differs from one another."""

    def __init__(self, base: str, kind: str, data: bytes) -> None:
        self.base, self.kind, self.size = base, kind, len(data)
        self._segments: dict[str, list[Segment]] = {part(base): [(data, 0, len(data))]}
        self._rows: dict[str, Body] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Adds differences, each behind what it differs from. It raises Gone if that is not there."""
        for row in rows:
            s = row["snapshot"]
            ops: list[Op] = [tuple(op) if isinstance(op[0], int) else read(op[0], op[1]) for op in s["ops"]]
            version = row["name"].rsplit("/", 2)[1]
            if not self.has(s["of"]):
                raise Gone("a value that others differ from is not there")
            self._segments[version] = deltas.compose(self._segments[part(s["of"])], ops)
            self._rows[version] = s

    def has(self, version: str) -> bool:
        """Whether a version is there."""
        return part(version) in self._segments

    def stored(self, ref: str, version: str) -> Stored:
        """A version. It raises Gone if it is not there."""
        name = part(version)
        if name not in self._segments:
            raise Gone("a value of a checkpoint is not there")
        data = deltas.joined(self._segments[name])
        s = self._rows.get(name)
        chain, depth = (s["chain"], s["depth"]) if s else (self.size, 0)
        return Stored(ref, self.base, version, self.kind, data, chain, depth)


def written(data: bytes) -> list[str]:
    """How bytes are written as a text of JSON, and the text.

    Bytes that are mostly ASCII are written as characters of their own, so that the server finds what
    two versions of a value have in common.
    """
    wide, control = len(data.translate(None, SHORT)), len(data.translate(None, NOT_CONTROL))
    longer = wide + 4 * control + data.count(b'"') + data.count(b"\\")
    if longer <= len(data) // 3:
        return ["text", data.decode("latin-1").replace("\0", ZERO)]
    return ["base64", base64.b64encode(data).decode()]


def read(how: str, text: str) -> bytes:
    return base64.b64decode(text) if how == "base64" else text.replace(ZERO, "\0").encode("latin-1")


def row_of(name: str, snapshot: Any, on_conflict: str) -> Body:
    return {"type": "custom", "name": name, "snapshot": snapshot, "on_conflict": on_conflict}


def config_of(thread: str, namespace: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": id}}


def found_by(metadata: Mapping[str, Any]) -> Body:
    """Metadata by which the server finds a checkpoint: its short texts, whole numbers and truth values."""
    short = [(k, v) for k, v in metadata.items() if isinstance(v, (str, int)) and len(str(v)) <= 200 and len(k) <= 60]
    return {f"m.{k}": v for k, v in short[:20]}


def query_of(
    thread: str, namespace: str | None, filter: Mapping[str, Any] | None = None, id: str | None = None
) -> Body:
    """What selects checkpoints of a thread, newest first, with what they refer to."""
    q: Body = {"task_type": THREAD_TYPE, "task_key": key_of(thread), "own": True, "order": "desc", "refs": True}
    if namespace is not None and id:
        q["name"] = [name_of("c", namespace, id)]
    else:
        q["name_prefix"] = name_of("c", namespace) if namespace is not None else "c/"
    wanted = {k: v for k, v in found_by(filter or {}).items() if not isinstance(v, bool)}
    if wanted:
        q["metadata"] = {k: v if isinstance(v, str) else str(v) for k, v in wanted.items()}
    return q


def checkpoint_id_of(config: RunnableConfig | None) -> str | None:
    return get_checkpoint_id(config) if config else None


def appends(body: Body) -> Iterator[Body]:
    """An append in calls that are not too large. A call of a put is one unless its values are very large."""
    rows: list[Body] = []
    size = 0
    for row in body["checkpoints"]:
        n = len(repr(row["snapshot"]))
        if rows and (len(rows) == MAX_APPEND or size + n > MAX_APPEND_BYTES):
            yield {**body, "checkpoints": rows}
            rows, size = [], 0
        rows.append(row)
        size += n
    if rows:
        yield {**body, "checkpoints": rows}


def prunes(thread: str, rules: Sequence[Body]) -> Iterator[Body]:
    """Appends that remove checkpoints of a thread by rules.

    The newest checkpoint of a task always stays. So each call appends one, `pruned`, that replaces the last.
    """
    for at in range(0, len(rules), MAX_RULES):
        mark = row_of("pruned", None, "replace")
        yield {"create": task_of(thread), "checkpoints": [mark], "prune": list(rules[at : at + MAX_RULES])}


def copy_of(rows: Iterable[Row], thread: str) -> Iterator[Body]:
    """The rows of a thread, oldest first, as those of another one."""
    for row in rows:
        snapshot = row["snapshot"]
        if row["name"].startswith("c/"):
            snapshot = {**snapshot, "thread": thread}
        copied = row_of(row["name"], snapshot, "keep")
        if row.get("metadata"):
            copied["metadata"] = row["metadata"]
        yield copied
