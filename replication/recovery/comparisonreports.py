"""Keeps what jobs that compare catalogs report, and shows both sides of a finding as they are now.

A side that is another catalog is asked by a link of this node that leads there, in bounded time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlencode
from uuid import UUID

from aiohttp import web

from catalog.client import ClientError
from catalog.context import CONTEXT, Context
from catalog.http.flags import page_limit
from catalog.http.outboundconnections import open_session
from catalog.http.route import Route, model_response
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.errors import NotFound
from catalog.operations import reconciliations as operations
from catalog.store import entities, links
from catalog.store.database import Connection
from catalog.store.links import Link
from replication.deciding.copychecks import Copy
from replication.deciding.copycontent import DifferingAttribute, compared
from replication.peers.handshake import BETWEEN_NODES
from replication.peers.linkbounds import Allowance, PacedClient
from replication.peers.linkerrors import describe
from replication.peers.peeraccess import access_of
from replication.sources.copypages import COPIES_OF_ONE, pages_of
from replication.store import reconciliations as store

_LONGEST_NUMBER = 9
_SECONDS = 3.0
_MOST_LINKS = 10_000
_NOT_ASKED = "it was not asked"
_NO_LINK = "no link of this node leads there, by which it could be asked"


async def list_reconciliations(request: web.Request) -> operations.Reconciliations:
    """List the latest reports of each outcome."""
    async with request[CONTEXT].database.acquire() as connection:
        return operations.Reconciliations(reconciliations=await store.read_all(connection))


async def post_reconciliation(request: web.Request, told: operations.NewReconciliation) -> None:
    """Store the report of a comparison; a repeated report is kept once."""
    async with request[CONTEXT].database.transaction() as connection:
        await store.add(connection, told)


async def post_findings(
    request: web.Request, told: operations.NewFindings
) -> operations.KeptFindings:
    """Store findings of a comparison that was reported; repeated findings are kept once."""
    context, run = request[CONTEXT], _run_of(request)
    room = max(0, context.settings.comparison_findings - told.first)
    kept = told.findings[:room]
    async with context.database.transaction() as connection:
        if not await store.note_compared(connection, run, told.compared):
            raise NotFound(request.path)
        await store.add_findings(connection, run, told.first, kept)
    return operations.KeptFindings(kept=len(kept), wanted=room - len(kept))


async def list_findings(request: web.Request, query: operations.FindingsQuery) -> web.Response:
    """List the kept findings of a comparison in pages."""
    context, limit = request[CONTEXT], page_limit(request, query.limit)
    async with context.database.snapshot() as connection:
        report = await _existing(connection, request)
        found = await store.page_of_findings(connection, report.run, query, limit + 1)
        count = await store.count_findings(connection, report.run, query)
    headers = {}
    if len(found) > limit:
        following = query.model_dump(include={"finding", "catalog", "path"}, exclude_none=True)
        page = urlencode(following | {"limit": limit, "after": found[limit - 1].number})
        headers["Link"] = f"<{context.base_url(request)}{request.path}?{page}>;rel=next"
    return model_response(
        operations.StoredFindings(findings=found[:limit], count=count), headers=headers
    )


async def show_finding(
    request: web.Request, query: operations.FindingQuery
) -> operations.FindingSides:
    """Show a finding with both sides as they are now, and the attributes that differ."""
    context, number = request[CONTEXT], request.match_info["number"]
    is_number = number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER
    async with context.database.acquire() as connection:
        report = await _existing(connection, request)
        finding = None
        if is_number:
            finding = await store.find_finding(connection, report.run, int(number))
    if finding is None:
        raise NotFound(request.path)
    return await _sides(context, report, finding, asks=query.ask)


async def _existing(connection: Connection, request: web.Request) -> operations.Reconciliation:
    """The report of the comparison that a request addresses."""
    report = await store.find(connection, _run_of(request))
    if report is None:
        raise NotFound(request.path)
    return report


def _run_of(request: web.Request) -> UUID:
    try:
        return UUID(request.match_info["run"])
    except ValueError:
        raise NotFound(request.path) from None


async def _sides(
    context: Context,
    report: operations.Reconciliation,
    finding: operations.StoredFinding,
    *,
    asks: bool,
) -> operations.FindingSides:
    """A finding with both sides; `asks` says whether other catalogs are asked, both at once."""
    origin = Origin(finding.authority, finding.origin)
    rival = origin
    if finding.rivalauthority and finding.rivalorigin:
        rival = Origin(finding.rivalauthority, finding.rivalorigin)
    wanted = [(finding.catalog, rival)]
    if finding.reference not in (None, finding.catalog):
        wanted.append((finding.reference, origin))
    async with context.database.acquire() as connection:
        held = await links.page(connection, "", _MOST_LINKS)
    (copied, one), *others = await asyncio.gather(
        *(_side(context, report, held, name, of, asks) for name, of in wanted)
    )
    reference, other = others[0] if others else (None, None)
    differing: Sequence[DifferingAttribute] = ()
    if isinstance(one, Entity) and isinstance(other, Entity):
        differing = compared(one, other)
    is_known = reference is not None and not (copied.fault or reference.fault)
    return operations.FindingSides(
        finding=finding,
        copied=copied,
        reference=reference,
        attributes=[
            operations.DifferingAttributeAnswer(
                name=each.name, copied=each.here, reference=each.there
            )
            for each in differing
        ],
        isequal=is_known and _agree(one, other),
        isrepairable=copied.ishere
        and finding.finding in operations.REPAIRABLE
        and finding.authority != context.database.node.authority,
    )


def _agree(one: Copy | None, other: Copy | None) -> bool:
    if one is None or other is None:
        # A catalog that never had an entity agrees with the deletion of the entity.
        return not isinstance(one, Entity) and not isinstance(other, Entity)
    return one.digest == other.digest


async def _side(
    context: Context,
    report: operations.Reconciliation,
    held: Sequence[Link],
    name: str,
    origin: Origin,
    asks: bool,
) -> tuple[operations.FindingSide, Copy | None]:
    """The side of the catalog with a name, and its present copy, as far as the copy is known."""
    if name == report.name:
        copy = await _here(context, origin)
        return _shown(operations.FindingSide(catalog=name, ishere=True), copy), copy
    known = next((each for each in report.compared if each.name == name), None)
    link = None if known is None else _leading_to(known, held)
    if link is None:
        return operations.FindingSide(catalog=name, ishere=False, fault=_NO_LINK), None
    url, fault = link.definition.peer, _NOT_ASKED
    if asks:
        try:
            async with asyncio.timeout(_SECONDS):
                copy = await _there(context, link, origin)
            return _shown(
                operations.FindingSide(catalog=name, ishere=False, link=link.id), copy
            ), copy
        except TimeoutError:
            fault = f"{url} did not answer within {_SECONDS:g} seconds"
        except ClientError as error:
            fault = describe(error, url)
    return operations.FindingSide(catalog=name, ishere=False, link=link.id, fault=fault), None


def _shown(side: operations.FindingSide, copy: Copy | None) -> operations.FindingSide:
    if copy is None:
        return side.model_copy(update={"isabsent": True})
    present = operations.PresentCopy(
        epoch=copy.epoch,
        deleted=isinstance(copy, Tombstone),
        digest=copy.digest.hex(),
        changedat=copy.deletedat if isinstance(copy, Tombstone) else copy.modifiedat,
    )
    return side.model_copy(update={"present": present})


async def _here(context: Context, origin: Origin) -> Copy | None:
    async with context.database.snapshot() as connection:
        live = (await entities.load_by_origin(connection, [origin])).get(origin)
        if live is None:
            return (await entities.load_tombstones(connection, [origin])).get(origin)
        documents = await entities.load_documents(connection, [live.xid])
    return replace(live, document=documents.get(live.xid))


def _leading_to(catalog: operations.ComparedCatalog, held: Sequence[Link]) -> Link | None:
    """The link whose other end is a catalog: by the authority of the catalog, or by its URL."""
    for link in held:
        is_there = catalog.authority == link.authority or catalog.url == link.definition.peer
        if link.definition.mode in BETWEEN_NODES and is_there:
            return link
    return None


async def _there(context: Context, link: Link, origin: Origin) -> Copy | None:
    """The copy of another catalog, with the credential of the link that leads there."""
    async with open_session(context.settings) as session:
        access = access_of(link, context)
        # The time of the whole question is over before that of a single request.
        peer = PacedClient(link.definition.peer, session, 2 * _SECONDS, credential=access)
        allowance = Allowance.of(context.settings, COPIES_OF_ONE)
        pages = pages_of(context, peer.fetch_lines([origin]), allowance)
        async with contextlib.aclosing(pages):
            async for page in pages:
                for copy in page.copies:
                    is_of_origin = (copy.authority, copy.origin) == origin
                    if is_of_origin and isinstance(copy, Entity | Tombstone):
                        return copy
    return None


routes: Sequence[Route] = (
    Route(operations.LIST_RECONCILIATIONS, list_reconciliations),
    Route(operations.TELL_RECONCILIATION, post_reconciliation),
    Route(operations.LIST_FINDINGS, list_findings),
    Route(operations.TELL_FINDINGS, post_findings),
    Route(operations.SHOW_FINDING, show_finding),
)
