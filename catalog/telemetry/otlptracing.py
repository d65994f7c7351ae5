"""Sends spans to a collector by OTLP over HTTP, by the variables OTEL_* of OpenTelemetry."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from importlib.metadata import version

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.span import TraceFlags, TraceState

from catalog import DISTRIBUTION
from catalog.model.masking import printable
from catalog.model.tracecontext import TraceContext
from catalog.telemetry.tracing import Attributes, Kind, Span, Tracing

_log = structlog.get_logger(__name__)
_KINDS: dict[Kind, SpanKind] = {
    "server": SpanKind.SERVER,
    "internal": SpanKind.INTERNAL,
    "client": SpanKind.CLIENT,
    "consumer": SpanKind.CONSUMER,
}
_NOTHING: Attributes = {}
_NO_PARENT = Context()
_CLOSE_SECONDS = 3.0
_QUIET_SECONDS = 60.0
_LONGEST_MESSAGE = 300


class OtlpTracing(Tracing):
    """Sends spans from a separate thread; spans that the collector does not take are lost.

    Args:
        instance: the id of the node.
    """

    is_told = True

    def __init__(self, instance: str) -> None:
        told = {
            "service.version": version(DISTRIBUTION),
            "service.instance.id": f"{instance}/{os.getpid()}",
        }
        if not os.environ.get("OTEL_SERVICE_NAME"):
            told[SERVICE_NAME] = "concord"
        self._provider = TracerProvider(resource=Resource.create(told), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("concord", version(DISTRIBUTION))
        # The library reports each failure to send spans; `_Complaints` bounds the reports.
        library = logging.getLogger("opentelemetry")
        library.propagate = False
        library.handlers = [_Complaints()]

    def begin(
        self,
        name: str,
        parent: TraceContext | None,
        *,
        kind: Kind = "internal",
        attributes: Attributes = _NOTHING,
    ) -> Span:
        context = None if parent is None else trace.set_span_in_context(_remote(parent))
        span = self._tracer.start_span(
            name, context=context or _NO_PARENT, kind=_KINDS[kind], attributes=dict(attributes)
        )
        if parent is None and not span.is_recording():
            # A new trace that is not recorded is not passed on, since no collector shows the trace.
            return Span(None)
        return _ToldSpan(span)

    async def aclose(self) -> None:
        """Send pending spans, for at most three seconds."""
        ended = threading.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            ended.set()

        # The shutdown may wait for a collector that does not answer; the node must not wait as
        # long.
        threading.Thread(target=shut_down, daemon=True).start()
        await asyncio.to_thread(ended.wait, _CLOSE_SECONDS)


class _ToldSpan(Span):
    """A span of OpenTelemetry."""

    __slots__ = ("_span",)

    def __init__(self, span: trace.Span) -> None:
        found = span.get_span_context()
        super().__init__(
            TraceContext(
                trace.format_trace_id(found.trace_id),
                trace.format_span_id(found.span_id),
                int(found.trace_flags.sampled),
                found.trace_state.to_header(),
            )
        )
        self._span = span

    def note(self, attributes: Attributes) -> None:
        self._span.set_attributes(dict(attributes))

    def end(self, error: str = "") -> None:
        if error:
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


def _remote(parent: TraceContext) -> NonRecordingSpan:
    return NonRecordingSpan(
        SpanContext(
            int(parent.trace, 16),
            int(parent.span, 16),
            is_remote=True,
            trace_flags=TraceFlags(parent.flags),
            trace_state=TraceState.from_header([parent.state]) if parent.state else None,
        )
    )


class _Complaints(logging.Handler):
    """Writes warnings of the library to the node's log, at most once a minute."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._quiet_until = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        if (now := time.monotonic()) < self._quiet_until:
            return
        self._quiet_until = now + _QUIET_SECONDS
        message = printable(record.getMessage()[:_LONGEST_MESSAGE])
        _log.warning("traces are not sent as they should be", message=message)
