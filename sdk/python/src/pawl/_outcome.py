"""What a handler came to, and how it is reported."""

from __future__ import annotations

import dataclasses
import traceback
from typing import Any, Literal

from ._errors import MessageStopped, PawlError, Permanent, RetryAfter, Snooze, StepChangedError
from ._job import Job
from ._json import dumps, plain

Verb = Literal["complete", "submit", "fail", "release"]

MAX_MESSAGE = 8 << 10
MAX_DETAIL = 16 << 10
MAX_DELAY_MS = 10 * 365 * 86_400_000


@dataclasses.dataclass
class Outcome:
    """What is to be reported for a job."""

    job: Job
    verb: Verb
    body: dict[str, Any]
    size: int = 0
    maybe_done: bool = False  # an earlier try may have been carried out
    tries: int = 0
    retry_at: float = 0.0

    def call(self) -> dict[str, Any]:
        """The call of a batch."""
        lease = self.job.lease
        return {"id": lease["id"], "worker_id": lease["worker_id"], "attempt": lease["attempt"], **self.body}


def completed(job: Job, result: Any) -> Outcome:
    """The outcome of a returned value. What is not JSON fails for good: another attempt returns it again."""
    try:
        tree = plain(result, "the result")
        size = len(dumps(tree, "the result"))
    except Exception as e:  # a model, an int of 4,300 digits and a depth raise other errors than TypeError
        said = text_of(e) if isinstance(e, TypeError) else f"the result is not JSON: {text_of(e)}"
        return failed(job, Permanent(said, code="invalid_result"))
    return Outcome(job, "complete", {"result": tree}, size)


def failed(job: Job, e: BaseException) -> Outcome:
    """The outcome of what a handler raised. It does not raise itself: the job would never end."""
    try:
        return _failed(job, e)
    except Exception as broken:
        said = f"what the handler raised, a {type(e).__qualname__}, cannot be reported: {text_of(broken)}"
        return _failed(job, Permanent(said, code="invalid_result"))


def _failed(job: Job, e: BaseException) -> Outcome:
    if isinstance(e, MessageStopped):
        return completed(job, None)
    if isinstance(e, Snooze):
        delay = _whole(e.seconds, MAX_DELAY_MS // 1000)
        return Outcome(job, "release", {"delay_seconds": delay} if e.seconds > 0 else {})
    error: dict[str, Any] = {"message": text_of(e)}
    if isinstance(e, (Permanent, RetryAfter)):
        code, detail = e.code, e.detail
    else:
        code = e.code if isinstance(e, PawlError) else ""
        detail = {"type": type(e).__qualname__, "traceback": trace_of(e)}
    if code:
        error["code"] = clean(code, 120)
    if detail is not None:
        error["detail"] = detail_of(detail)
    body: dict[str, Any] = {"error": {k: v for k, v in error.items() if v is not None}}
    if isinstance(e, (Permanent, StepChangedError)):
        body["retryable"] = False
    if isinstance(e, RetryAfter):
        body["retry_after_ms"] = _whole(e.seconds * 1000, MAX_DELAY_MS)
    return Outcome(job, "fail", body)


def _whole(delay: float, most: int) -> int:
    """A delay as a whole number of at least 0; infinity is the most."""
    return round(min(delay, most)) if delay > 0 else 0


def text_of(e: BaseException) -> str:
    """What an error says, in a form that the server takes."""
    try:
        said = str(e)
    except Exception:
        said = ""
    return clean(said, MAX_MESSAGE) or type(e).__qualname__


def trace_of(e: BaseException) -> str:
    """The end of the traceback."""
    text = "".join(traceback.format_exception(type(e), e, e.__traceback__))
    return clean(text[-MAX_MESSAGE:], MAX_DETAIL)


def detail_of(detail: Any) -> Any:
    """The detail of an error, or None if the server would refuse it."""
    try:
        data = dumps(detail, "the detail")
        tree = plain(detail)
    except Exception:
        return None
    return tree if len(data) <= 3 * MAX_DETAIL and b"\\u0000" not in data else None


def clean(text: str, most: int) -> str:
    """Text as valid UTF-8 without NUL, of at most so many bytes."""
    data = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    if len(data) > most:
        data = data[: most - 3]
        return data.decode("utf-8", "ignore") + "…"
    return data.decode("utf-8")
