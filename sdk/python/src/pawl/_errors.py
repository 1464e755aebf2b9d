"""What is raised: refusals of the server, and what a handler raises to end its attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._generated.routes import ERRORS


class PawlError(Exception):
    """A call that was refused or not answered. Match on `code`, or on the subclass of the code.

    Attributes:
        code: the code of the error, as in the table of errors.
        message: what was wrong.
        status: the HTTP status; 0 if there was no answer.
        op: the name of the call.
        retry_after: seconds that the server asks to wait; 0 = it does not say.
        problem: the whole answer, with members that this version does not know.
    """

    code: str = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int = 0,
        op: str = "",
        retry_after: float = 0.0,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.status = status
        self.op = op
        self.retry_after = retry_after
        self.problem: dict[str, Any] = dict(problem or {})

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        row = ERRORS.get(self.code)
        return row[1] if row else self.status in (429, 503)

    @property
    def fields(self) -> list[dict[str, str]]:
        """The fields that were refused: a JSON Pointer and a message each."""
        found = self.problem.get("errors")
        return found if isinstance(found, list) else []

    @property
    def state(self) -> str:
        """The state that forbids the call; "" = the refusal is not about a state."""
        return str(self.problem.get("state") or "")

    @property
    def reason(self) -> str:
        """Of a lost lease: taken, expired or released; of an effect that was given up: give_up."""
        return str(self.problem.get("reason") or "")

    def __str__(self) -> str:
        where = f"{self.op}: " if self.op else ""
        return f"{where}{self.message} ({self.code})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (type(self), self.message, self.code, self.status, self.op, self.retry_after, self.problem))


def _restored(
    kind: type[PawlError], message: str, code: str, status: int, op: str, after: float, problem: dict[str, Any]
) -> PawlError:
    return kind(message, code=code, status=status, op=op, retry_after=after, problem=problem)


class InvalidError(PawlError):
    """The request is not well-formed; `fields` names what is wrong."""

    code = "invalid"


class StepChangedError(InvalidError):
    """A step, a sleep or a wait does not fit what was saved under its name: no later attempt can mend it."""


class UnauthenticatedError(PawlError):
    """There is no key, or one that is unknown, expired or revoked."""

    code = "unauthenticated"


class ForbiddenError(PawlError):
    """The caller may not do this."""

    code = "forbidden"


class NotFoundError(PawlError):
    """It does not exist in this namespace."""

    code = "not_found"


class ConflictError(PawlError):
    """The state forbids it; `state` says which state was found."""

    code = "conflict"


class LeaseLostError(PawlError):
    """The claim is not the current one: stop, another worker may have the item."""

    code = "lease_lost"


class KeyInFlightError(PawlError):
    """Another call with the idempotency key is in flight."""

    code = "key_in_flight"


class MovedError(PawlError):
    """The database, or the namespace, was moved to another one."""

    code = "moved"

    @property
    def url(self) -> str:
        """Where to go; "" = the operator has not said it."""
        return str(self.problem.get("url") or "")


class PreconditionError(PawlError):
    """The version that was asked for is an old one."""

    code = "precondition"


class TooLargeError(PawlError):
    """The body is over its limit."""

    code = "too_large"


class KeyReusedError(PawlError):
    """The idempotency key was used with another request."""

    code = "key_reused"


class KeyRequiredError(PawlError):
    """The server takes this call only with an idempotency key."""

    code = "key_required"


class LimitError(PawlError):
    """Over a limit; wait as long as `retry_after` says."""

    code = "limit"


class BudgetExhaustedError(PawlError):
    """The budget has less left than was asked for."""

    code = "budget_exhausted"


class EffectUnknownError(PawlError):
    """It is not known whether the effect happened, and it may not be repeated; a person decides."""

    code = "effect_unknown"

    @property
    def effect_id(self) -> str:
        """The effect."""
        return str(self.problem.get("effect_id") or "")


class InternalError(PawlError):
    """An error in the server, or an answer that is not the server's."""

    code = "internal"


class UnavailableError(PawlError):
    """The server does not answer, or its database does not."""

    code = "unavailable"


class QuarantinedError(PawlError):
    """The database is a copy or was moved, and nothing acts until it is adopted."""

    code = "quarantined"


CODES: dict[str, type[PawlError]] = {
    kind.code: kind
    for kind in (
        InvalidError,
        UnauthenticatedError,
        ForbiddenError,
        NotFoundError,
        ConflictError,
        LeaseLostError,
        KeyInFlightError,
        MovedError,
        PreconditionError,
        TooLargeError,
        KeyReusedError,
        KeyRequiredError,
        LimitError,
        BudgetExhaustedError,
        EffectUnknownError,
        InternalError,
        UnavailableError,
        QuarantinedError,
    )
}


def error_of(problem: Mapping[str, Any], *, op: str, retry_after: float = 0.0) -> PawlError:
    """The error of a problem document, also of a code that this version does not know."""
    code = str(problem.get("code") or "internal")
    status = problem.get("status")
    row = ERRORS.get(code)
    return CODES.get(code, PawlError)(
        str(problem.get("detail") or problem.get("title") or (row[2] if row else code)),
        code=code,
        status=status if isinstance(status, int) else 0,
        op=op,
        retry_after=retry_after,
        problem=problem,
    )


class TaskFailed(Exception):
    """Raised by `wait` and `result`: the task came to no result.

    Attributes:
        task: the task as it was read, also if it was cancelled or rejected.
    """

    def __init__(self, task: Mapping[str, Any]) -> None:
        super().__init__(task)
        self.task: dict[str, Any] = dict(task)

    @property
    def state(self) -> str:
        """The state of the task: failed, dead_lettered, rejected or cancelled."""
        return str(self.task.get("state") or "")

    @property
    def error(self) -> dict[str, Any] | None:
        """The error of the task: its code, message and detail. None = it has none, as when it was cancelled."""
        found = self.task.get("error")
        return found if isinstance(found, dict) else None

    def __str__(self) -> str:
        said = f"task {self.task.get('id')} of type {self.task.get('type')} is {self.state}"
        if self.error:
            code = self.error.get("code")
            said += f": {self.error.get('message')}" + (f" ({code})" if code else "")
        return said


class Permanent(Exception):
    """Raised by a handler: the item fails and is not tried again.

    `code` and `detail` become those of the item's error.
    """

    def __init__(self, message: str, *, code: str = "", detail: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail


class RetryAfter(Exception):
    """Raised by a handler: the item fails, and its next attempt comes after `seconds`; 0 = at once."""

    def __init__(self, seconds: float, message: str = "", *, code: str = "", detail: Any = None) -> None:
        super().__init__(message or f"to be tried again after {seconds:g} s")
        self.seconds = seconds
        self.code = code
        self.detail = detail


class Snooze(Exception):
    """Raised by a handler: the item is given back for `seconds`, and no failure is counted."""

    def __init__(self, seconds: float = 0) -> None:
        super().__init__(f"given back for {seconds:g} s")
        self.seconds = seconds


class Suspended(BaseException):
    """Raised by `sleep`, `wait_for` and `await_children`: the item is suspended.

    Let it pass. It is no `Exception`, so that `except Exception` does not stop it. The next
    attempt runs the handler from its beginning, and its steps are replayed.
    """


class ItemCancelled(Exception):
    """Raised in a handler whose item was cancelled: stop, its result would be refused."""


class MessageStopped(Exception):
    """Raised by the writer of a message that was stopped. A handler that lets it pass completes with no result."""


class SignalTimeout(Exception):
    """Raised by `wait_for` when its time is up and the signal was not sent."""
