"""What clients leave with a node is bounded in size and number, and a refusal names the limit."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.settings import Settings
from tests.integration.auditing import as_role
from tests.integration.conftest import Answer, Node, start_node
from tests.integration.federation import start_member

SUBSCRIPTION = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}
LEAF = {"exact": {"type": "x"}}


def assert_refused(answer: Answer, status: int, setting: str, limit: int) -> None:
    assert answer.status == status, answer.body
    assert answer.json["args"]["setting"] == setting
    assert answer.json["args"]["limit"] == str(limit)
    assert setting in answer.json["title"]


@pytest.mark.parametrize(
    "filters",
    [
        [LEAF] * 501,
        [{"any": [LEAF] * 500}],
        [{"exact": {f"a{number}": "x" for number in range(1000)}}],
        [{"exact": [{f"a{number}": "x"}]} for number in range(501)],
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_filters_have_a_bounded_number_of_conditions(
    node: Node, filters: Any, method: str
) -> None:
    created = await node.send("POST", "/subscriptions", SUBSCRIPTION)
    path = f"/subscriptions/{created.json['id']}" if method == "PUT" else "/subscriptions"
    answer = await node.send(method, path, {**SUBSCRIPTION, "filters": filters})
    assert_refused(answer, 413, "fixed", 1000)


async def test_the_single_filter_of_an_older_draft_is_counted_too(node: Node) -> None:
    body = {**SUBSCRIPTION, "filter": {"any": [LEAF] * 500}}
    answer = await node.send("POST", "/subscriptions", body)
    assert_refused(answer, 413, "fixed", 1000)


async def test_as_many_conditions_as_are_allowed_are_taken(node: Node) -> None:
    answer = await node.send("POST", "/subscriptions", {**SUBSCRIPTION, "filters": [LEAF] * 500})
    assert answer.status == 201, answer.body


async def test_a_subscription_is_bounded_in_bytes(node: Node) -> None:
    filters = [{"exact": {f"a{number}": "x" * 2000}} for number in range(9)]
    answer = await node.send("POST", "/subscriptions", {**SUBSCRIPTION, "filters": filters})
    assert_refused(answer, 413, "fixed", 16384)


async def test_a_node_has_a_bounded_number_of_subscriptions(node: Node) -> None:
    node.context.shared.settings = Settings(max_subscriptions=2)
    ids = []
    for _ in range(2):
        created = await node.send("POST", "/subscriptions", SUBSCRIPTION)
        ids.append(created.json["id"])
    answer = await node.send("POST", "/subscriptions", SUBSCRIPTION)
    assert_refused(answer, 409, "CONCORD_MAX_SUBSCRIPTIONS", 2)
    assert (await node.send("PUT", f"/subscriptions/{ids[0]}", SUBSCRIPTION)).status == 200
    assert (await node.send("DELETE", f"/subscriptions/{ids[0]}")).status == 200
    assert (await node.send("POST", "/subscriptions", SUBSCRIPTION)).status == 201


async def test_a_caller_has_a_bounded_number_of_subscriptions(database_url: str) -> None:
    async with start_node(database_url, open=False, subscriptions_per_client=1) as node:
        one, other = await as_role(node, "writer"), await as_role(node, "writer")
        assert (await one.send("POST", "/subscriptions", SUBSCRIPTION)).status == 201
        answer = await one.send("POST", "/subscriptions", SUBSCRIPTION)
        assert_refused(answer, 409, "CONCORD_SUBSCRIPTIONS_PER_CLIENT", 1)
        assert (await other.send("POST", "/subscriptions", SUBSCRIPTION)).status == 201


async def test_a_node_has_a_bounded_number_of_links(database_url: str) -> None:
    async with start_member(database_url, max_links=1) as node:
        body = {"source": "http://127.0.0.1:9"}
        assert (await node.send("POST", "/replication/links?force", body)).status == 201
        answer = await node.send("POST", "/replication/links?force", body)
        assert_refused(answer, 409, "CONCORD_MAX_LINKS", 1)
