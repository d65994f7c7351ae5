"""Links that a topic of events wakes, between nodes of which only one can reach the other."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.brokers.kafka import KafkaBroker
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    eventually,
    link_is,
    running,
    start_member,
    write_some,
)

pytestmark = pytest.mark.xdist_group("sinks")


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """A source and a target, which by itself reads the source's feed once in ten minutes."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one) as source,
        start_member(two, pull_interval_seconds=600) as target,
    ):
        yield source, target


async def follow(source: Node, target: Node, topic: str, **more: Any) -> tuple[int, dict[str, Any]]:
    body = {"id": "in", "source": source.url, "eventtopic": topic, **more}
    answer = await target.send("POST", "/replication/links", body)
    return answer.status, answer.json


async def test_events_in_a_topic_wake_a_link(nodes: tuple[Node, Node], kafka: KafkaBroker) -> None:
    source, target = nodes
    name = f"events-{secrets.token_hex(4)}"
    await kafka.create_topic(name)
    topic = f"kafka://{kafka.address}/{name}"
    status, link = await follow(source, target, topic)
    assert (status, link["mode"], link["eventtopic"]) == (201, "events", topic)
    async with running(source, target, deliveries=True):
        await link_is(target, "in", "current")
        for prefix in ("a", "b"):
            await write_some(source, prefix)
            await eventually(lambda: carries(target, source), 60)
        [subscription] = await source.get("/subscriptions")
        assert (subscription["protocol"], subscription["sink"]) == ("KAFKA", topic)
        await target.send("DELETE", "/replication/links/in")
        await eventually(lambda: has_no_subscription(source))


async def has_no_subscription(node: Node) -> bool:
    return not await node.get("/subscriptions")


@pytest.mark.parametrize(
    ("topic", "more"),
    [
        ("kafka://127.0.0.1:1/events", {"mode": "pull"}),
        ("kafka:///events", {}),
        ("http://127.0.0.1:1/events", {}),
    ],
)
async def test_what_is_no_topic_of_events_is_refused(
    nodes: tuple[Node, Node], topic: str, more: dict[str, Any]
) -> None:
    source, target = nodes
    status, problem = await follow(source, target, topic, **more)
    assert (status, problem["args"]["name"]) == (400, "eventtopic")
