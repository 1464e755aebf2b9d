"""Agents that are used as tools and wait. The SDK does not document what this stands on: other versions may lack it."""

from __future__ import annotations

from typing import Any

from agents import FunctionTool
from agents.agent_tool_state import (
    get_agent_tool_state_scope,
    peek_agent_tool_run_result,
    record_agent_tool_resume_state,
)
from agents.run_state import RunState
from agents.tool_context import ToolContext


def paused(context: ToolContext[Any]) -> dict[str, Any] | None:
    """The state of an agent that waits for an approval in a call; None = it does not wait."""
    if context.tool_call is None:
        return None
    result = peek_agent_tool_run_result(context.tool_call, scope_id=get_agent_tool_state_scope(context))
    if result is None or not result.interruptions:
        return None
    return _without_context(result.to_state().to_json(context_serializer=lambda _: {}))


def _without_context(state: dict[str, Any]) -> dict[str, Any]:
    """Removes the caller's context, which each attempt has anew. It may hold secrets, and what is no JSON."""
    state["context"]["context"] = {}
    for call in (state.get("last_processed_response") or {}).get("functions", ()):
        if "agent_run_state" in call:
            _without_context(call["agent_run_state"])
    return state


async def restore(tool: FunctionTool, context: ToolContext[Any], saved: dict[str, Any]) -> None:
    """Lets the agent of a call go on from a saved state, with the context of this attempt."""
    if context.tool_call is None:
        return
    state = await RunState.from_json(tool._agent_instance, saved, context_deserializer=lambda _: context.context)
    record_agent_tool_resume_state(context.tool_call, state, scope_id=get_agent_tool_state_scope(context))
