"""JSON as the server takes it: exact integers, and nothing that JSON cannot hold."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
from datetime import datetime, timezone
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_escapes = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def dumps(value: Any, what: str = "the value") -> bytes:
    """A value as JSON in UTF-8. What is not JSON is a TypeError that says where it is."""
    tree = plain(value, what)
    try:
        return _encode(tree).encode("utf-8")
    except UnicodeEncodeError as e:
        raise TypeError(f"{what} holds text that is not UTF-8: {e.object[e.start : e.end]!r}") from e


def loads(data: bytes | str) -> Any:
    """JSON as Python values. Integers are exact, however large they are."""
    return json.loads(data)


def plain(value: Any, what: str = "the value") -> Any:
    """The value as dicts, lists, texts, numbers, booleans and None.

    It takes dataclasses and pydantic models too. Anything else is a TypeError.
    """
    try:
        return _plain(value, "", what)
    except RecursionError:
        raise TypeError(f"{what} is not JSON: it holds itself, or is nested too deeply") from None


def _plain(value: Any, at: str, what: str) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if kind is dict:
        for key in value:
            if not isinstance(key, str):
                raise _not_json(what, at, f"a member named {key!r}, which is no text")
        return {str(key): _plain(v, f"{at}/{key}", what) for key, v in value.items()}
    if kind is list or kind is tuple:
        return [_plain(v, f"{at}/{i}", what) for i, v in enumerate(value)]
    if kind is float:
        if not math.isfinite(value):
            raise _not_json(what, at, f"{value}")
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value, at, what)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name), f"{at}/{f.name}", what) for f in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _plain(dump(mode="json", by_alias=True), at, what)
    base: Any
    for base in (str, int, float, dict, list, tuple):
        if isinstance(value, base):
            return _plain(base(value), at, what)
    raise _not_json(what, at, f"a value of type {kind.__module__}.{kind.__qualname__}")


def _not_json(what: str, at: str, found: str) -> TypeError:
    where = f" at {at}" if at else ""
    return TypeError(f"{what} is not JSON: it holds {found}{where}")


def hash_of(value: Any) -> str:
    """SHA-256, in hex, of a value's canonical JSON, as `pawl.HashOf` of the Go package makes it.

    Members are sorted, and numbers are written as they are: 2**53 and 2**53 + 1 are different.
    """
    return hashlib.sha256(_canonical(plain(value)).encode("utf-8")).hexdigest()


def _canonical(value: Any) -> str:
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda m: m[0].encode("utf-8"))
        return "{" + ",".join(f"{_text(k)}:{_canonical(v)}" for k, v in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _number(value)
    return _encode(value)


def _text(s: str) -> str:
    """A text as Go's encoding/json writes it."""
    return _encode(s).translate(_escapes)


def _number(x: float) -> str:
    """A float as Go and JavaScript write it: 1.0 is 1."""
    if x == 0:
        return "-0" if math.copysign(1, x) < 0 else "0"
    if x.is_integer() and abs(x) < 1e21:
        return str(int(x))
    text = repr(x)
    digits, _, exponent = text.partition("e")
    if not exponent:
        return text
    power = int(exponent)
    if -7 < power < 0:  # Python writes 1e-05, others 0.00001
        sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
        return sign + "0." + "0" * (-power - 1) + digits.replace(".", "")
    return f"{digits}e{power:+d}"


def parse_time(text: str) -> datetime:
    """A time of the server, which is RFC 3339 in UTC with up to microseconds."""
    head, dot, rest = text.strip().rstrip("Zz").partition(".")
    if "+" in head or "+" in rest or "-" in rest or "-" in head[10:]:
        return datetime.fromisoformat(text)
    micro = int((rest + "000000")[:6]) if dot else 0
    return datetime.fromisoformat(head).replace(microsecond=micro, tzinfo=timezone.utc)


def format_time(at: datetime) -> str:
    """A time as the server reads it. A time without a zone is local time."""
    return at.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
