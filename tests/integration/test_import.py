"""What `concord import` does where a catalog has something already."""

from __future__ import annotations

from pathlib import Path

import orjson

from catalog.client import Client
from catalog.commands.document import read_document
from catalog.commands.importing import import_document
from tests.integration.conftest import Node


async def test_what_has_another_epoch_is_replaced_only_if_that_is_asked_for(
    node: Node, tmp_path: Path
) -> None:
    path = tmp_path / "old.xreg.json"
    group = {"epoch": 0, "name": "from elsewhere", "messages": {"m": {}}}
    path.write_bytes(orjson.dumps({"messagegroups": {"g": group}}))
    document = read_document(path)
    async with Client.open(node.url) as client:
        assert (await import_document(client, document, keep_going=False)).is_imported
        again = await import_document(client, document, keep_going=False)
        assert [v.type.rpartition("#")[2] for v in again.violations] == ["mismatched_epoch"]
        forced = await import_document(client, document, keep_going=False, overwrite=True)
        assert forced.is_imported
    assert (await node.get("/messagegroups/g"))["epoch"] == 2


def test_nothing_is_said_of_what_a_catalog_assigns_in_whatever_case(tmp_path: Path) -> None:
    path = tmp_path / "old.cereg"
    said = {"specVersion": "0.4-wip", "endpointsURL": "#", "endpointsCount": 0, "description": "x"}
    path.write_bytes(orjson.dumps({**said, "schemaGroups": {"g": {}}}))
    assert read_document(path, migrate=True).not_sent == ("description",)
