"""Adopts the groups that a link has brought from a server of other software as the node's own.

The server cannot hand groups over. Its operator lets it take no more writes, and the link that
followed it is paused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.dialects.confluent.contexts import DEFAULT_CONTEXT
from catalog.load.workthread import aside
from catalog.model.change import Change
from catalog.model.concorderrors import HandoverRefused
from catalog.model.confluentattribute import CONFLUENT
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.errors import BadRequest
from catalog.operations.links import AdoptedGroups, AdoptQuery
from catalog.store import entities as store
from catalog.store import schemaids
from catalog.store.database import Connection
from catalog.store.locks import MustBeginAgain, lock_and_load
from replication.handover.handovercopies import Succession, Unfit, succeed
from replication.handover.handovertransactions import load_group, touched_by, write_succession
from replication.links.linkanswers import existing_link
from replication.store import copies as stored_copies
from replication.store import handovers

_AT_ONCE = 1000
_MOST_ATTEMPTS = 5


async def adopt_link(request: web.Request, query: AdoptQuery) -> AdoptedGroups:
    """Make the groups that a link has brought from a walked server the node's own.

    Each group is adopted in a transaction of its own; a request that broke off is repeated.

    Raises:
        BadRequest: the link does not walk a server, or is not paused.
        HandoverRefused: a group cannot be adopted, or the node has a default context already.
    """
    context = request[CONTEXT]
    async with context.database.acquire() as connection:
        link = await existing_link(connection, request)
    if link.definition.mode != "walk" or link.authority is None:
        detail = "only what a walked server has is adopted; nodes hand groups over"
        raise BadRequest(request.path, error_detail=detail)
    if link.paused is None:
        detail = f'link "{link.id}" has to be paused first, as it would go on to follow the server'
        raise BadRequest(request.path, error_detail=detail)
    adopted: list[str] = []
    number = 0
    async with context.database.acquire() as connection:
        groups = await _groups_of(connection, link.authority)
        if query.default:
            await _check_no_home(context, connection, request.path)
    for group in groups:
        is_home = query.default and _source_of(group) == DEFAULT_CONTEXT
        try:
            number += await _adopt_group(context, link.authority, group.xid, is_home=is_home)
        except Unfit as error:
            fault = str(error)
            raise HandoverRefused(request.path, group=group.xid, error_detail=fault) from error
        adopted.append(group.xid)
    return AdoptedGroups(groups=adopted, entities=number)


async def _groups_of(connection: Connection, authority: str) -> list[Entity]:
    """The groups of an authority, by path."""
    groups: list[Entity] = []
    after = Origin("", "")
    while found := await stored_copies.page_entities(connection, [authority], after, _AT_ONCE):
        after = found[-1]
        origins = [origin for origin in found if origin.xid.count("/") == 2]
        groups += (await store.load_by_origin(connection, origins)).values()
    return sorted(groups, key=lambda group: group.xid)


async def _check_no_home(context: Context, connection: Connection, subject: str) -> None:
    """Check that the node has no default context of the Confluent API yet."""
    own = context.database.node.authority
    rows = [row for row in await schemaids.load_contexts(connection) if row.authority == own]
    for xid, group in (await store.load(connection, [row.xid for row in rows])).items():
        if _kept(group).get("home") is True:
            fault = "it is the default context of this node"
            raise HandoverRefused(subject, group=xid, error_detail=fault)


def _kept(group: Entity) -> dict[str, Any]:
    kept = group.attributes.get(CONFLUENT)
    return dict(kept) if isinstance(kept, dict) else {}


def _source_of(group: Entity) -> str:
    """The context of the registry that a group was brought from."""
    source = _kept(group).get("source")
    return str(source.get("context")) if isinstance(source, dict) else ""


async def _adopt_group(context: Context, authority: str, xid: str, *, is_home: bool) -> int:
    """Adopt a group with everything below it; the number of entities.

    Raises:
        Unfit: nothing was written.
    """
    for _ in range(_MOST_ATTEMPTS):
        try:
            changes, number = await _adopt_at(context, authority, xid, is_home=is_home)
        except MustBeginAgain:
            continue
        context.database.signal.set(changes)
        return number
    raise Unfit("the catalog here changes too often at the moment")


async def _adopt_at(
    context: Context, authority: str, xid: str, *, is_home: bool
) -> tuple[Sequence[Change], int]:
    own, now = context.database.node.authority, datetime.now(UTC)
    async with context.database.transaction() as connection:
        locked = await lock_and_load(connection, touched_by({xid}))
        entities, deleted = await load_group(connection, authority, xid)
        there = entities[0].origin
        dead = await store.load_tombstones(connection, [Origin(own, e.xid) for e in entities])
        floor = await handovers.read_floor(connection, own, xid)
        made = await aside(len(entities), succeed, entities, deleted, own, floor, now)
        made = await aside(len(entities), _placed, made, there, xid, is_home)
        signer = await context.signers.get(connection, locked.signing_key)
        changes = await write_succession(context, connection, entities, made, dead, signer)
    return changes, len(entities)


def _placed(made: Succession, there: str, here: str, is_home: bool) -> Succession:
    """The node's entities at their paths here, which are their origins from now on."""

    def remembered(tombstone: Tombstone) -> Tombstone:
        path = here + tombstone.origin.removeprefix(there)
        return replace(tombstone, xid=path, origin=path)

    successors = [replace(each, origin=each.xid) for each in made.successors]
    if is_home:
        group = successors[0]
        kept = {**_kept(group), "home": True}
        successors[0] = replace(group, attributes={**group.attributes, CONFLUENT: kept})
    return Succession(
        ends=made.ends,
        successors=[each.sealed() for each in successors],
        remembered=[remembered(each) for each in made.remembered],
    )
