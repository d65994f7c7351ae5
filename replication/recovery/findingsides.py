"""Shows a finding of a comparison as it is now: this node's copy beside that of the other catalog.

The other catalog is asked by a link of this node that leads there, in bounded time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalog.client import ClientError
from catalog.context import Context
from catalog.http.outbound import open_session
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.linkterms import Mode
from catalog.operations.reconciliations import (
    REPAIRABLE,
    ComparedCatalog,
    DifferingAttributeAnswer,
    FindingSide,
    FindingSides,
    PresentCopy,
    Reconciliation,
    StoredFinding,
)
from catalog.store import entities as store
from catalog.store import links
from catalog.store.links import Link
from replication.deciding.differingattributes import compared
from replication.peers.linkbounds import Allowance
from replication.peers.linkerrors import describe
from replication.peers.pacedclient import PacedClient
from replication.peers.peeraccess import access_of
from replication.sources.copypages import COPIES_OF_ONE, pages_of

_SECONDS = 3.0
_MOST_LINKS = 10_000
# A node answers requests for single entities; a topic and a server of other software do not.
_ASKED: frozenset[Mode] = frozenset({"pull", "events", "push"})
_NOT_ASKED = "it was not asked"
_NO_LINK = "no link of this node leads there, by which it could be asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """What a catalog has of an origin; `found` is `None` if it has nothing, or is not known."""

    catalog: str
    is_here: bool
    found: Entity | Tombstone | None = None
    link: str | None = None
    fault: str | None = None

    @property
    def is_known(self) -> bool:
        return self.fault is None

    def shown(self) -> FindingSide:
        copy = self.found
        return FindingSide(
            catalog=self.catalog,
            ishere=self.is_here,
            isabsent=self.is_known and copy is None,
            link=self.link,
            fault=self.fault,
            present=None
            if copy is None
            else PresentCopy(
                epoch=copy.epoch,
                deleted=isinstance(copy, Tombstone),
                digest=copy.digest.hex(),
                changedat=copy.deletedat if isinstance(copy, Tombstone) else copy.modifiedat,
            ),
        )


async def sides_of(
    context: Context, report: Reconciliation, finding: StoredFinding, *, asks: bool
) -> FindingSides:
    """A finding with both sides.

    Args:
        asks: whether sides that are other catalogs are asked, both at once.
    """
    origin = Origin(finding.authority, finding.origin)
    rival = origin
    if finding.rivalauthority and finding.rivalorigin:
        rival = Origin(finding.rivalauthority, finding.rivalorigin)
    asked = [_side(context, report, finding.catalog, rival, asks)]
    if finding.reference is not None and finding.reference != finding.catalog:
        asked.append(_side(context, report, finding.reference, origin, asks))
    copied, *others = await asyncio.gather(*asked)
    reference = others[0] if others else None
    return FindingSides(
        finding=finding,
        copied=copied.shown(),
        reference=None if reference is None else reference.shown(),
        attributes=_differences(copied, reference),
        isequal=reference is not None and _agree(copied, reference),
        isrepairable=copied.is_here
        and finding.finding in REPAIRABLE
        and finding.authority != context.database.node.authority,
    )


def _differences(copied: _Side, reference: _Side | None) -> list[DifferingAttributeAnswer]:
    if reference is None:
        return []
    one, other = copied.found, reference.found
    if not (isinstance(one, Entity) and isinstance(other, Entity)):
        return []
    return [
        DifferingAttributeAnswer(name=each.name, copied=each.here, reference=each.there)
        for each in compared(one, other)
    ]


def _agree(copied: _Side, reference: _Side) -> bool:
    if not (copied.is_known and reference.is_known):
        return False
    one, other = copied.found, reference.found
    if one is None or other is None:
        # A catalog that never had an entity agrees with the deletion of the entity.
        return not isinstance(one, Entity) and not isinstance(other, Entity)
    return one.digest == other.digest


async def _side(
    context: Context, report: Reconciliation, catalog: str, origin: Origin, asks: bool
) -> _Side:
    if catalog == report.name:
        return _Side(catalog=catalog, is_here=True, found=await _here(context, origin))
    side = _Side(catalog=catalog, is_here=False)
    known = next((each for each in report.compared if each.name == catalog), None)
    async with context.database.acquire() as connection:
        by_id = await links.page(connection, "", _MOST_LINKS)
    link = None if known is None else _leading_to(known, by_id)
    if link is None:
        return replace(side, fault=_NO_LINK)
    url, side = link.definition.peer, replace(side, link=link.id)
    if not asks:
        return replace(side, fault=_NOT_ASKED)
    try:
        async with asyncio.timeout(_SECONDS):
            return replace(side, found=await _there(context, link, origin))
    except TimeoutError:
        return replace(side, fault=f"{url} did not answer within {_SECONDS:g} seconds")
    except ClientError as error:
        return replace(side, fault=describe(error, url))


async def _here(context: Context, origin: Origin) -> Entity | Tombstone | None:
    async with context.database.snapshot() as connection:
        live = (await store.load_by_origin(connection, [origin])).get(origin)
        if live is None:
            return (await store.load_tombstones(connection, [origin])).get(origin)
        documents = await store.load_documents(connection, [live.xid])
    return replace(live, document=documents.get(live.xid))


def _leading_to(catalog: ComparedCatalog, by_id: Sequence[Link]) -> Link | None:
    """The link whose other end is a catalog: by the authority of the catalog, or by its URL."""
    for link in by_id:
        is_there = catalog.authority == link.authority or catalog.url == link.definition.peer
        if link.definition.mode in _ASKED and is_there:
            return link
    return None


async def _there(context: Context, link: Link, origin: Origin) -> Entity | Tombstone | None:
    """The copy of another catalog, with the credential of the link that leads there.

    Raises:
        ClientError
    """
    async with open_session(context.settings) as session:
        access = access_of(link, context)
        # The time of the whole question is over before that of a single request.
        peer = PacedClient(link.definition.peer, session, 2 * _SECONDS, credential=access)
        allowance = Allowance.of(context.settings, COPIES_OF_ONE)
        pages = pages_of(context, peer.fetch_lines([origin]), allowance)
        async with contextlib.aclosing(pages):
            async for page in pages:
                for copy in page.copies:
                    if isinstance(copy, Entity | Tombstone) and origin == Origin(
                        copy.authority, copy.origin
                    ):
                        return copy
    return None
