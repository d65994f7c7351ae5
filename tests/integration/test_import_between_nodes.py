"""What `concord import` does with the exports of a catalog that holds replicas of others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from catalog.client import Client
from catalog.commands.documentfile import read_document, write_document
from catalog.commands.import_.importing import import_document
from catalog.documents.migration import EDITIONS
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    eventually,
    link,
    running,
    start_member,
    write_some,
)
from tests.integration.test_documents import entities

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def catalogs(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node, Node]]:
    """A catalog, one that holds its replicas beside groups of its own, and an empty one."""
    async with (
        databases(postgres_url, template, 3) as (first, second, third),
        start_member(first) as source,
        start_member(second) as target,
        start_member(third) as empty,
    ):
        await write_some(source, "theirs")
        await source.put("/messagegroups/none", {"name": "holds nothing"})
        await source.put("/endpoints/e", {"usage": ["producer"], "messages": {"m": {}}})
        await write_some(target, "ours")
        await link(target, source, id="eu")
        async with running(target):
            await eventually(lambda: carries(target, source))
        yield source, target, empty


@pytest.mark.parametrize("edition", EDITIONS)
async def test_an_export_of_any_edition_comes_back_where_it_is_from_and_to_an_empty_catalog(
    catalogs: tuple[Node, Node, Node], tmp_path: Path, edition: str
) -> None:
    _, node, empty = catalogs
    before = await entities(node)
    file = tmp_path / "all.xreg.json"
    file.write_bytes(write_document(await node.get("/export"), "xreg.json", edition))
    document = read_document(file, migrate=True)
    for target in (node, empty):
        async with Client.open(target.url) as client:
            imported = await import_document(client, document)
        assert imported.is_imported, imported.violations
        assert (imported.violations, imported.left_out) == ((), ())
        assert (imported.written == 0) is (target is node)
    assert await entities(node) == before
    found = await entities(empty)
    assert {plural: {*groups} for plural, groups in found.items()} == {
        plural: {*groups} for plural, groups in before.items()
    }
    own = (await empty.get("/messagegroups/theirs/messages/m0/meta"))["readonly"]
    assert own is False
    for plural in found:
        await empty.send("DELETE", f"/{plural}")
