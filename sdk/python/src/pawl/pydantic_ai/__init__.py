"""Durable runs of Pydantic AI.

    from pawl.pydantic_ai import PawlDurability, run

    agent = Agent("openai:gpt-5", name="reporter", capabilities=[PawlDurability()])

    @worker.handler("report")
    async def report(ctx: pawl.AsyncContext) -> str:
        result = await run(ctx, agent, ctx.input["question"])
        return result.output

It needs the package `pydantic-ai` or `pydantic-ai-slim`.
"""

from .._ask import Decision
from .durability import APPROVAL_TYPE, PawlDurability, approval_type, run

__all__ = ["APPROVAL_TYPE", "Decision", "PawlDurability", "approval_type", "run"]
