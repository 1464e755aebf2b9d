"""A session store of the Claude Agent SDK.

    from pawl.claude_agent_sdk import PawlSessionStore

    options = ClaudeAgentOptions(session_store=PawlSessionStore("http://127.0.0.1:7033"))

It needs the package `claude-agent-sdk`.
"""

from .store import SESSION_TYPE, PawlSessionStore

__all__ = ["SESSION_TYPE", "PawlSessionStore"]
