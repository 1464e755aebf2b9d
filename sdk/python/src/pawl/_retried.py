"""Steps that are tried again within the attempt."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ._errors import ItemCancelled, LeaseLostError, MessageStopped, Permanent, RetryAfter, Snooze, StepChangedError

P = ParamSpec("P")
T = TypeVar("T")

MAX_TRIES = 100
JITTER = 0.2
ENDS = (Permanent, StepChangedError, Snooze, LeaseLostError, ItemCancelled, MessageStopped)  # of the attempt

When = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]


class Retried:
    """A function with the times that a step may try it. A direct call is one try."""

    def __init__(
        self, fn: Callable[..., Any], tries: int, base_seconds: float, max_seconds: float, when: When | None
    ) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.tries, self.base_seconds, self.max_seconds, self.when = tries, base_seconds, max_seconds, when

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function once."""
        return self.fn(*args, **kwargs)

    def after(self, failed: int, e: Exception) -> float | None:
        """Seconds until the next call, after some that failed; None = there is none."""
        if failed >= self.tries or isinstance(e, ENDS) or not self._meant(e):
            return None
        wait = min(self.base_seconds * 2.0 ** min(failed - 1, 60), self.max_seconds)
        wait *= 1 + JITTER * (2 * random.random() - 1)
        if not isinstance(e, RetryAfter):
            return wait
        return max(wait, e.seconds) if e.seconds <= self.max_seconds else None

    def _meant(self, e: Exception) -> bool:
        if self.when is None:
            return True
        return isinstance(e, self.when) if isinstance(self.when, (type, tuple)) else self.when(e)


def retried(
    fn: Callable[P, T],
    *,
    tries: int = 3,
    base_seconds: float = 1.0,
    max_seconds: float | None = None,
    when: When | None = None,
) -> Callable[P, T]:
    """The function of a step, to be called again within the attempt when it fails.

        page = ctx.step("fetch", pawl.retried(fetch, tries=5, when=httpx.TransportError), url)

    The lease is kept meanwhile, the handler goes on afterwards, and no failure of the item is counted. What
    the last call raises passes. So does, at once, `Permanent`, `Snooze` and `Suspended`, a `RetryAfter` of more
    than `max_seconds`, and what any call raises when the claim is over. A shorter `RetryAfter` is waited for.
    Calls that failed are not saved: an attempt after a crash has all its calls again. What a failed call
    reserved of a budget and did not settle, the next one goes on with; see `reserve`.

    Do not write to a message inside the step: each call writes its words again. It is for `step`. `named_step`
    of a message refuses it, since what a call has written has been read.

    Args:
        fn: the function, plain or async.
        tries: calls of it, with the first: 1 to 100.
        base_seconds: before the second call; doubled with each further one, give or take a fifth.
        max_seconds: the longest of these delays; without it 30, or `base_seconds` where that is longer.
        when: which errors may be followed by another call: a class, several, or a function; None = all.
    """
    if not 1 <= tries <= MAX_TRIES:
        raise ValueError(f"tries must be from 1 to {MAX_TRIES}")
    longest = max(30.0, base_seconds) if max_seconds is None else max_seconds
    if base_seconds < 0 or longest < 0:
        raise ValueError("a delay must not be negative")
    return Retried(fn, tries, base_seconds, longest, when)
