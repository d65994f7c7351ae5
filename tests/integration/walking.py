"""Walks of a foreign server, step by step, and what a node has of it afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from catalog.http.outboundconnections import open_session
from catalog.store import links
from replication.deciding.provenance import met
from replication.sinks.owncatalog import OwnCatalog
from replication.sources.catalogwalk import Walked
from replication.sources.walksource import WalkSource
from replication.transfer.linkrun import LinkResources, LinkRun
from tests.integration.conftest import Node
from tests.integration.federation import digest_rows, quick_timing
from tests.integration.foreignserver import RESOURCES, ForeignServer

LINK = "foreign"


@dataclass(slots=True, repr=False)
class Walker:
    """The link of a node to a foreign server, which is walked when a test says so."""

    node: Node
    session: aiohttp.ClientSession
    run: LinkRun = field(init=False)
    source: WalkSource = field(init=False)
    sink: OwnCatalog = field(init=False)

    async def walk(self) -> Walked:
        """Meet the server, and apply what one walk of it brings."""
        async with self.source.opened():
            return await self._walk()

    async def _walk(self) -> Walked:
        database = self.node.database
        await self.source.meet()
        async with database.transaction() as connection:
            before = await links.get(connection, LINK)
            assert before is not None
            found = await self.source.identify(connection, before)
            await links.meet(connection, before, found.instance, found.authority, found.base)
        self.run.link = met(before, found.instance, found.authority, "")
        await self.sink.reconsider()
        async with contextlib.aclosing(self.source.walk()) as pages:
            async for page in pages:
                await self.sink.apply(page)
        assert self.source.walked is not None
        return self.source.walked

    async def begin_anew(self) -> None:
        """Run the link as after a restart of the node."""
        async with self.node.database.acquire() as connection:
            link = await links.get(connection, LINK)
        assert link is not None
        resources = LinkResources.of(self.node.context, self.session, quick_timing())
        self.run = LinkRun.of(link, resources)
        self.source, self.sink = WalkSource(self.run), OwnCatalog(self.run)

    async def conflicts(self) -> dict[str, str]:
        """The reasons of conflicts, by xid."""
        found = await self.node.get(f"/replication/links/{LINK}/conflicts")
        return {each["xid"]: each["detail"] for each in found["conflicts"]}

    async def link(self) -> Any:
        return await self.node.get(f"/replication/links/{LINK}")


@contextlib.asynccontextmanager
async def walking(node: Node, foreign: ForeignServer, **definition: Any) -> AsyncIterator[Walker]:
    """A link of a node to a foreign server."""
    body = {"id": LINK, "source": foreign.url, "mode": "walk", **definition}
    answer = await node.send("POST", "/replication/links", body)
    assert answer.status == 201, answer.body
    async with open_session(node.context.settings) as session:
        walker = Walker(node, session)
        await walker.begin_anew()
        yield walker


async def replicas(node: Node, authority: str) -> dict[str, int]:
    """The live entities of an authority at a node: their epochs by xid."""
    return {
        origin: epoch
        for (named, origin), (epoch, deleted, _) in (await digest_rows(node, verify=True)).items()
        if named == authority and deleted == "false"
    }


def entities_of(foreign: ForeignServer, plurals: tuple[str, ...] = ()) -> dict[str, Any]:
    """All entities of a foreign server by xid."""
    found: dict[str, Any] = {}
    for plural, groups in foreign.groups.items():
        if plurals and plural not in plurals:
            continue
        for gid, group in groups.items():
            found[f"/{plural}/{gid}"] = group
            for rid, resource in group["resources"].items():
                path = f"/{plural}/{gid}/{RESOURCES[plural]}/{rid}"
                found[path] = resource
                found |= {f"{path}/versions/{v}": e for v, e in resource["versions"].items()}
    return found


async def assert_equal(node: Node, foreign: ForeignServer, *plurals: str) -> None:
    """Check that a node has exactly what the server has: attributes, times, documents."""
    expected = entities_of(foreign, plurals)
    assert set(await replicas(node, foreign.url)) == set(expected)
    for xid, entity in expected.items():
        level = xid.count("/")
        shown = await node.get({4: f"{xid}/meta", 6: f"{xid}$details"}.get(level, xid))
        assert entity["attributes"].items() <= shown.items(), xid
        if "xref" in entity["attributes"]:
            continue
        assert (shown["createdat"], shown["modifiedat"]) == (
            entity["createdat"],
            entity["modifiedat"],
        )
        if level == 6 and "/schemas/" in xid:
            assert (await node.send("GET", xid)).body == (entity["document"] or b"")
