"""Runs of agents whose calls of models and tools are steps."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import importlib.metadata
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from agents import Agent, FunctionTool, Handoff, RunConfig, RunContextWrapper, Runner, RunResult, RunResultStreaming
from agents.exceptions import ModelBehaviorError
from agents.items import ModelResponse, ToolApprovalItem, TResponseInputItem, TResponseStreamEvent
from agents.memory import Session, SessionABC
from agents.models.interface import Model, ModelProvider
from agents.tool_context import ToolContext
from openai.types.responses import Response, ResponseCompletedEvent
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from .. import _ask, _trace
from .. import types as t
from .._ask import Decision
from .._async.context import AsyncContext
from .._errors import Permanent
from .._json import dumps
from .session import PawlSession

T = TypeVar("T")

#: The type of the tasks that ask a person about a call of a tool. Register it with `approval_type`.
APPROVAL_TYPE = "openai-agents.approval"

MAX_NAME = 255  # characters of the name of a step
MAX_PART = (1 << 20) // 2  # bytes of a session's items in one step
PAUSED = "openai-agents.paused"  # the member of a step's result that has the state of an agent that waits
#: Whether this version of the SDK says which tools are agents. It does so in attributes that it does not document.
MARKED = hasattr(FunctionTool, "_is_agent_tool") and hasattr(FunctionTool, "_agent_instance")

_responses = TypeAdapter(ModelResponse)


def approval_type() -> t.Type:
    """The definition of APPROVAL_TYPE: its results wait for a person.

    `client.put_type(APPROVAL_TYPE, approval_type())` registers it. Change it as you like, for example who may approve.
    """
    return _ask.approval_type(APPROVAL_TYPE)


Ask = Callable[[AsyncContext, str, ToolApprovalItem], Awaitable[Decision]]
Told = Callable[[Any], Awaitable[None]]


async def run(
    ctx: AsyncContext,
    agent: Agent[Any],
    input: str | list[TResponseInputItem],
    *,
    name: str = "run",
    run_config: RunConfig | None = None,
    session: Session | None = None,
    on_event: Told | None = None,
    ask: Ask | None = None,
    **options: Any,
) -> RunResult | RunResultStreaming:
    """Runs an agent in a handler. A later attempt makes no call of a model or a function tool twice.

    Each call is a step of the item, saved before its result is used. An attempt after a crash runs the
    agent from its beginning and gets the saved results, so the agent must be the same, and what is not
    a model, a function tool or the session must not depend on time or chance. Two runs in one handler need
    different names. An agent that is used as a tool is one step as a whole, and one more after each time
    that it waits for an approval. Hosted tools belong to the call of their model; servers of MCP are asked again.

    A tool with `needs_approval` waits for a person, without a lease: see `ask_person`; `ask` decides in
    another way. With `on_event` the run is streamed, and each event is passed on; calls that an earlier
    attempt made come as their last event alone. `options` are those of `Runner.run`.
    """
    steps = _Steps(ctx, name)
    config = run_config or RunConfig()
    model = steps.model(config.model) if isinstance(config.model, Model) else config.model
    config = dataclasses.replace(config, model=model, model_provider=_Provider(config.model_provider, steps))
    kept = None if session is None else _StepSession(session, steps)
    known: dict[int, tuple[Agent[Any], Agent[Any]]] = {}
    durable = steps.agent(agent, known)
    state: Any = input
    while True:
        result: RunResult | RunResultStreaming
        if on_event is None:
            result = await Runner.run(durable, state, run_config=config, session=kept, **options)
        else:
            result = Runner.run_streamed(durable, state, run_config=config, session=kept, **options)
            async for event in result.stream_events():
                await on_event(event)
        if not result.interruptions:
            return result
        state = result.to_state()
        for item in result.interruptions:
            if not MARKED and all(item.agent is not copy for _, copy in known.values()):
                raise _unsupported()
            decision = await (ask or ask_person)(ctx, steps.approval(item.call_id), item)
            if decision.approved:
                state.approve(item)
            else:
                state.reject(item, rejection_message=decision.reason or None)


async def ask_person(ctx: AsyncContext, name: str, item: ToolApprovalItem) -> Decision:
    """Asks a person by a task of APPROVAL_TYPE. Rejected, the model is told the reason."""
    asked = {"agent": item.agent.name, "tool": item.tool_name, "arguments": item.arguments}
    return await _ask.ask_person(ctx, APPROVAL_TYPE, name, asked)


#: The runs whose tools are around the caller. What these call is part of the step of the tool.
_in_tools: ContextVar[tuple[_Steps, ...]] = ContextVar("pawl_openai_agents", default=())


class _Steps:
    """The steps of one run."""

    def __init__(self, ctx: AsyncContext, name: str) -> None:
        self.ctx, self.name = ctx, name
        self._counts: dict[str, int] = {}

    def named(self, what: str) -> str:
        again = f" (rework {self.ctx.rework})" if self.ctx.rework else ""
        name = f"{self.name}{again} {what}"
        return name if len(name) <= MAX_NAME else "sha256-" + hashlib.sha256(name.encode()).hexdigest()

    def count(self, what: str) -> int:
        n = self._counts[what] = self._counts.get(what, 0) + 1
        return n

    def next(self, what: str) -> str:
        """The name of the next call of a kind. Calls of the session, as those of models, come one after the other."""
        return self.named(f"{what} {self.count(what)}")

    def approval(self, id: str | None) -> str:
        """The name of a question about a call. Agents that are tools may give an id again: a later one has a number."""
        n = self.count(f"approval {id}")
        return self.named(f"approval {id}" if n == 1 else f"approval {id}#{n}")

    async def turn(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """The next turn of a model. A call that failed has none: a retry in the same attempt has its name again."""
        if self in _in_tools.get():  # an agent that is used as a tool takes the models of the run
            return await call()
        n = self._counts.get("model", 0) + 1
        saved = await self.ctx.step(self.named(f"model {n}"), call)
        self._counts["model"] = n
        return saved

    def model(self, model: Model) -> Model:
        return model if isinstance(model, _StepModel) else _StepModel(model, self)

    def agent(self, agent: Agent[Any], known: dict[int, tuple[Agent[Any], Agent[Any]]]) -> Agent[Any]:
        """A copy of an agent, and of those that it hands off to, whose calls are steps."""
        if id(agent) in known:
            return known[id(agent)][1]
        copy = agent.clone(tools=[self.tool(tool) for tool in agent.tools])
        known[id(agent)] = agent, copy  # an agent that is kept keeps its id
        if isinstance(agent.model, Model):
            copy.model = self.model(agent.model)
        copy.handoffs = [
            self.agent(h, known) if isinstance(h, Agent) else self.handoff(h, known) for h in agent.handoffs
        ]
        return copy

    def handoff(self, handoff: Handoff[Any, Any], known: dict[int, tuple[Agent[Any], Agent[Any]]]) -> Handoff[Any, Any]:
        """A copy of a handoff, to an agent whose calls are steps."""

        async def invoke(context: RunContextWrapper[Any], arguments: str) -> Any:
            agent = await handoff.on_invoke_handoff(context, arguments)
            return self.agent(agent, known) if isinstance(agent, Agent) else agent

        return dataclasses.replace(handoff, on_invoke_handoff=invoke)

    def tool(self, tool: Any) -> Any:
        if not isinstance(tool, FunctionTool):
            return tool
        nested = _nested_of(tool)

        async def run_tool(context: ToolContext[Any], arguments: str) -> Any:
            token = _in_tools.set((*_in_tools.get(), self))
            try:
                return await tool.on_invoke_tool(context, arguments)
            finally:
                _in_tools.reset(token)

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            ran = False

            async def call() -> Any:
                nonlocal ran
                ran = True
                with _trace.tool(tool.name, context.tool_call_id, self.ctx.item_id):
                    result = await run_tool(context, arguments)
                if nested is not None and (state := nested.paused(context)) is not None:
                    return {PAUSED: state}
                try:
                    return to_jsonable_python(result)
                except ValueError:
                    return str(result)

            what = f"tool {context.tool_call_id}"
            n = self.count(what) if nested is not None else 1
            saved = await self.ctx.step(self.named(what if n == 1 else f"{what} {n}"), call)
            if not (nested is not None and isinstance(saved, dict) and PAUSED in saved):
                return saved
            if not ran:  # the agent of an earlier attempt waits again
                await nested.restore(tool, context, saved[PAUSED])
                await run_tool(context, arguments)
            return None

        return dataclasses.replace(tool, on_invoke_tool=invoke)


def _nested_of(tool: FunctionTool) -> ModuleType | None:
    """What saves the waits of an agent that is used as a tool; None = the tool is none."""
    if not (MARKED and tool._is_agent_tool):
        return None
    try:
        from . import _nested
    except ImportError as e:
        raise _unsupported() from e
    return _nested


def _unsupported() -> Permanent:
    version = importlib.metadata.version("openai-agents")
    return Permanent(
        f"the waits of an agent that is used as a tool cannot be saved with openai-agents {version}; install 0.24",
        code="unsupported",
    )


class _Provider(ModelProvider):
    def __init__(self, inner: ModelProvider, steps: _Steps) -> None:
        self._inner, self._steps = inner, steps

    def get_model(self, model_name: str | None) -> Model:
        return self._steps.model(self._inner.get_model(model_name))

    async def aclose(self) -> None:
        await self._inner.aclose()


class _StepModel(Model):
    def __init__(self, inner: Model, steps: _Steps) -> None:
        self._inner, self._steps = inner, steps

    def _span(self) -> AbstractContextManager[_trace.Span]:
        kind = type(self._inner)
        provider = "openai" if kind.__module__.startswith("agents.models.openai_") else ""
        return _trace.chat(str(getattr(self._inner, "model", kind.__name__)), provider, self._steps.ctx.item_id)

    async def close(self) -> None:
        await self._inner.close()

    def get_retry_advice(self, request: Any) -> Any:
        return self._inner.get_retry_advice(request)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        async def call() -> Any:
            with self._span() as span:
                response = await self._inner.get_response(*args, **kwargs)
                _used(span, response.usage)
            return _responses.dump_python(response, mode="json", exclude_unset=True)

        return _responses.validate_python(await self._steps.turn(call))

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        events: asyncio.Queue[TResponseStreamEvent | None] = asyncio.Queue()
        last: Response | None = None

        async def call() -> Any:
            nonlocal last
            with self._span() as span:
                async for event in self._inner.stream_response(*args, **kwargs):
                    if isinstance(event, ResponseCompletedEvent):
                        last = event.response
                        _used(span, last.usage)
                    else:
                        events.put_nowait(event)
            if last is None:  # it broke off, or said response.failed: nothing to save
                raise ModelBehaviorError("the stream of the model ended without response.completed")
            return last.model_dump(mode="json", exclude_unset=True)

        async def step() -> Any:
            try:
                return await self._steps.turn(call)
            finally:
                events.put_nowait(None)

        working = asyncio.ensure_future(step())
        working.add_done_callback(lambda w: w.cancelled() or w.exception())  # the reader may have gone before
        try:
            while (event := await events.get()) is not None:
                yield event
            saved = await working
        finally:
            working.cancel()
        response = last or Response.model_validate(saved)  # it is saved before it is used
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


def _used(span: _trace.Span, usage: Any) -> None:
    """Says how many tokens a turn took."""
    if usage is not None:
        span.set({"gen_ai.usage.input_tokens": usage.input_tokens, "gen_ai.usage.output_tokens": usage.output_tokens})


class _StepSession(SessionABC):
    """A session whose calls are steps, so that a later attempt sees what the first one saw, and adds nothing twice."""

    def __init__(self, inner: Session, steps: _Steps) -> None:
        self._inner, self._steps = inner, steps
        self.session_id = inner.session_id
        self.session_settings = inner.session_settings

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        name, ctx = self._steps.next("session"), self._steps.ctx

        async def call() -> Any:
            parts = _parts(await self._inner.get_items(limit))
            if len(parts) <= 1:
                return parts[0] if parts else []
            # They are saved before their names are: a later attempt that saves others gives them other names.
            names = [f"sha256-{hashlib.sha256(name.encode() + dumps(part)).hexdigest()}" for part in parts]
            for step, items in dict(zip(names, parts, strict=True)).items():  # equal parts have one step
                await ctx.step(step, partial(list, items))
            return {"parts": names}

        saved: Any = await ctx.step(name, call)
        if isinstance(saved, list):
            return saved
        return [item for step in saved["parts"] for item in await ctx.step(step, _gone)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        name = self._steps.next("session")

        async def call() -> Any:
            if isinstance(self._inner, PawlSession):
                await self._inner.add_items(items, key=f"{self._steps.ctx.item_id} {name}")
            else:
                await self._inner.add_items(items)

        await self._steps.ctx.step(name, call)

    async def pop_item(self) -> TResponseInputItem | None:
        return await self._step(self._inner.pop_item)

    async def clear_session(self) -> None:
        await self._step(self._inner.clear_session)

    async def _step(self, fn: Callable[[], Awaitable[T]]) -> T:
        async def call() -> Any:  # JSON as it is
            return await fn()

        result: T = await self._steps.ctx.step(self._steps.next("session"), call)
        return result


def _gone() -> list[Any]:
    raise Permanent("a part of the session's items that was saved is gone", code="not_found")


def _parts(items: list[Any]) -> list[list[Any]]:
    """The items in lists, each of which a step can save."""
    parts: list[list[Any]] = []
    size = MAX_PART
    for item in items:
        length = len(dumps(item)) + 1
        size += length
        if size > MAX_PART:
            parts.append([])
            size = length
        parts[-1].append(item)
    return parts
