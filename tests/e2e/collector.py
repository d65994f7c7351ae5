"""A collector of OpenTelemetry, as far as nodes need one: OTLP over HTTP, with protobuf."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.e2e.nodes import free_port


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedSpan:
    """A span that came; `parent` is empty for the first of a trace."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    attributes: dict[str, str | int]


@dataclass(slots=True)
class Collector:
    """The spans that came, and the variables that make a node send them."""

    port: int = field(default_factory=free_port)
    spans: list[CollectedSpan] = field(default_factory=list)

    def environment(self, service: str) -> dict[str, str]:
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_SERVICE_NAME": service,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }

    def named(self, service: str, name: str, trace: str) -> Sequence[CollectedSpan]:
        found = (each for each in self.spans if each.trace == trace)
        return [each for each in found if (each.service, each.name) == (service, name)]

    async def collect(self, request: web.Request) -> web.Response:
        body = await request.read()
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        message = ExportTraceServiceRequest.FromString(body)
        for resource in message.resource_spans:
            about = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [
                    CollectedSpan(
                        service=about["service.name"],
                        name=span.name,
                        trace=span.trace_id.hex(),
                        span=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        attributes={
                            each.key: each.value.string_value or each.value.int_value
                            for each in span.attributes
                        },
                    )
                    for span in scope.spans
                ]
        body = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=body, content_type="application/x-protobuf")


@contextlib.asynccontextmanager
async def serving(port: int, *routes: web.RouteDef) -> AsyncIterator[None]:
    """Serve some routes on the loopback address."""
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
        yield
    finally:
        await runner.cleanup()
