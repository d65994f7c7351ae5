"""A request that is larger than one may be is refused with the limit that it met."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from catalog.model.attributes import MAX_ENTITY_BYTES
from catalog.model.errors import MOST_VIOLATIONS
from tests.integration.conftest import Answer, Node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

BYTES, VALUES, YAML_BYTES = 960_000, 30_000, 120_000
LIMITS: dict[str, Any] = {"max_body_bytes": BYTES, "max_request_entities": 1500}
MANY: dict[str, Any] = {f"e{number}": {} for number in range(LIMITS["max_request_entities"] + 1)}
YAML = "application/cloudevents-registry+yaml"
ONE = {"singular": "one", "resources": {"twos": {"singular": "two"}}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, **LIMITS) as running:
        await running.put("/messagegroups/g/messages/m")
        yield running


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def untouched(node: Node) -> AsyncIterator[None]:
    before = await node.state()
    yield
    assert await node.state() == before


def assert_met(answer: Answer, limit: int, setting: str) -> None:
    assert answer.status == 413, answer.body
    assert answer.json["type"] == "urn:concord:error:limit_exceeded"
    assert answer.json["args"]["limit"] == str(limit)
    assert answer.json["args"]["setting"] == setting


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/messagegroups/g"),
        ("POST", "/"),
        ("POST", "/apply"),
        ("PUT", "/modelsource"),
        ("PATCH", "/capabilities"),
        ("POST", "/validate/messagegroups/g/messages/m"),
        ("POST", "/services"),
    ],
)
async def test_values_are_counted_before_a_body_is_parsed(
    node: Node, method: str, path: str
) -> None:
    # What follows the values is no JSON, which a parser would find first.
    body = b'{"x":[' + b"0," * VALUES + b"!"
    answer = await node.send(method, path, body=body, Content_Type="application/json")
    assert_met(answer, VALUES, "CONCORD_MAX_BODY_BYTES")


async def test_small_bodies_have_fewer_values(node: Node) -> None:
    body = b'{"x":[' + b"0," * 10_000 + b"!"
    answer = await node.send("POST", "/subscriptions", body=body, Content_Type="application/json")
    assert_met(answer, 10_000, "fixed")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/messagegroups", MANY),
        ("POST", "/", {"messagegroups": MANY}),
        ("POST", "/messagegroups/g/messages", MANY),
        ("POST", "/messagegroups/g/messages/m/versions", MANY),
        ("PUT", "/messagegroups/g/messages/m", {"versions": MANY}),
        ("POST", "/apply", {"messagegroups": MANY}),
        ("DELETE", "/messagegroups", MANY),
        ("DELETE", "/messagegroups/g/messages/m/versions", MANY),
    ],
)
async def test_entities_are_counted_before_any_is_looked_at(
    node: Node, method: str, path: str, body: Any
) -> None:
    answer = await node.send(method, path, body)
    assert_met(answer, LIMITS["max_request_entities"], "CONCORD_MAX_REQUEST_ENTITIES")


async def test_yaml_is_smaller_than_json_may_be(node: Node) -> None:
    body = b"messagegroups:\n  g:\n    description: " + b"d" * YAML_BYTES
    answer = await node.send("POST", "/", body=body, Content_Type=YAML)
    assert_met(answer, YAML_BYTES, "CONCORD_MAX_BODY_BYTES")


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ({"groups": {f"g{n}s": {"singular": f"g{n}"} for n in range(251)}}, 250),
        (
            {"groups": {"ones": ONE, "as": {"ximportresources": ["/ones/twos"] * 249}}},
            250,
        ),
        ({"attributes": {f"a{n}": {"type": "string"} for n in range(10_000)}}, 20_000),
        ({"labels": {"l": [["deep"] * 20_000]}}, 20_000),
        (
            {
                "groups": {
                    "ones": {
                        "resources": {"twos": {"attributes": {f"a{n}": {} for n in range(10_000)}}}
                    },
                    "threes": {"ximportresources": ["/ones/twos"]},
                }
            },
            20_000,
        ),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("PUT", "/modelsource"), ("PATCH", "/")])
async def test_a_model_is_measured_before_it_is_built(
    node: Node, method: str, path: str, source: Any, limit: int
) -> None:
    body = source if path == "/modelsource" else {"modelsource": source}
    answer = await node.send(method, path, body)
    assert_met(answer, limit, "fixed")


@pytest.mark.parametrize("path", ["/messagegroups/g", "/messagegroups/g/messages/m"])
async def test_the_metadata_of_one_entity_is_bounded(node: Node, path: str) -> None:
    labels = {f"l{number}": "v" * 4000 for number in range(MAX_ENTITY_BYTES // 4000 + 1)}
    answer = await node.send("PUT", path, {"labels": labels})
    assert_met(answer, MAX_ENTITY_BYTES, "fixed")


async def test_the_first_violations_are_listed_and_the_others_counted(node: Node) -> None:
    bad: dict[str, Any] = {f"!{number}": {} for number in range(MOST_VIOLATIONS + 234)}
    answer = await node.send("POST", "/messagegroups", bad)
    assert answer.status == 400
    assert len(answer.json["violations"]) == MOST_VIOLATIONS
    assert "and 234 more" in answer.json["detail"]


async def test_an_error_repeats_no_more_than_the_start_of_a_long_text(node: Node) -> None:
    answer = await node.send("POST", "/messagegroups", {"!" * 100_000: {}})
    assert answer.status == 400
    assert len(answer.body) < 20_000
