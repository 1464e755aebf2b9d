"""What a step saves of its arguments, and what a later attempt makes of what is saved."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import types as t
from ._errors import PawlError, Permanent, StepChangedError
from ._json import hash_of, plain

MAX_HASHES = 32  # of single arguments
MAX_NAME = 64  # bytes of a member's name
HASH = 16  # hexadecimal digits of a single argument's hash
MAX_NAMED = 5  # in an error


@dataclasses.dataclass(frozen=True)
class StepArgs:
    """A step's arguments. The hash of all is compared; those of single ones only name what differs."""

    hash: str
    parts: Mapping[str, str]  # by JSON Pointer into the list of arguments
    names: Mapping[str, str]  # of the arguments, by their place

    def kept(self, began: float | None = None) -> dict[str, Any]:
        """What the checkpoint keeps of them, and how long the function ran that began at a time of `time.monotonic`."""
        took = int((time.monotonic() - began) * 1000) if began is not None else 0
        metadata = {**({"args": dict(self.parts)} if self.parts else {}), **({"took_ms": took} if took else {})}
        return {"args_hash": self.hash, **({"metadata": metadata} if metadata else {})}

    def differing(self, saved: Mapping[str, Any]) -> list[str]:
        """The names of what differs; none if that is not known."""
        if not saved or not self.parts:
            return []
        names = sorted({**saved, **self.parts})
        return [self._named(p) for p in names if saved.get(p) != self.parts.get(p)]

    def _named(self, pointer: str) -> str:
        place, slash, member = pointer.removeprefix("/").partition("/")
        name = self.names.get(place, pointer if not slash else f"/{place}")
        return f"{name}{slash}{member}" if name and slash else name or member


def args_of(name: str, fn: Callable[..., Any] | None, args: list[Any], kwargs: Mapping[str, Any]) -> StepArgs:
    """The arguments of a call of `fn`; arguments by name are one object behind the others."""
    values = [*args, dict(kwargs)] if kwargs else args
    try:
        hash_ = hash_of(values)
        parts = _hashes(plain(values)) if len(values) <= MAX_HASHES else {}
    except TypeError as e:
        raise TypeError(f"step {name!r}: its arguments cannot be hashed: {e}") from e
    names = {str(n): p for n, p in enumerate(_parameters(fn)[: len(args)])} if fn is not None else {}
    if kwargs:
        names[str(len(args))] = ""  # its members have the names
    return StepArgs(hash_, parts, names)


def _hashes(values: list[Any]) -> dict[str, str]:
    out: dict[str, str] = {}
    for n, value in enumerate(values):
        if isinstance(value, dict) and value and all(len(k.encode("utf-8")) <= MAX_NAME for k in value):
            for member, v in value.items():
                out[f"/{n}/{member.replace('~', '~0').replace('/', '~1')}"] = hash_of(v)[:HASH]
        else:
            out[f"/{n}"] = hash_of(value)[:HASH]
    if len(out) > MAX_HASHES:
        return {f"/{n}": hash_of(value)[:HASH] for n, value in enumerate(values)}
    return out


def _parameters(fn: Callable[..., Any]) -> list[str]:
    try:
        all = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in all if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def replayed(name: str, saved: t.Checkpoint, args: StepArgs, message_id: str = "") -> Any:
    """The saved result of a step, of the item or of a message. What does not fit the step is an error for good."""
    metadata = saved.get("metadata")
    kept: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    if saved["type"] != ("iteration_end" if message_id else "tool_executed"):
        raise step_changed(name, f"its name is taken by a checkpoint of type {saved['type']}; give it another name")
    if message_id and kept.get("message_id") != message_id:
        where = f"a step of message {kept.get('message_id')}"
        raise step_changed(name, f"its name is taken by {where}; give it another name")
    known = saved.get("args_hash")
    if known and known != args.hash:
        others = kept.get("args")
        differ = args.differing(others if isinstance(others, dict) else {})
        more = [f"and {len(differ) - MAX_NAMED} more"] if len(differ) > MAX_NAMED else []
        which = f" ({', '.join([*differ[:MAX_NAMED], *more])})" if differ else ""
        by = f"attempt {saved['attempt']}" if "attempt" in saved else "the task that this task is a fork of"
        raise step_changed(
            name,
            f"{by} saved its result for other arguments{which}; give the step another name, "
            "or pass the same arguments in every attempt",
        )
    return saved["snapshot"]


@contextlib.contextmanager
def final(name: str) -> Iterator[None]:
    """Makes Permanent of the refusal of a result: its function has run, and would run again in each attempt."""
    try:
        yield
    except (PawlError, TypeError, ValueError) as e:
        code = e.code if isinstance(e, PawlError) else "invalid"
        if code not in ("invalid", "too_large"):
            raise
        raise Permanent(f"step {name!r}: {e}", code=code) from e


def step_changed(name: str, what: str) -> StepChangedError:
    """The error of a step that no later attempt can mend."""
    return StepChangedError(f"step {name!r}: {what}", op="step")
