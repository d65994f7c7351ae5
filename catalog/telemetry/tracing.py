"""Spans of the work of a process, if a collector is named; the trace is always passed on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal, TypeAlias

import structlog

from catalog import install_command
from catalog.model.tracecontext import TraceContext, current_trace

_log = structlog.get_logger(__name__)

Kind: TypeAlias = Literal["server", "internal", "client", "consumer"]
Attributes: TypeAlias = Mapping[str, str | int]

_MOST_AT_ONCE = 100
_NOTHING: Attributes = {}
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Span:
    """A part of a trace; `context` is the parent of further spans, or `None` without a trace."""

    __slots__ = ("context",)

    def __init__(self, context: TraceContext | None) -> None:
        self.context = context

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""

    def end(self, error: str = "") -> None:
        """End the span; `error` is the reason of a failure."""


class TraceSpans:
    """Spans for the same work in several traces; `error` is the reason of a failure."""

    def __init__(self, spans: Mapping[TraceContext, Span]) -> None:
        self._spans = spans
        self.error = ""

    def goes_on(self, trace: TraceContext) -> TraceContext:
        """The parent of further spans in a trace."""
        span = self._spans.get(trace)
        return trace if span is None or span.context is None else span.context

    def note(self, attributes: Attributes) -> None:
        """Add attributes to every span."""
        for span in self._spans.values():
            span.note(attributes)

    def end(self) -> None:
        for span in self._spans.values():
            span.end(self.error)


class Tracing:
    """The tracing of a process that sends no spans; new spans are part of the caller's span."""

    is_told = False

    def begin(
        self,
        name: str,
        parent: TraceContext | None,
        *,
        kind: Kind = "internal",
        attributes: Attributes = _NOTHING,
    ) -> Span:
        """Begin a span; the caller ends it.

        Args:
            parent: the parent of the span; without a parent, a new trace begins.
        """
        return Span(parent)

    def within(self, name: str) -> contextlib.AbstractContextManager[TraceSpans]:
        """Begin a span of the current trace, if there is a trace, for a context."""
        parent = current_trace.get()
        traces = () if parent is None or not self.is_told else (parent,)
        return self.spans_in(name, traces)

    @contextlib.contextmanager
    def spans_in(
        self,
        name: str,
        traces: Iterable[TraceContext],
        *,
        kind: Kind = "internal",
        attributes: Attributes = _NOTHING,
    ) -> Iterator[TraceSpans]:
        """Begin a span in each trace for a context; the span of the first trace is current.

        Traces beyond the first 100 have no span.
        """
        first = [*islice(dict.fromkeys(traces), _MOST_AT_ONCE)]
        spans = TraceSpans(
            {each: self.begin(name, each, kind=kind, attributes=attributes) for each in first}
        )
        if not first:
            yield spans
            return
        before = current_trace.set(spans.goes_on(first[0]))
        try:
            yield spans
        except BaseException as failure:
            spans.error = type(failure).__name__
            raise
        finally:
            current_trace.reset(before)
            spans.end()

    async def aclose(self) -> None:
        """Send pending spans."""


def open_tracing(instance: str) -> Tracing:
    """The tracing by the variables OTEL_*: no spans are sent unless a collector is named.

    Args:
        instance: the id of the node.
    """
    if not is_wanted(os.environ):
        return Tracing()
    try:
        from catalog.telemetry.otlptracing import OtlpTracing
    except ImportError:
        advice = f"install it with: {install_command('tracing')}"
        _log.warning("no traces are sent, since OpenTelemetry is not installed", advice=advice)
        return Tracing()
    return OtlpTracing(instance)


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether a collector is named, and traces are not turned off."""
    is_off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    is_off = is_off or environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    return not is_off and any(environment.get(name) for name in _ENDPOINTS)
