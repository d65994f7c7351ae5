"""`GET /metrics` tells what a node does, and `/health` whether it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from catalog.monitoring.loopdelay import run_loop_delay
from catalog.monitoring.routes import routes as monitoring_routes
from replication.routes import routes as replication_routes
from tests.integration.conftest import Node, start_node
from tests.integration.federation import eventually, execute

Samples = Mapping[tuple[str, ...], float]


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    routes = [*monitoring_routes, *replication_routes]
    async with start_node(database_url, routes=routes) as running:
        yield running


async def samples(node: Node) -> Samples:
    """Each sample's value, by its name and the values of its labels in the order of their names."""
    answer = await node.send("GET", "/metrics")
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


async def test_requests_are_counted_by_route_and_not_by_path(node: Node) -> None:
    for number in range(3):
        await node.put(f"/messagegroups/g{number}")
    assert (await node.send("GET", "/messagegroups/nothing")).status == 404
    assert (await node.send("PUT", "/messagegroups/g0", {"epoch": 7})).status == 400
    assert (await node.request("PROPFIND", "/model")).status == 405
    await node.get("/model")
    found = await samples(node)
    counted = {key[1:]: value for key, value in found.items() if key[0].endswith("seconds_count")}
    assert counted["PUT", "/{path}", "201"] == 3
    assert counted["GET", "/{path}", "404"] == 1
    assert counted["GET", "/model", "200"] == 1
    assert counted["other", "/model", "405"] == 1
    assert found["concord_http_problems_total", "not_found"] == 1
    assert found["concord_http_problems_total", "mismatched_epoch"] == 1
    assert found["concord_changes_total", "created", "group"] == 3
    assert not [key for key in found if "g0" in "".join(key)]


async def test_the_database_tells_sizes(node: Node) -> None:
    await node.put("/messagegroups/g", {"messages": {"m": {}}})
    found = await samples(node)
    assert found["concord_database_up",] == 1
    assert found["concord_database_bytes",] > 1_000_000
    assert found["concord_log_entries",] == await node.logged()
    assert 0 <= found["concord_log_newest_age_seconds",] <= found["concord_log_oldest_age_seconds",]
    assert found["process_resident_memory_bytes",] > 1_000_000


async def test_subscriptions_and_links_tell_how_far_behind_they_are(node: Node) -> None:
    await execute(
        node,
        """INSERT INTO subscriptions (id, definition, txid, seq)
        SELECT 's' || n, '{}', n, 0 FROM generate_series(0, 120) n""",
    )
    await execute(
        node,
        """INSERT INTO links (id, revision, definition, state, currentat, applied)
        VALUES ('late', 1, '{"mode": "pull"}', 'waiting', now() - interval '90 seconds', 5),
               ('fresh', 2, '{"mode": "pull"}', 'current', now(), 7),
               ('unmet', 3, '{"mode": "push"}', 'new', NULL, 0)""",
    )
    await node.put("/messagegroups/g")
    found = await samples(node)
    assert found["concord_subscriptions", "active"] == 121
    behind = [key for key in found if key[0] == "concord_subscription_lag_changes"]
    assert len(behind) == 100, "the number of time series is bounded"
    assert found["concord_subscription_lag_changes", "s0", "active"] == await node.logged()
    assert found["concord_subscription_lag_seconds", "s0", "active"] >= 0
    assert found["concord_links", "pull", "waiting"] == found["concord_links", "push", "new"] == 1
    assert found["concord_link_lag_seconds", "late", "pull", "waiting"] >= 90
    assert found["concord_link_lag_seconds", "fresh", "pull", "current"] == 0
    assert ("concord_link_lag_seconds", "unmet", "push", "new") not in found
    assert found["concord_link_applied_total", "fresh", "pull"] == 7


async def test_the_format_of_openmetrics_is_given_on_request(node: Node) -> None:
    answer = await node.send(
        "GET", "/metrics", Accept="application/openmetrics-text; version=1.0.0"
    )
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


async def test_the_delay_of_the_event_loop_is_measured(node: Node) -> None:
    measuring = asyncio.create_task(run_loop_delay(node.context))

    async def is_measured() -> bool:
        found = await samples(node)
        return found["concord_event_loop_delay_seconds_count",] > 0

    await eventually(is_measured)
    measuring.cancel()
    await asyncio.wait([measuring])


async def test_a_node_without_its_database_is_alive_and_not_ready(node: Node) -> None:
    assert (await node.send("GET", "/health/live")).json == {"status": "alive"}
    assert (await node.send("GET", "/health/ready")).json == {"status": "ready"}
    node.database.availability.lose("a test")
    assert (await node.send("GET", "/health/live")).status == 200
    ready = await node.send("GET", "/health/ready")
    assert ready.status == 503
    assert ready.json == {"status": "waiting", "reason": "the database is away"}
    assert ready.headers["Retry-After"] == "1"
    found = await samples(node)
    assert found["concord_database_up",] == 0
    assert ("concord_database_bytes",) not in found
    assert ("concord_http_problems_total",) not in found
