"""The types of requests and answers, as the server describes them: TypedDicts, so every value is a plain dict.

Members that a newer server adds are in the dicts too.
"""

from __future__ import annotations

from typing import TypedDict

from ._generated.types import *  # noqa: F403


class Fence(TypedDict):
    """What every write under a lease carries. A `Lease` is one."""

    id: str
    worker_id: str
    attempt: int
