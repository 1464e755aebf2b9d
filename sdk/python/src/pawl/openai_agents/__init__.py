"""Durable runs and sessions of the OpenAI Agents SDK.

    from pawl.openai_agents import PawlSession, run

    @worker.handler("report")
    async def report(ctx: pawl.AsyncContext) -> str:
        result = await run(ctx, agent, ctx.input["question"])
        return result.final_output

It needs the package `openai-agents`.
"""

from .._ask import Decision
from .runner import APPROVAL_TYPE, approval_type, run
from .session import SESSION_TYPE, PawlSession

__all__ = ["APPROVAL_TYPE", "SESSION_TYPE", "Decision", "PawlSession", "approval_type", "run"]
