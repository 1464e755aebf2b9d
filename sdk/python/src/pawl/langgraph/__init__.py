"""Checkpoints of LangGraph in Pawl.

    from pawl.langgraph import PawlSaver

    graph = builder.compile(checkpointer=PawlSaver("http://127.0.0.1:7033"))

It needs the package `langgraph-checkpoint`, which `langgraph` brings.
"""

from .saver import THREAD_TYPE, PawlSaver

__all__ = ["THREAD_TYPE", "PawlSaver"]
