"""What is said about effects."""

from __future__ import annotations

import dataclasses
from typing import Any


class NotDone(Exception):
    """Raised by the function of an effect: it is known not to have happened. After any other error it is unknown."""


@dataclasses.dataclass(frozen=True)
class Probed:
    """What the outside says about the key of an effect, and with `happened` its answer."""

    happened: bool
    answer: Any = None


@dataclasses.dataclass(frozen=True)
class EffectOptions:
    """How an effect is sent; see `Context.effect`."""

    unknown: str
    key: str | None
    request: Any
    budget: str | None
    amount: int | None
    approve: bool
    repeatable: bool

    @property
    def repeats(self) -> bool:
        """Whether an unknown effect may be sent again."""
        return self.repeatable or self.unknown == "repeat"
