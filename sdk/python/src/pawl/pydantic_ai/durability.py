"""PawlDurability, the capability that makes the runs of an agent durable."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperationBackend,
    DurableOperationId,
    JournalCallableOperationBackend,
    RoleBasedOperationConfig,
    conversation_id_from_run_id,
)
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT

from .. import _ask
from .. import types as t
from .._ask import Decision
from .._async.context import AsyncContext
from .._errors import Permanent

#: The type of the tasks that ask a person about a call of a tool. Register it with `approval_type`.
APPROVAL_TYPE = "pydantic-ai.approval"

MAX_NAME = 255  # characters of the name of a step

Ask = Callable[[AsyncContext, str, ToolCallPart], Awaitable[Decision]]


def approval_type() -> t.Type:
    """The definition of APPROVAL_TYPE: its results wait for a person.

    `client.put_type(APPROVAL_TYPE, approval_type())` registers it. Change it as you like, for example who may approve.
    """
    return _ask.approval_type(APPROVAL_TYPE)


@dataclasses.dataclass
class _Running:
    """A run in a handler."""

    ctx: AsyncContext
    name: str
    counts: dict[str, int] = dataclasses.field(default_factory=dict)

    def next(self, what: str) -> str:
        """The name of the next step of a kind."""
        n = self.counts[what] = self.counts.get(what, 0) + 1
        return self.named(f"{what} {n}")

    def approval(self, id: str) -> str:
        """The name of a question about a call. A model may give an id again: a later question has a number too."""
        n = self.counts[f"approval {id}"] = self.counts.get(f"approval {id}", 0) + 1
        return self.named(f"approval {id}" if n == 1 else f"approval {id}#{n}")

    def named(self, what: str) -> str:
        again = f" (rework {self.ctx.rework})" if self.ctx.rework else ""
        name = f"{self.name}{again} {what}"
        return name if len(name) <= MAX_NAME else "sha256-" + hashlib.sha256(name.encode()).hexdigest()


_running: ContextVar[_Running | None] = ContextVar("pawl_pydantic_ai", default=None)


async def run(
    ctx: AsyncContext,
    agent: Agent[Any, Any],
    prompt: Any = None,
    *,
    name: str = "run",
    ask: Ask | None = None,
    **options: Any,
) -> AgentRunResult[Any]:
    """Runs an agent that has PawlDurability in a handler. A later attempt makes no call twice.

    Each request of a model, each call of a tool and each listing of tools of a server of MCP is a step of
    the item, saved before its result is used. An attempt after a crash runs the agent from its beginning and gets
    the saved results, so the agent must be the same. Two runs in one handler need different names. Another agent
    that a tool runs is part of the tool's step, unless `run` runs it too, under a name of its own.

    A tool that needs approval waits for a person, without a lease, if DeferredToolRequests is among the
    agent's output types: see `ask_person`; `ask` decides in another way. `options` are those of `Agent.run`.
    """
    if PawlDurability.from_agent(agent) is None:
        raise ValueError("the agent has no PawlDurability among its capabilities")
    running = _Running(ctx, name)
    token = _running.set(running)
    try:
        result = await agent.run(prompt, **options)
        while isinstance(result.output, DeferredToolRequests) and not result.output.calls:
            answers = DeferredToolResults()
            for call in result.output.approvals:
                decision = await (ask or ask_person)(ctx, running.approval(call.tool_call_id), call)
                answers.approvals[call.tool_call_id] = decision.approved or ToolDenied(
                    decision.reason or "It was denied."
                )
            options["message_history"] = result.all_messages()
            result = await agent.run(deferred_tool_results=answers, **options)
        return result
    finally:
        _running.reset(token)


async def ask_person(ctx: AsyncContext, name: str, call: ToolCallPart) -> Decision:
    """Asks a person by a task of APPROVAL_TYPE. Rejected, the model is told the reason."""
    asked = {"tool": call.tool_name, "arguments": call.args_as_dict()}
    return await _ask.ask_person(ctx, APPROVAL_TYPE, name, asked)


class _Backend(JournalCallableOperationBackend[None]):
    """Runs an operation as a step."""

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: None,
    ) -> object:
        running = _running.get()
        assert running is not None  # else the operation is not durable
        # Tools run at the same time: a call is known by its id, not by its place in the order.
        ids = [c.tool_call_id for c in cache_key if isinstance(c, RunContext) and c.tool_call_id]
        step = running.next(f"{name} {ids[0]}" if ids else name)

        async def call() -> Any:
            token = _running.set(None)  # what a tool calls, such as another agent, is part of the tool's step
            try:
                return await body()
            finally:
                _running.reset(token)

        return await running.ctx.step(step, call)


class PawlDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes the runs of an agent durable that `pawl.pydantic_ai.run` starts. Other runs are as without it.

    The agent needs a name, which is in the names of its steps: keep it. models, event_stream_handler and
    name are those of every durability capability of Pydantic AI: `models` registers models that a run may switch to.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Pawl",
        durable_unit_noun="step",
        durable_container_noun="handler",
        codec=JSON_CODEC,
        serialization_failure=lambda e: Permanent(f"a step's result is no JSON: {e}", code="invalid_result"),
        toolset_lifecycles={"function": "enter-always", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"},
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
    )

    @property
    def in_durable_context(self) -> bool:
        return _running.get() is not None

    def get_durable_operation_backend(self) -> DurableOperationBackend[None]:
        config = RoleBasedOperationConfig[None](model=None, event=None, capability=None, tool=None)
        return _Backend(agent_name=self.name, default_model_id=self.default_model_id, config=config)

    def get_default_run_id(self) -> str | None:
        running = _running.get()
        return None if running is None else f"{running.ctx.item_id}:{running.next(f'{self.name} run')}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    async def get_run_start_time(self, run_id: str) -> datetime | None:
        running = _running.get()
        if running is None:
            return None
        ctx = running.ctx
        saved: str = await ctx.step(running.next(f"{self.name} start"), lambda: ctx.now().isoformat())
        return datetime.fromisoformat(saved)
