"""Ids of spans, for a TracerProvider of the OpenTelemetry SDK. A worker makes spans without this module too."""

from __future__ import annotations

from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator

from ._trace import asked

__all__ = ["PawlIds"]


class PawlIds(IdGenerator):
    """Ids of attempts that follow from the item and the number of the attempt; all others are random.

    So an attempt links to the one before it, also when that died in another process.

        TracerProvider(id_generator=PawlIds())
    """

    def __init__(self) -> None:
        self._others = RandomIdGenerator()

    def generate_span_id(self) -> int:
        """The id of the attempt that starts, or a random one."""
        ids = asked.get()
        return self._others.generate_span_id() if ids is None else ids[1]

    def generate_trace_id(self) -> int:
        """The id of the trace of the attempt that starts, or a random one."""
        ids = asked.get()
        return self._others.generate_trace_id() if ids is None else ids[0]
