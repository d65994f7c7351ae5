"""One write is one trace: its request, its deliveries, and what another catalog makes of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from catalog.client import Client
from catalog.operations.links import NewLink
from catalog.operations.subscriptions import NewSubscription
from tests.e2e.collector import Collector, serving
from tests.e2e.nodes import NodeProcess, free_port, node_at, running, until

pytestmark = pytest.mark.slow

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
HEADERS = {
    "traceparent": f"00-{TRACE}-{CALLER}-01",
    "tracestate": "shop=t61rcWkgMzE",
    "X-Request-ID": "order-17",
}


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    made = Collector()
    async with serving(made.port, web.post("/v1/traces", made.collect)):
        yield made


@pytest.fixture
async def nodes(
    tmp_path: Path, collector: Collector
) -> AsyncIterator[tuple[NodeProcess, NodeProcess]]:
    """East, and west in two processes, which follows it."""
    found = []
    for name, more in (("east", {}), ("west", {"CONCORD_PROCESSES": "2"})):
        (tmp_path / name).mkdir()
        found.append(node_at(tmp_path / name, **collector.environment(name), **more))
    east, west = found
    async with running(east, west):
        yield east, west


async def test_a_write_is_traced_to_its_sink_and_through_another_catalog(
    nodes: tuple[NodeProcess, NodeProcess], collector: Collector
) -> None:
    east, west = nodes
    port, took = free_port(), dict[str, dict[str, str]]()

    async def take(request: web.Request) -> web.Response:
        if request.headers.get("ce-subject") == "/messagegroups/g":
            took[request.match_info["at"]] = dict(request.headers)
        return web.Response(status=204)

    async with serving(port, web.post("/{at}", take)):
        for name, node in (("east", east), ("west", west)):
            async with node.client() as client:
                if name == "west":
                    await client.add_link(NewLink(id="east", source=east.url, mode="events"))
                    await until(lambda c=client: _is_current(c), what="a current link")
                await client.subscribe(
                    NewSubscription(
                        sink=f"http://127.0.0.1:{port}/{name}",
                        protocol="HTTP",
                        protocolsettings={"contentmode": "binary"},
                    )
                )
        async with east.client() as client:
            answer = await client.request("PUT", "/messagegroups/g", body={}, headers=HEADERS)
        assert answer.headers["X-Request-ID"] == "order-17"
        await until(lambda: took.keys() == {"east", "west"}, what="both deliveries")
        steps = [("east", "PUT /{path}"), ("east", "write"), ("east", "deliver")]
        steps += [("west", "apply"), ("west", "deliver")]
        await until(
            lambda: all(collector.named(*step, TRACE) for step in steps), what="spans of all"
        )
        _, trace, span, _ = took["east"]["traceparent"].split("-")
        # East also tells west, whose link this wakes, so that one span may come before the other.
        await until(
            lambda: span in [each.span for each in collector.named("east", "deliver", TRACE)],
            what="the span of the delivery to the sink",
        )

    request, write, delivery, apply, told = (collector.named(*step, TRACE)[0] for step in steps)
    assert request.parent == CALLER
    assert request.attributes["concord.request"] == "order-17"
    assert request.attributes["http.response.status_code"] == 201
    assert write.parent == request.span
    assert write.attributes["concord.interaction"] == answer.headers["xRegistry-xregcorrelationid"]
    assert delivery.parent == apply.parent == write.span
    assert apply.attributes["concord.link"] == "east"
    assert told.parent == apply.span
    assert took["east"]["ce-traceparent"] == f"00-{TRACE}-{write.span}-01"
    assert took["west"]["ce-traceparent"] == f"00-{TRACE}-{apply.span}-01"
    assert took["east"]["ce-tracestate"] == took["west"]["ce-tracestate"] == HEADERS["tracestate"]
    assert trace == TRACE
    assert took["west"]["traceparent"] == f"00-{TRACE}-{told.span}-01"


async def _is_current(client: Client) -> bool:
    return bool((await client.link("east")).state == "current")


async def test_a_collector_that_is_away_costs_nothing_but_its_traces(tmp_path: Path) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    node = node_at(tmp_path, OTEL_BSP_SCHEDULE_DELAY="50", **environment)
    async with running(node), node.client() as client:
        await client.create("/messagegroups/g", {})
        await until(lambda: "traces are not sent" in node.log.read_text(), what="a complaint")
        lines = [json.loads(line) for line in node.log.read_text().splitlines() if line[:1] == "{"]
        told = [line for line in lines if line["event"].startswith("traces are not sent")]
        assert [line["level"] for line in told] == ["warning"]
        await client.create("/messagegroups/h", {})
