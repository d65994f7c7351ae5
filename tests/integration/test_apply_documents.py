"""The published documents of the field, applied as `concord apply` does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.client import Client
from catalog.commands.apply.requests import (
    ApplyOptions,
    Capacity,
    DesiredState,
    requests_for,
    send_all,
)
from catalog.commands.documentfile import read_document
from catalog.documents.clean import clean
from tests.integration.conftest import Node, shared_node
from tests.integration.test_documents import DOCUMENTS, GROUPS

pytestmark = pytest.mark.asyncio(loop_scope="module")
CAPACITY = Capacity(bytes=16 << 20, values=500_000)

node = shared_node()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
async def test_a_document_that_was_applied_has_nothing_to_do(node: Node, path: Path) -> None:
    for groups in GROUPS:
        await node.send("DELETE", f"/{groups}")
    document = read_document(path, migrate=True, keep_unknown=True)
    async with Client.open(node.url) as client:
        desired = DesiredState(model=await client.model())
        desired.add(path.name, document.groups)
        requests = requests_for(desired, ApplyOptions(prune=True), CAPACITY)
        first = await send_all(client, requests, dry_run=False)
        assert first.failure is None
        assert first.changes
        before = await node.state()
        again = await send_all(client, requests, dry_run=False)
        assert (again.failure, again.changes) == (None, [])
        exported = await node.get("/export")
        groups = {name: exported[name] for name in GROUPS}
        answer = await client.post("/apply", groups, {"prune": ""})
        assert answer["changes"] == []
        model = await client.model()
        cleaned = clean(exported, model)
        del cleaned["specversion"]
        answer = await client.post("/apply", cleaned, {"prune": ""})
        assert answer["changes"] == []
        assert await node.state() == before
        for plural in GROUPS:
            await node.send("DELETE", f"/{plural}")
        await client.post("/apply", cleaned)
        assert clean(await node.get("/export"), model) == {"specversion": "1.0-rc4", **cleaned}
