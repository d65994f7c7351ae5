"""The published documents of the field, imported as `concord import` does it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import catalog.demo
from catalog.client import Client
from catalog.commands.documentfile import FORMATS, read_document, write_document
from catalog.commands.import_.importing import ImportResult, import_document
from catalog.documents.downgrade import own_attributes
from catalog.documents.migration import EDITIONS
from tests.integration.conftest import Node, new_database, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = Path(__file__).parent.parent / "documents"
DEMO = Path(catalog.demo.__file__).parent / "data"
GROUPS = ("endpoints", "messagegroups", "schemagroups")
DOCUMENTS = sorted([*HERE.glob("*/*reg.*"), *DEMO.glob("*/*.json")])
WAYS = [*product(FORMATS, EDITIONS)]

# How much of each document has no newest form: what is said of an option besides its value,
# and descriptions and times of schemas whose default version has others.
LEFT_OUT = {
    "Microsoft.Storage.xreg.json": 10,
    "inkjet-protocol-variants.xreg.json": 20,
    "contoso-erp-jsons07.xreg.json": 16,
    "mqtt-sparkplugB.xreg.json": 2,
}
ids = [f"{path.parent.name}/{path.name}" for path in DOCUMENTS]


async def imported(node: Node, path: Path, **reading: Any) -> ImportResult:
    async with Client.open(node.url) as client:
        document = read_document(path, **reading)
        return await import_document(client, document, keep_going=False)


async def entities(node: Node) -> dict[str, Any]:
    """What the catalog holds, without what a server assigns and what places tell."""
    exported = await node.get("/export")
    return {name: each(exported[name]) for name in GROUPS}


def each(collection: dict[str, Any]) -> dict[str, Any]:
    return {key: essence(entity) for key, entity in collection.items()}


def essence(entity: dict[str, Any]) -> dict[str, Any]:
    found = own_attributes(entity)
    for name in ("epoch", "modifiedat", "createdat"):
        found.pop(name, None)
    for name in {"messages", "schemas", "versions"} & {*found}:
        found[name] = each(found[name])
    if "meta" in found:
        found["meta"] = essence(found["meta"])
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def catalogs(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """Two nodes for all documents: databases take longer to make than to clear."""
    database = contextlib.asynccontextmanager(new_database)
    async with (
        database(postgres_url, template) as one,
        database(postgres_url, template) as other,
        start_node(one) as first,
        start_node(other) as second,
    ):
        yield first, second


@pytest_asyncio.fixture(loop_scope="module")
async def node(catalogs: tuple[Node, Node]) -> Node:
    return await cleared(catalogs[0])


@pytest_asyncio.fixture(loop_scope="module")
async def fresh(catalogs: tuple[Node, Node]) -> Node:
    """Another catalog with nothing in it."""
    return await cleared(catalogs[1])


async def cleared(node: Node) -> Node:
    for name in GROUPS:
        assert (await node.send("DELETE", f"/{name}")).status == 204
    return node


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids)
async def test_a_document_is_refused_as_it_is_if_the_node_refuses_it_or_would_lose_some_of_it(
    node: Node, path: Path
) -> None:
    document = read_document(path)
    answer = await node.send("POST", "/", document.groups)
    await cleared(node)
    before = await node.logged()
    result = await imported(node, path)
    assert result.is_imported is (answer.status == 200 and not document.losses)
    if not result.is_imported:
        assert await node.logged() == before
        assert document.losses or result.violations


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids)
async def test_every_document_is_imported_when_it_is_migrated(
    node: Node, fresh: Node, tmp_path: Path, path: Path
) -> None:
    result = await imported(node, path, migrate=True)
    assert result.is_imported
    assert not result.violations
    assert len(result.document.migrated.left_out) == LEFT_OUT.get(path.name, 0)
    number = DOCUMENTS.index(path)
    format, edition = WAYS[(number * 7) % len(WAYS)]
    file = tmp_path / f"again.{format}"
    file.write_bytes(write_document(await node.get("/export"), format, edition))
    again = await imported(fresh, file, migrate=True)
    assert again.is_imported, again.violations
    assert not again.document.migrated.left_out
    assert await entities(fresh) == await entities(node)


async def test_what_cannot_be_rewritten_is_kept_if_that_is_wanted(node: Node) -> None:
    [path] = HERE.glob("*/inkjet-protocol-variants.xreg.json")
    result = await imported(node, path, migrate=True, keep_unknown=True)
    assert result.is_imported
    assert {left.is_kept for left in result.document.migrated.left_out} == {True}
    group = "/messagegroups/Fabrikam.InkJetPrinter.MQTT"
    found = await node.get(f"{group}/messages/Fabrikam.InkJetPrinter.MQTT.PrintJobStarted")
    assert found["protocoloptions"]["qos"] == 1
    assert found["older"]["protocolmetadata"]["qos"] == {
        "description": "Quality of Service level (at least once delivery)"
    }
