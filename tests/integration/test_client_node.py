"""The client of a node's API, against a node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from catalog.client import Client, Refused, is_replica
from catalog.commands.authorities import url_of
from catalog.operations.links import NewLink
from replication.routes import routes
from tests.integration.conftest import Node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUP = "/messagegroups/g"
MESSAGE = f"{GROUP}/messages/m"
SCHEMA = "/schemagroups/g/schemas/s"
JSON_SCHEMA = "JsonSchema/draft-07"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, routes=routes, page_size=3) as node:
        yield node


@pytest_asyncio.fixture(loop_scope="module")
async def client(shared: Node) -> AsyncIterator[Client]:
    async with Client.open(shared.url) as client:
        for plural in ("endpoints", "messagegroups", "schemagroups"):
            await client.delete(f"/{plural}")
        yield client


def name_of(caught: pytest.ExceptionInfo[Refused]) -> tuple[int, str]:
    problem = caught.value.problem
    return problem.status, problem.name


async def test_an_entity_is_created_read_changed_replaced_and_deleted(client: Client) -> None:
    created = await client.create(MESSAGE, {"name": "one", "description": "d"})
    assert created["xid"] == MESSAGE
    changed = await client.update(MESSAGE, {"name": "two"}, epoch=created["epoch"])
    assert (changed["name"], changed["description"]) == ("two", "d")
    replaced = await client.replace(MESSAGE, {"name": "three"}, epoch=changed["epoch"])
    assert "description" not in replaced
    assert await client.entity(MESSAGE) == replaced
    meta = await client.entity(f"{MESSAGE}/meta")
    await client.delete(MESSAGE, epoch=meta["epoch"])
    with pytest.raises(Refused) as caught:
        await client.entity(MESSAGE)
    assert name_of(caught) == (404, "not_found")


async def test_what_is_there_is_not_created_again(client: Client) -> None:
    await client.create(GROUP, {"name": "first"})
    with pytest.raises(Refused) as caught:
        await client.create(GROUP, {"name": "second"})
    assert name_of(caught) == (412, "precondition_failed")
    assert (await client.entity(GROUP))["name"] == "first"


async def test_a_write_with_another_epoch_is_refused(client: Client) -> None:
    created = await client.create(MESSAGE, {})
    # Epochs outlive deletion, so what the message begins with depends on the tests before.
    other = created["epoch"] + 7
    for write in (
        client.update(MESSAGE, {"name": "x"}, epoch=other),
        client.replace(MESSAGE, {"name": "x"}, epoch=other),
        client.delete(MESSAGE, epoch=other),
    ):
        with pytest.raises(Refused) as caught:
            await write
        assert name_of(caught) == (400, "mismatched_epoch")
    assert await client.entity(MESSAGE) == created


async def test_a_collection_is_read_over_all_its_pages(client: Client) -> None:
    messages = {f"m{number}": {"name": f"n{9 - number}"} for number in range(8)}
    await client.create(GROUP, {"messages": messages})
    collection = f"{GROUP}/messages"
    assert [id async for id, _ in client.items(collection)] == [*messages]
    by_name = [id async for id, _ in client.items(collection, sort="name", page_size=2)]
    assert by_name == [*reversed(messages)]
    some = client.items(collection, filters=["name=n2", "name=n3"], inline=["versions"])
    assert {id: [*item["versions"]] async for id, item in some} == {"m6": ["1"], "m7": ["1"]}


async def test_versions_are_added_listed_and_made_the_default(client: Client) -> None:
    await client.create(MESSAGE, {"name": "one"})
    added = await client.add_version(MESSAGE, {"name": "two"})
    assert added["versionid"] == "2"
    assert [id async for id, _ in client.versions(MESSAGE)] == ["1", "2"]
    meta = await client.set_default_version(MESSAGE, "1")
    assert (meta["defaultversionid"], meta["defaultversionsticky"]) == ("1", True)
    assert (await client.entity(MESSAGE))["name"] == "one"
    await client.set_default_version(MESSAGE, None)
    assert (await client.entity(MESSAGE, inline=["versions"]))["name"] == "two"


async def test_a_document_is_bytes_with_a_type_and_its_metadata_is_an_entity(
    client: Client,
) -> None:
    text = b'{"type": "object"}'
    put = await client.put_document(
        SCHEMA,
        text,
        content_type="application/schema+json",
        metadata={"format": JSON_SCHEMA, "name": 'null & "ä" 100%, done'},
    )
    read = await client.document(SCHEMA)
    assert (read.content, read.content_type) == (text, "application/schema+json")
    assert (read.version, read.epoch, read.location) == (put.version, put.epoch, "")
    entity = await client.entity(SCHEMA)
    assert (entity["format"], entity["name"]) == (JSON_SCHEMA, 'null & "ä" 100%, done')
    await client.update(SCHEMA, {"name": "null"})
    assert (await client.document(f"{SCHEMA}/versions/1")).content == text
    await client.put_document(SCHEMA, text, content_type="text/plain", metadata={"name": "null"})
    assert (await client.entity(SCHEMA))["name"] == "null"


async def test_a_document_is_replaced_only_if_it_is_what_was_read(client: Client) -> None:
    async def put(content: bytes, **guard: Any) -> None:
        metadata = {"format": JSON_SCHEMA}
        await client.put_document(SCHEMA, content, content_type="a/b", metadata=metadata, **guard)

    await put(b'{"type": "object"}')
    before = await client.document(SCHEMA)
    await put(b'{"type": "object", "title": "t"}', etag=before.etag)
    with pytest.raises(Refused) as caught:
        await put(b"{}", etag=before.etag)
    assert name_of(caught) == (412, "precondition_failed")
    with pytest.raises(Refused) as caught:
        await put(b"{}", epoch=before.epoch)
    assert name_of(caught) == (400, "mismatched_epoch")


async def test_a_document_that_is_kept_elsewhere_is_named(client: Client) -> None:
    await client.create(SCHEMA, {"schemaurl": "https://example.com/s", "format": JSON_SCHEMA})
    assert (await client.document(SCHEMA)).location == "https://example.com/s"


async def test_the_model_and_the_capabilities_are_read_and_changed(client: Client) -> None:
    source = await client.modelsource()
    before = await client.capabilities()
    assert "messagegroups" in (await client.model())["groups"]
    assert "flags" in await client.get("/capabilitiesoffered")
    try:
        assert (
            "dirs"
            in (
                await client.put_modelsource(
                    {"groups": {**source["groups"], "dirs": {"singular": "dir"}}}
                )
            )["groups"]
        )
        assert (await client.update_capabilities({"pagination": False}))["pagination"] is False
    finally:
        await client.put_modelsource(source)
        await client.put("/capabilities", before)
    assert await client.capabilities() == before


async def test_the_change_feed_is_read_from_a_cursor(client: Client) -> None:
    cursor = await client.cursor()
    await client.create(MESSAGE, {"name": "one"})
    # While a transaction is open elsewhere on the server, the feed withholds what came after it:
    # the deletes of the tests before may be still to come, and a change may come in parts.
    changed: list[tuple[str, bool]] = []
    async with asyncio.timeout(60):
        while (f"{MESSAGE}/versions/1", False) not in changed:
            page = await client.changes(cursor, wait_seconds=10)
            cursor = page.cursor
            changed += [(copy["xid"], copy.get("deleted", False)) for copy in page.copies]
        live = [xid for xid, is_deleted in changed if not is_deleted]
        assert live == [GROUP, MESSAGE, f"{MESSAGE}/versions/1"]
        await client.delete(GROUP)
        changed.clear()
        while (GROUP, True) not in changed:
            page = await client.changes(cursor, wait_seconds=10)
            cursor = page.cursor
            changed += [(copy["xid"], copy.get("deleted", False)) for copy in page.copies]
    assert all(is_deleted for _, is_deleted in changed)
    assert (await client.changes(cursor)).copies == []


async def test_a_cursor_that_is_gone_is_refused(client: Client) -> None:
    with pytest.raises(Refused) as caught:
        await client.changes("00000000.1.1")
    assert name_of(caught) == (410, "log_lost")


async def test_who_the_node_is_and_what_it_holds_is_told(client: Client) -> None:
    await client.create(GROUP, {})
    assert await url_of(client, "https://eu.example") == "https://eu.example"
    assert await url_of(client, "urn:uuid:0") == ""
    authority = (await client.handshake()).authority
    [row] = [row for row in await client.digest_rows() if row.xid == GROUP]
    assert (row.authority, row.origin, row.epoch > 0, row.is_deleted) == (
        authority,
        GROUP,
        True,
        False,
    )
    assert not is_replica(await client.entity(GROUP))
    assert await client.is_ready()


async def test_links_are_listed_over_all_pages_and_removed(client: Client) -> None:
    for number in range(5):
        source = f"http://127.0.0.1:{number + 1}"
        await client.add_link(NewLink(id=f"l{number}", source=source), force=True)
    links = await client.links()
    assert [link.id for link in links] == ["l0", "l1", "l2", "l3", "l4"]
    assert (await client.link("l0")).source == "http://127.0.0.1:1"
    assert await client.conflicts("l0") == []
    for link in links:
        await client.remove_link(link.id)
    assert await client.links() == []
