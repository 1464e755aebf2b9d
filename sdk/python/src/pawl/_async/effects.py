"""Calls to the outside that change something there, and what is known of them."""

from __future__ import annotations

import dataclasses
import itertools
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .. import types as t
from .._codec import decode, hints_of
from .._effects import EffectOptions, NotDone, Probed
from .._errors import BudgetExhaustedError, EffectUnknownError, InvalidError, LeaseLostError, PawlError, Permanent
from .._json import dumps, hash_of, loads
from .._lease import transient
from .._outcome import text_of
from .._rules import LONGEST_WAIT
from . import _io
from .connection import AsyncCall, AsyncPages
from .items import _set, fence

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .context import AsyncContext

T = TypeVar("T")

REPORT_TIMEOUT = 10.0
REPORT_TRIES = 8
WAIT_SECONDS = 60


class AsyncEffectCalls:
    """The calls about effects. A lease is what `claim` returned, or a dict with its id, worker_id and attempt."""

    _call: AsyncCall

    def list_effects(self, **query: Unpack[t.ListEffectsQuery]) -> AsyncPages[t.EffectRecord]:
        """Lists effects, newest first."""
        return AsyncPages(self._call, "list_effects", "", dict(query))

    async def get_effect(self, id: str) -> t.EffectRecord:
        """Reads an effect: whether it happened, and who says so."""
        return await self._call.call("get_effect", id)

    async def effect_receipt(self, id: str) -> t.EffectReceipt:
        """Proves what became of an effect: its events in the signed log."""
        return await self._call.call("effect_receipt", id)

    async def open_effect(
        self,
        lease: t.Fence,
        name: str,
        request_hash: str,
        *,
        key: str | None = None,
        repeatable: bool = False,
        budget: str | None = None,
        amount: int | None = None,
        approve: bool = False,
        wait_seconds: int = 0,
        lease_seconds: int | None = None,
    ) -> t.OpenedEffect:
        """Asks for the right to send an effect. If the answer says `send`, send it and report what came of it.

        With `lease_seconds` a gate sends it, under a lease of its own that `keep_effect` extends.
        """
        more = _set(key=key, repeatable=repeatable or None, budget=budget, amount=amount, approve=approve or None)
        more |= _set(lease_seconds=lease_seconds)
        body = {**_held(lease), "name": name, "request_hash": request_hash, **more, "wait_seconds": wait_seconds}
        return await self._call.call("open_effect", body=body, wait=float(min(max(wait_seconds, 0), WAIT_SECONDS)))

    async def effect_done(
        self, lease: t.Fence, id: str, answer: Any = None, *, amount: int | None = None, sending: int | None = None
    ) -> t.EffectRecord:
        """Reports that an effect happened. `sending` is that of open_effect. A late report is kept, never refused."""
        body = {**_held(lease), "answer": answer, **_set(amount=amount, sending=sending)}
        return await self._call.call("report_effect_done", id, body)

    async def effect_failed(
        self, lease: t.Fence, id: str, error: str | t.Failure, *, sending: int | None = None
    ) -> t.EffectRecord:
        """Reports that an effect is known not to have happened. `sending` is that of open_effect."""
        body = {**_held(lease), "error": _failure(error), **_set(sending=sending)}
        return await self._call.call("report_effect_failed", id, body)

    async def effect_unknown(
        self, lease: t.Fence, id: str, error: str | t.Failure | None = None, *, sending: int | None = None
    ) -> t.EffectRecord:
        """Reports that it is not known whether an effect happened. `sending` is that of open_effect."""
        more = {} if error is None else {"error": _failure(error)}
        return await self._call.call("report_effect_unknown", id, {**_held(lease), **more, **_set(sending=sending)})

    async def keep_effect(self, lease: t.Fence, id: str, lease_seconds: int) -> t.EffectRecord:
        """Extends the lease of a gate on an effect that it sends."""
        return await self._call.call("keep_effect", id, {**_held(lease), "lease_seconds": lease_seconds})

    async def approve_effect(self, id: str, *, comment: str | None = None) -> t.EffectRecord:
        """Lets an effect be sent that waits for it."""
        return await self._call.call("approve_effect", id, _set(comment=comment))

    async def reject_effect(self, id: str, *, comment: str | None = None) -> t.EffectRecord:
        """Refuses an effect that waits to be sent, for good."""
        return await self._call.call("reject_effect", id, _set(comment=comment))

    async def resolve_effect(
        self, id: str, outcome: str, *, answer: Any = None, comment: str | None = None
    ) -> t.EffectRecord:
        """Decides about an unknown effect: `happened`, perhaps with its answer, `did_not_happen` or `give_up`."""
        body = {"outcome": outcome, **_set(answer=answer, comment=comment)}
        return await self._call.call("resolve_effect", id, body)


def _held(lease: Mapping[str, Any]) -> dict[str, Any]:
    return {"item_id": lease["id"], **fence(lease)}


def _failure(error: str | t.Failure) -> Mapping[str, Any]:
    return {"message": error} if isinstance(error, str) else error


