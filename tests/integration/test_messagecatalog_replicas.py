"""URIs of message definition versions at a catalog that follows the one they are from."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from replication.routes import routes
from tests.integration.conftest import Node, start_node
from tests.integration.federation import carries, databases, eventually, execute, link, running

DEFINITIONS = "/messagecatalog/g/messagedefinitions"


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Two nodes without public URLs, so that their authorities are no URLs."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one, routes=routes) as source,
        start_node(two, routes=routes) as target,
    ):
        yield [source, target]


async def add_definition(node: Node, id: str) -> str:
    """The URI of its first version, as its catalog gives it out."""
    await node.put("/messagecatalog/g", {"format": "CloudEvents"})
    body = {"id": id, "definition": {"attributes": {"type": {"value": id}}}}
    answer = await node.send("POST", DEFINITIONS, body)
    assert answer.status == 201, answer.body
    return str(answer.headers["Location"])


async def test_a_uri_that_the_source_gave_out_is_found_at_its_follower(nodes: list[Node]) -> None:
    source, target = nodes
    uri = await add_definition(source, "m")
    assert (await target.send("GET", f"/messagedefinition?uri={uri}")).status == 404
    made = await link(target, source)
    async with running(target):
        await eventually(lambda: carries(target, source))
    found = await target.get(f"/messagedefinition?uri={uri}")
    assert found["authority"] == source.database.node.authority
    assert found == await target.get(f"{DEFINITIONS}/m/versions/1")
    assert await target.get(f"/messagedefinition?uri={source.url}/messagecatalog/m") == found
    own = uri.replace(source.url, target.url)
    for other in (own, uri.replace("/messagecatalog/", "/"), uri.replace("versions/1", "2")):
        assert (await target.send("GET", f"/messagedefinition?uri={other}")).status == 404
    await target.send("DELETE", f"/replication/links/{made['id']}")
    assert (await target.send("GET", f"/messagedefinition?uri={uri}")).status == 404


async def test_a_uri_with_an_authority_of_its_own_is_found_where_a_link_renames_its_group(
    nodes: list[Node],
) -> None:
    """Message catalog, 5.3: a version is always accessible under its URI."""
    source, target = nodes
    await source.put("/messagecatalog/g", {"format": "CloudEvents"})
    authority = "https://governance.example/catalog"
    definition = {"attributes": {"type": {"value": "m"}}}
    body = {"id": "m", "authority": authority, "version": 7, "definition": definition}
    assert (await source.send("POST", DEFINITIONS, body)).status == 201
    await link(target, source, prefix="eu.")
    async with running(target):
        await eventually(lambda: carries(target, source))
    for uri in (
        f"{authority}/g/messagedefinitions/m/versions/7",
        f"{authority}/g/messagedefinitions/m",
        f"{authority}/m",
    ):
        found = await target.get(f"/messagedefinition?uri={uri}")
        assert (found["authority"], found["version"]) == (authority, 7)
        assert found == await source.get(f"/messagedefinition?uri={uri}")
    renamed = f"{authority}/eu.g/messagedefinitions/m/versions/7"
    assert (await target.send("GET", f"/messagedefinition?uri={renamed}")).status == 404


async def test_a_uri_is_found_by_the_address_that_its_source_says_it_has(
    nodes: list[Node],
) -> None:
    source, target = nodes
    source.context.shared.public_base = "https://published.example"
    await add_definition(source, "m")
    await link(target, source, id="first")
    uri = f"https://published.example{DEFINITIONS}/m/versions/1"
    async with running(target):
        await eventually(lambda: carries(target, source))
    assert (await target.get(f"/messagedefinition?uri={uri}"))["id"] == "m"
    # Whoever else says that it has this address may be lying, and so may the first one.
    claim = "INSERT INTO links (id, definition, authority, base) VALUES ($1, $2, 'urn:x', $3)"
    definition = '{"source": "http://x", "mode": "pull", "authorities": [], "scope": []}'
    await execute(target, claim, "other", definition, "https://published.example")
    assert (await target.send("GET", f"/messagedefinition?uri={uri}")).status == 404
