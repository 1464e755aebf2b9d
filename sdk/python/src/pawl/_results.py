"""What a batch answers."""

from __future__ import annotations

import dataclasses
from typing import Generic, TypeVar, cast

from ._errors import PawlError

T = TypeVar("T")


@dataclasses.dataclass
class Result(Generic[T]):
    """The answer to one call of a batch: a value, or the error of this call alone."""

    value: T | None = None
    error: PawlError | None = None

    @property
    def ok(self) -> bool:
        """Whether the call was carried out."""
        return self.error is None

    def get(self) -> T:
        """The value; the error is raised."""
        if self.error is not None:
            raise self.error
        return cast("T", self.value)


@dataclasses.dataclass
class Page(Generic[T]):
    """One page of a list."""

    items: list[T]
    next: str | None  # the cursor of the next page; None = this is the last
    incomplete: bool = False  # a search ended early: read on with `next`