@dataclasses.dataclass
class AsyncEffect:
    """One effect of a handler."""

    ctx: AsyncContext
    name: str
    options: EffectOptions
    probe: Callable[[str], Awaitable[Probed] | Probed] | None

    async def run(self, fn: Callable[[str], Awaitable[T] | T]) -> T:
        """Sends the effect, or returns its recorded answer."""
        try:
            opened = await self._open(0)
            if opened["state"] == "open" and not opened["send"]:  # another task or call sends it
                opened = await self._open(WAIT_SECONDS)
        except EffectUnknownError as e:
            opened = await self._reconcile(e)
        id = opened["id"]
        if opened["send"]:
            answer = await self._send(opened, fn)
        elif opened["state"] == "done":
            answer = opened.get("answer")
        elif opened["state"] == "failed":
            raise Permanent(f"effect {id} was rejected")
        elif opened["state"] == "open":
            raise PawlError(f"effect {id} is being sent by another", code="conflict", op="open_effect")
        else:
            await self._suspend(id)
        out: T = decode(hints_of(fn).get("return", Any), answer)
        return out

    async def _open(self, wait_seconds: int) -> t.OpenedEffect:
        o = self.options
        body = {
            **_held(self.ctx.lease),
            "name": self.name,
            "request_hash": hash_of(o.request),
            "wait_seconds": wait_seconds,
            "approve": o.approve,
            "repeatable": o.repeats,
            **_set(key=o.key, budget=o.budget, amount=o.amount),
        }
        try:
            out: t.OpenedEffect = await self.ctx._send("open_effect", "", body, others=True, wait=float(wait_seconds))
        except BudgetExhaustedError as e:
            await self.ctx._exhausted(o.amount or 0, e)
            raise
        return out

    async def _send(self, opened: t.OpenedEffect, fn: Callable[[str], Awaitable[T] | T]) -> Any:
        """Calls the function and reports what came of it, also if the claim is over by then."""
        lease, id, sending = self.ctx.lease, opened["id"], opened.get("sending")
        try:
            answer = loads(dumps(await _io.resolve(fn(opened["key"])), f"the answer of effect {self.name!r}"))
        except BaseException as e:
            try:
                why = text_of(e)
                if isinstance(e, NotDone):
                    await self._report(lambda calls: calls.effect_failed(lease, id, why, sending=sending))
                else:
                    await self._report(lambda calls: calls.effect_unknown(lease, id, why, sending=sending))
            except PawlError:
                pass  # what fn raised says more; the end of the attempt makes it unknown
            raise
        await self._report(lambda calls: calls.effect_done(lease, id, answer, sending=sending))
        return answer

    async def _reconcile(self, e: EffectUnknownError) -> t.OpenedEffect:
        """Does what the options say about an unknown effect."""
        id, on = e.effect_id, self.options.unknown
        if e.reason == "give_up" or on == "fail" or not id:
            raise Permanent(e.message, code=e.code) from e
        if on == "probe" and self.probe is not None:
            found: Probed | None = None
            try:
                found = await _io.resolve(self.probe(self.options.key or f"{self.ctx.item_id}/{self.name}"))
            except Exception:
                pass  # it does not know either: a person decides
            if found is not None:
                return await self._probed(id, found)
        await self._suspend(id)
        raise AssertionError("a suspended handler goes on")

    async def _probed(self, id: str, found: Probed) -> t.OpenedEffect:
        lease = self.ctx.lease
        try:
            if found.happened:
                answer = loads(dumps(found.answer, "the answer of the probe"))
                await self._report(lambda calls: calls.effect_done(lease, id, answer))
            else:
                error: t.Failure = {"code": "probe", "message": "the outside does not know it"}
                await self._report(lambda calls: calls.effect_failed(lease, id, error), key=secrets.token_hex(16))
        except LeaseLostError:  # this attempt may not say so, as in a fork
            await self._suspend(id)
        return await self._open(0)

    async def _report(
        self, send: Callable[[AsyncEffectCalls], Awaitable[Any] | object], key: str | None = None
    ) -> None:
        """Sends a report, and again after what may pass: it is lost otherwise.

        It is sent for as long as the lease may be valid, and some times when the claim is over.

        One that names no sending needs a key: a try that comes late would be about a later sending.
        """
        await _io.finish(self._tell(send, key))

    async def _tell(self, send: Callable[[AsyncEffectCalls], Awaitable[Any] | object], key: str | None) -> Any:
        calls = self.ctx.client.with_options(timeout=REPORT_TIMEOUT, tries=1, idempotency_key=key)
        for n in itertools.count(1):
            try:
                await _io.resolve(send(calls))
                return
            except PawlError as e:
                over = n >= REPORT_TRIES and not self.ctx._job.may_hold()
                if over or not transient(e) or e.retry_after > LONGEST_WAIT:
                    raise
                wait = max(min(0.05 * 2.0 ** min(n - 1, 10), 5.0) * (0.75 + random.random() / 2), e.retry_after)
            await _io.sleep(wait)

    async def _suspend(self, id: str) -> None:
        await self.ctx._suspend(signal="pawl.effect", key=id)


def options_of(probe: Any, on_unknown: str | None, **options: Any) -> EffectOptions:
    """The options of an effect. A word that is not known is an InvalidError, before anything is sent."""
    if on_unknown not in (None, "probe", "repeat", "ask", "fail"):
        raise InvalidError(f"on_unknown is probe, repeat, ask or fail, not {on_unknown!r}", op="effect")
    default = "probe" if probe is not None else "repeat" if options["repeatable"] else "ask"
    return EffectOptions(unknown=on_unknown or default, **options)
