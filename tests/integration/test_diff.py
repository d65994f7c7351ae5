"""The difference of two versions tells what changed, and whom it breaks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.conftest import Node, start_node
from tests.integration.test_openapi_subscriptions import DescribedApi

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCHEMA = "/schemagroups/shop/schemas/order"


def order(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [*fields]}


ID, NOTE = {"name": "id", "type": "long"}, {"name": "note", "type": "string"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url) as running:
        for vid, document, description in (("1", order(ID), "Old"), ("2", order(ID, NOTE), "New")):
            body = {"format": "Avro/1.12.0", "schema": document, "description": description}
            await running.put(f"{SCHEMA}/versions/{vid}$details", body)
        message = "/messagegroups/shop/messages/m/versions"
        await running.put(f"{message}/1", {"description": "One", "labels": {"a": "b"}})
        await running.put(f"{message}/2", {"description": "Two", "labels": {"a": "c"}})
        yield running


async def test_a_schema_is_compared_by_line_by_field_and_by_compatibility(node: Node) -> None:
    api = DescribedApi(node, await node.get("/openapi.json"))
    found = await api.done("GET", "/-/diff", query=f"?of={SCHEMA}/versions/1&to=2")

    assert {*found["changed"]} >= {"schema", "description"}
    assert {"path": ["description"], "old": "Old", "new": "New"} in found["values"]
    assert found["fields"] == [{"path": "note", "new": "string"}]
    assert '      "name": "note",' in [
        line["text"] for line in found["lines"] if line["sign"] == "+"
    ]
    assert found["backward"]["compatible"] is False
    assert "note" in found["backward"]["reason"]
    assert found["forward"] == {"compatible": True}
    assert found["complete"]


async def test_messages_and_versions_of_other_resources_are_compared(node: Node) -> None:
    message = "/messagegroups/shop/messages/m"
    found = await node.get(f"/-/diff?of={message}/versions/1&to=2")
    assert {"path": ["labels", "a"], "old": "b", "new": "c"} in found["values"]
    assert "lines" not in found
    # A resource is its default version.
    found = await node.get(f"/-/diff?of={message}&to={message}/versions/2")
    assert (found["of"], found["changed"]) == (f"{message}/versions/2", [])


async def test_large_documents_are_told_from_equal_ones(node: Node) -> None:
    large = "/schemagroups/shop/schemas/large"
    for vid, content in (("1", b"a" * 300_000), ("2", b"b" * 300_000)):
        answer = await node.send(
            "PUT", f"{large}/versions/{vid}", body=content, xRegistry_format="Text/1"
        )
        assert answer.status in (200, 201), answer.body
    found = await node.get(f"/-/diff?of={large}/versions/1&to=2")
    assert (found["complete"], "schema" in found["changed"]) == (False, True)


async def test_wrong_questions_are_refused(node: Node) -> None:
    api = DescribedApi(node, await node.get("/openapi.json"))
    for query in (
        *("", f"?of={SCHEMA}", "?of=order&to=2", f"?of={SCHEMA}&to=a/b"),
        f"?of=/schemagroups/shop&to={SCHEMA}",
    ):
        await api.refused(400, "GET", "/-/diff", query=query)
    for query in (f"?of={SCHEMA}/versions/9&to=2", f"?of={SCHEMA}&to=9", f"?of={SCHEMA}x&to=2"):
        await api.refused(404, "GET", "/-/diff", query=query)
