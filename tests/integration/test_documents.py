"""The published documents of the field, imported as `concord import` does it."""

from __future__ import annotations

from pathlib import Path

import pytest

import catalog.demo
from catalog.client import Client
from catalog.commands.document import import_document, read_document
from tests.integration.conftest import Node

HERE = Path(__file__).parent.parent / "documents"
DEMO = Path(catalog.demo.__file__).parent / "data"
DOCUMENTS = sorted([*HERE.glob("*/*.*"), *DEMO.glob("*/*.json")])

# What the documents break that are written to older editions, or are not valid in their
# formats: how many violations they have, and how many entities are left out for them. The
# others break nothing. Of the last two nothing can be imported: their groups have older names.
BROKEN = {
    "Microsoft.Storage.xreg.json": (12, 2),
    "amqp-consumer-endpoint-2grp.xreg.json": (4, 2),
    "mqtt_end_to_end.cereg.json": (2, 2),
    "test-contoso-erp.xreg.json": (17, 17),
    "digitraffic_road.xreg.json": (16, 10),
    "openaq.xreg.json": (3, 3),
    "schemastore_org.xreg.json": (705, 661),
    "contoso-crm.cereg.json": (4, 0),
    "contoso-crm.cereg.yaml": (3, 0),
}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
async def test_a_document_is_imported_whole_or_all_its_violations_are_listed(
    node: Node, path: Path
) -> None:
    document = read_document(path)
    async with Client.open(node.url) as client:
        whole = await import_document(client, document, keep_going=False)
        assert whole.is_imported is (path.name not in BROKEN)
        if whole.is_imported:
            assert not whole.violations
            return
        assert (await client.get("/"))["epoch"] == 1
        rest = await import_document(client, document, keep_going=True)
    assert rest.violations == whole.violations, "a second try finds nothing new"
    assert (len(whole.violations), len(rest.left_out)) == BROKEN[path.name]
