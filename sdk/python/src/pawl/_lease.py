"""A lease that is kept alive: when its next heartbeat is due, and how many failed.

Times are of the local monotonic clock, so a wall clock that is set does not matter.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ._errors import ConflictError, ItemCancelled, LeaseLostError, NotFoundError, PawlError
from ._json import parse_time

HEARTBEATS_PER_LEASE = 10
FIRST_HEARTBEAT = 1.0  # seconds that a handler runs before its first heartbeat, at most
MAX_MISSES = 3  # failed heartbeats in a row after which a lease counts as lost


class LeaseState:
    """The state of one lease."""

    def __init__(
        self, lease: Mapping[str, Any], at: float, interval: float | None = None, max_misses: int = MAX_MISSES
    ) -> None:
        seconds = int(lease.get("lease_seconds") or 300)
        self.interval = interval or seconds / HEARTBEATS_PER_LEASE
        self.max_misses = max_misses
        self.server_time = parse_time(lease["server_time"])
        self.server_time_at = at
        self.expires_at = at + (parse_time(lease["lease_expires_at"]) - self.server_time).total_seconds()
        self.first_after = min(FIRST_HEARTBEAT, self.interval)
        self.next_due = at + self.first_after
        self.misses = 0

    def now(self, local: float) -> datetime:
        """The database's clock, estimated."""
        return self.server_time + timedelta(seconds=local - self.server_time_at)

    def due_soon(self, local: float, beaten: bool) -> bool:
        """Whether a heartbeat may go with others that are due. All but the first may be early by a tenth."""
        return local + (self.interval / 10 if beaten else 0) >= self.next_due

    def extended(self, sent: float, got: float, beat: Mapping[str, Any]) -> Exception | None:
        """Applies the answer to a heartbeat. It returns why the claim is over, if it is."""
        self.next_due = sent + self.interval
        if beat.get("cancelled"):
            return ItemCancelled("the item was cancelled")
        self.misses = 0
        if "server_time" in beat and "lease_expires_at" in beat:
            self.server_time, self.server_time_at = parse_time(beat["server_time"]), got
            self.expires_at = got + (parse_time(beat["lease_expires_at"]) - self.server_time).total_seconds()
        return None

    def missed(self, sent: float, got: float, err: Exception) -> Exception | None:
        """Applies a heartbeat that failed. It returns why the claim is over, if it is or counts as over."""
        self.next_due = sent + self.interval
        gone = claim_loss(err)
        if gone is not None:
            return gone
        self.misses += 1
        if got >= self.expires_at:
            return lost("the lease expired while heartbeats failed", err, reason="expired")
        if self.misses >= self.max_misses:
            return lost(f"{self.misses} heartbeats in a row failed", err)
        self.next_due = min(self.next_due, self.expires_at)
        return None


def lost(message: str, cause: Exception | None = None, reason: str = "") -> LeaseLostError:
    """The error of a lease that counts as lost."""
    out = LeaseLostError(message, op="heartbeat", problem={"reason": reason} if reason else None)
    out.__cause__ = cause
    return out


def claim_loss(err: Exception) -> Exception | None:
    """Why the claim is over, if a refusal means that."""
    if isinstance(err, LeaseLostError):
        return err
    if isinstance(err, NotFoundError):
        return lost("the item was deleted", err)
    if isinstance(err, ConflictError):
        if err.state == "cancelled":
            return ItemCancelled("the item was cancelled")
        if err.state in ("leased", "in_progress"):
            return None  # the refusal is about something else
        return lost("the item is no longer leased", err)
    return None


def transient(err: Exception) -> bool:
    """Whether the same call may succeed later."""
    return isinstance(err, PawlError) and (err.retryable or err.code == "internal")


def backoff(n: int, shortest: float, longest: float) -> float:
    """The pause after the n-th failure in a row, with a jitter of a quarter."""
    return float(min(shortest * 2 ** min(n - 1, 16), longest)) * (0.75 + random.random() / 2)
