"""The traces of the writes that produced copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from catalog.model.tracecontext import TraceContext
from catalog.telemetry.tracing import TraceSpans
from replication.deciding.copychecks import Incoming, MalformedCopy


def traces_of(copies: Iterable[Incoming]) -> Iterator[TraceContext]:
    """The traces of the writes that produced copies."""
    for copy in copies:
        if not isinstance(copy, MalformedCopy) and copy.trace is not None:
            yield copy.trace


def going_on(copies: Sequence[Incoming], spans: TraceSpans) -> Sequence[Incoming]:
    """The copies, with traces that continue from the spans of the node."""
    return [
        copy
        if isinstance(copy, MalformedCopy) or copy.trace is None
        else replace(copy, trace=spans.goes_on(copy.trace))
        for copy in copies
    ]
