"""From JSON to what a function's annotation asks for: dataclasses, pydantic models, or the JSON itself."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Callable, Hashable
from typing import Any, Literal, Union, get_args, get_origin


class DecodeError(ValueError):
    """A value does not fit its annotation."""


def decode(kind: Any, value: Any) -> Any:
    """The value as its annotation asks. What does not fit is a DecodeError that says where."""
    if kind is Any or kind is None or isinstance(kind, str):
        return value
    return _decode(kind, value, "")


def _decode(kind: Any, value: Any, at: str) -> Any:
    if kind is Any or isinstance(kind, typing.TypeVar):
        return value
    validate = getattr(kind, "model_validate", None)
    if isinstance(kind, type) and callable(validate):
        try:
            return validate(value)
        except ValueError as e:
            raise DecodeError(f"{at or '/'}: {e}") from e
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, at)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(args, value, at)
    if origin is Literal:
        if value not in args:
            raise DecodeError(f"{at or '/'}: must be one of {', '.join(map(repr, args))}")
        return value
    if origin is typing.Annotated:
        return _decode(args[0], value, at)
    if kind is list or origin is list:
        return [_decode(args[0] if args else Any, v, f"{at}/{i}") for i, v in enumerate(_of(list, value, at))]
    if kind is tuple or origin is tuple:
        return _tuple(args, _of(list, value, at), at)
    if kind is dict or origin is dict:
        inner = args[1] if len(args) == 2 else Any
        return {k: _decode(inner, v, f"{at}/{k}") for k, v in _of(dict, value, at).items()}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError as e:
            raise DecodeError(f"{at or '/'}: {e}") from e
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (str, int, float, bool, types.NoneType):
        return _of(kind, value, at)
    return value  # TypedDicts and what else JSON already is


def _of(kind: Any, value: Any, at: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind in (int, float)):
        name = {dict: "an object", list: "a list", str: "a text", types.NoneType: "null"}.get(kind, kind.__name__)
        raise DecodeError(f"{at or '/'}: must be {name}, not {type(value).__name__}")
    return value


def _union(args: tuple[Any, ...], value: Any, at: str) -> Any:
    if value is None and types.NoneType in args:
        return None
    wrong: list[str] = []
    for kind in args:
        if kind is types.NoneType:
            continue
        try:
            return _decode(kind, value, at)
        except DecodeError as e:
            wrong.append(str(e))
    raise DecodeError("; ".join(wrong) or f"{at or '/'}: must be null")


def _tuple(args: tuple[Any, ...], values: list[Any], at: str) -> tuple[Any, ...]:
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_decode(args[0], v, f"{at}/{i}") for i, v in enumerate(values))
    if args and len(args) != len(values):
        raise DecodeError(f"{at or '/'}: must have {len(args)} values, not {len(values)}")
    return tuple(_decode(args[i] if args else Any, v, f"{at}/{i}") for i, v in enumerate(values))


def _dataclass(kind: type[Any], value: Any, at: str) -> Any:
    members = _of(dict, value, at)
    hints = _hints(typing.cast("Hashable", kind))
    given: dict[str, Any] = {}
    for f in dataclasses.fields(kind):
        if f.name in members and f.init:
            given[f.name] = _decode(hints.get(f.name, Any), members[f.name], f"{at}/{f.name}")
        elif f.init and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise DecodeError(f"{at}/{f.name}: is missing")
    return kind(**given)  # members that the class does not know are left out: a newer producer may send them


@functools.lru_cache(maxsize=1024)
def _hints(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function; those that cannot be read are left out."""
    try:
        return typing.get_type_hints(fn)
    except Exception:
        return {}
