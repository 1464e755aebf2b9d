"""Pawl for Python: a client, sync and asyncio, and a worker.

>>> import pawl
>>> client = pawl.Client("http://127.0.0.1:7033")
"""

from . import types
from ._async.client import AsyncClient
from ._async.connection import AsyncPages
from ._async.context import AsyncContext, AsyncReservation
from ._async.keepalive import AsyncKeepAlive
from ._async.message import AsyncMessageWriter
from ._async.streams import AsyncEventStream, AsyncMessageStream
from ._content import MessageContent
from ._effects import NotDone, Probed, not_sent
from ._errors import (
    BudgetExhaustedError,
    ConflictError,
    EffectUnknownError,
    ForbiddenError,
    InternalError,
    InvalidError,
    ItemCancelled,
    KeyInFlightError,
    KeyRequiredError,
    KeyReusedError,
    LeaseLostError,
    LimitError,
    MessageStopped,
    MovedError,
    NotFoundError,
    PawlError,
    Permanent,
    PreconditionError,
    QuarantinedError,
    RetryAfter,
    SignalTimeout,
    Snooze,
    StepChangedError,
    Suspended,
    TaskFailed,
    TooLargeError,
    UnauthenticatedError,
    UnavailableError,
)
from ._frames import MessageFrame
from ._json import format_time, hash_of, parse_time
from ._results import Page, Result
from ._retried import retried
from ._sync.client import Client
from ._sync.connection import Pages
from ._sync.context import Context, Reservation
from ._sync.keepalive import KeepAlive
from ._sync.message import MessageWriter
from ._sync.streams import EventStream, MessageStream
from .worker import Summary, Worker

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncContext",
    "AsyncEventStream",
    "AsyncKeepAlive",
    "AsyncMessageStream",
    "AsyncMessageWriter",
    "AsyncPages",
    "AsyncReservation",
    "BudgetExhaustedError",
    "Client",
    "ConflictError",
    "Context",
    "EffectUnknownError",
    "EventStream",
    "ForbiddenError",
    "InternalError",
    "InvalidError",
    "ItemCancelled",
    "KeepAlive",
    "KeyInFlightError",
    "KeyRequiredError",
    "KeyReusedError",
    "LeaseLostError",
    "LimitError",
    "MessageContent",
    "MessageFrame",
    "MessageStopped",
    "MessageStream",
    "MessageWriter",
    "MovedError",
    "NotDone",
    "NotFoundError",
    "Page",
    "Pages",
    "PawlError",
    "Permanent",
    "PreconditionError",
    "Probed",
    "QuarantinedError",
    "Reservation",
    "Result",
    "RetryAfter",
    "SignalTimeout",
    "Snooze",
    "StepChangedError",
    "Summary",
    "Suspended",
    "TaskFailed",
    "TooLargeError",
    "UnauthenticatedError",
    "UnavailableError",
    "Worker",
    "__version__",
    "format_time",
    "hash_of",
    "not_sent",
    "parse_time",
    "retried",
    "types",
]

for _kind in map(globals().get, __all__):
    if isinstance(_kind, type) and issubclass(_kind, BaseException):
        _kind.__module__ = __name__  # as tracebacks name it
