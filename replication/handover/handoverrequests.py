"""Handlers for operators who hand groups over or adopt them, and for requests of the other side.

Neither side trusts the content of a request of the other side: each side asks the peer at the URL
that the own operator has named. So a request of a stranger only wakes a node. The server of an
adopted group cannot hand groups over: its operator lets it take no more writes, and the link that
followed the server is paused.
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from aiohttp import web

from catalog.client import Client, ClientError, Refused
from catalog.context import CONTEXT, Context
from catalog.dialects.confluent.contexts import DEFAULT_CONTEXT
from catalog.http.allowedaddresses import why_refused
from catalog.http.flags import page_limit
from catalog.http.route import Route, model_response
from catalog.http.stream import in_pieces, send, stream_share
from catalog.load.workthread import aside
from catalog.model.change import Change
from catalog.model.concorderrors import HandoverRefused, LimitReached
from catalog.model.confluentattribute import CONFLUENT
from catalog.model.credentials import PeerCredential
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.errors import BadRequest, InvalidAttribute, NotFound
from catalog.operations import handovers as operations
from catalog.operations.links import AdoptedGroups, AdoptQuery
from catalog.operations.operation import LINES, PageQuery
from catalog.store import entities as store
from catalog.store import linksources, schemaids
from catalog.store.database import Connection
from catalog.store.locks import Touched, lock_and_load
from catalog.store.secrets import seal_credential
from replication.handover import handovertransactions as transactions
from replication.handover.handovercopies import Succession, Unfit, succeed
from replication.links.linkanswers import existing_link
from replication.links.links import next_page
from replication.peers.handshake import first_contact, shake_hands, why_own
from replication.peers.linkerrors import NO_LINK, describe
from replication.peers.peeraccess import (
    access_for,
    access_of_row,
    check_credential,
    peer_credential,
)
from replication.store import copies as stored_copies
from replication.store import handovers
from replication.store.handovers import Handover

_MOST_OPEN = 100
_FORCE = (
    "`--force` ends it here all the same. If it was given, nobody can write to the group then "
    "until it is accepted again."
)
_PROMISED = "this node has promised to take it, and only the giver knows whether it is given"


async def list_handovers(request: web.Request, page: PageQuery) -> web.Response:
    """List the handovers in pages."""
    context, limit = request[CONTEXT], page_limit(request, page.limit)
    async with context.database.acquire() as connection:
        found = await handovers.page(connection, page.after, limit + 1)
    headers = next_page(request, limit, found[limit - 1].id) if len(found) > limit else {}
    shown = operations.Handovers(handovers=[_show(each) for each in found[:limit]])
    return model_response(shown, headers=headers)


async def get_handover(request: web.Request) -> operations.HandoverAnswer:
    """Show a handover, to operators and to the other side."""
    async with request[CONTEXT].database.acquire() as connection:
        return _show(await _existing(connection, request))


async def begin_handover(request: web.Request, wanted: operations.NewHandover) -> web.Response:
    """Offer a group to another catalog, or consent to take one.

    The operator of the taker consents first. The node asks the remote catalog for its authority.

    Raises:
        HandoverRefused
    """
    context, group, follows = request[CONTEXT], wanted.group, dict[str, int]()
    role: operations.HandoverRole = "take" if wanted.to is None else "give"
    url = wanted.source if wanted.to is None else wanted.to
    assert url is not None
    credential = peer_credential(wanted.credential, request.path)
    authority = await _meet(request, role, group, url, credential)
    touched = Touched(groups=frozenset({group}), groups_exclusive=True, registry_exclusive=True)
    async with context.database.transaction() as connection:
        if role == "take":
            # Without the locks, a write could create the group before the reservation.
            await lock_and_load(connection, touched)
            if obstacle := await transactions.find_obstacle(connection, group, authority):
                raise HandoverRefused(request.path, group=group, error_detail=obstacle)
        made = await _add(connection, request, role, group, url, credential, authority)
        if role == "give":
            try:
                await transactions.load_group(connection, context.database.node.authority, made.xid)
            except Unfit as error:
                fault = str(error)
                raise HandoverRefused(request.path, group=group, error_detail=fault) from error
            links = await linksources.pinned_to(connection, [authority])
            follows = {"followsby": len(links)}
    location = f"{context.base_url(request)}/replication/handovers/{made.id}"
    shown = _show(made).model_copy(update=follows)
    return model_response(shown, status=201, headers={"Location": location})


async def abort_handover(
    request: web.Request, query: operations.EndQuery
) -> operations.HandoverAnswer:
    """End a handover, unless the group was given.

    A taker that has promised to take the group asks the giver to end the handover as well.

    Raises:
        HandoverRefused
    """
    context = request[CONTEXT]
    async with context.database.acquire() as connection:
        found = await _existing(connection, request)
    if found.state == "promised":
        await _ask_giver(context, found, is_forced=query.force)
    # The giver is asked before the transaction, so that no lock is held while a peer is awaited.
    # Meanwhile, the runner may have gone on.
    async with context.database.transaction() as connection:
        current = await handovers.lock(connection, found.id)
        if current is None:
            raise NotFound(request.path)
        if current.state == "aborted":
            return _show(current)
        if current.state in ("given", "done"):
            where = (
                f"the group is {current.authority}'s" if current.role == "give" else "it is here"
            )
            fault = f"it was given, so {where}, and the handover can only be completed"
            raise HandoverRefused(request.path, group=current.xid, error_detail=fault)
        # The promise was made meanwhile, so the giver was not asked.
        if current.state == "promised" and found.state != "promised":
            raise HandoverRefused(request.path, group=current.xid, error_detail=_PROMISED)
        ended = await handovers.move_on(
            connection, current, "aborted", datetime.now(UTC), error="an operator ended it"
        )
    return _show(ended)


async def _add(
    connection: Connection,
    request: web.Request,
    role: operations.HandoverRole,
    group: str,
    url: str,
    credential: PeerCredential,
    authority: str,
) -> Handover:
    id, keys = uuid.uuid4().hex[:12], request[CONTEXT].keys
    if await handovers.count_open(connection) >= _MOST_OPEN:
        things = "handovers under way"
        raise LimitReached(request.path, limit=str(_MOST_OPEN), things=things, setting="fixed")
    made = await handovers.add(
        connection,
        id=id,
        role=role,
        xid=group,
        peer=url,
        authority=authority,
        at=datetime.now(UTC),
        sealed=await seal_credential(connection, keys, credential, "handovers", id),
    )
    if made is None:
        detail = "a handover of it is under way already; `concord handover list` shows it"
        raise HandoverRefused(request.path, group=group, error_detail=detail)
    return made


async def _meet(
    request: web.Request,
    role: operations.HandoverRole,
    group: str,
    url: str,
    credential: PeerCredential,
) -> str:
    """Ask a catalog for its authority, and a taker also whether the operator has consented."""
    context, subject = request[CONTEXT], request.path
    if refusal := why_refused(url, context.settings):
        name = "to" if role == "give" else "from"
        raise InvalidAttribute(subject, name=name, error_detail=refusal)
    check_credential(credential, url, context.settings, subject)
    access = await access_for(context, url, credential)
    async with first_contact(context, url, access) as peer:
        try:
            found = await shake_hands(peer)
            if fault := why_own(context, found):
                raise HandoverRefused(subject, group=group, error_detail=f"at {url}, {fault}")
            if role == "give":
                await _ask_consent(context, peer, group, subject)
        except ClientError as error:
            fault = describe(error, url, NO_LINK).rstrip(".")
            raise HandoverRefused(subject, group=group, error_detail=fault) from error
    assert found.authority != context.database.node.authority
    return found.authority


async def _ask_consent(context: Context, peer: Client, group: str, subject: str) -> None:
    try:
        query = operations.HandoverQuery(group=group, authority=context.database.node.authority)
        await peer.call(operations.GET_CONSENT, query=query)
    except Refused as error:
        if error.problem.status != 404:
            raise
        command = shlex.join(["concord", "handover", "accept", group, "--from"])
        raise HandoverRefused(
            subject,
            group=group,
            error_detail=f"the operator of {peer.url} has not consented",
            detail=f"There, run `{command} {context.public_base}`.",
        ) from error


async def _ask_giver(context: Context, handover: Handover, *, is_forced: bool) -> None:
    """Have the giver end a handover, or make sure that the giver does not know the handover.

    Only the giver knows whether the group was given, so the taker may not end a promised handover
    alone, unless forced.
    """
    assert handover.theirs is not None
    access = await access_of_row(context, handover.peer, handover.sealed, "handovers", handover.id)
    async with first_contact(context, handover.peer, access) as peer:
        try:
            await peer.call(operations.ABORT_HANDOVER, id=handover.theirs)
        except ClientError as error:
            is_unknown = isinstance(error, Refused) and error.problem.name == "not_found"
            if is_forced or is_unknown:
                return
            group, fault = handover.xid, describe(error, handover.peer, NO_LINK).rstrip(".")
            raise HandoverRefused(
                group, group=group, error_detail=f"{_PROMISED}: {fault}", detail=_FORCE
            ) from error


async def _existing(connection: Connection, request: web.Request) -> Handover:
    found = await handovers.get(connection, request.match_info["id"])
    if found is None:
        raise NotFound(request.path)
    return found


def _show(handover: Handover) -> operations.HandoverAnswer:
    return operations.HandoverAnswer.model_validate(handover, from_attributes=True)


async def get_consent(request: web.Request, query: operations.HandoverQuery) -> operations.Consent:
    """Tell whether this node waits for a group of an authority."""
    wanted = query.group, query.authority
    async with request[CONTEXT].database.acquire() as connection:
        reserved = await handovers.read_reservations(connection)
    if not any((each.xid, each.authority) == wanted for each in reserved):
        raise NotFound(request.path)
    return operations.Consent(group=query.group, authority=query.authority)


async def hear_offer(
    request: web.Request, offer: operations.HandoverOffer
) -> operations.OfferAnswer:
    """Hear a giver of a handover, which learns how far it is.

    The node then asks the giver for the state of the handover, and continues.

    Raises:
        HandoverRefused: the node's operator has not consented, or the giver still has an earlier
            offer of the group.
    """
    context = request[CONTEXT]
    async with context.database.transaction() as connection:
        found = await handovers.find_taken(connection, offer.authority, offer.id, offer.group)
        if found is None:
            detail = "the operator of the other side has not consented"
            raise HandoverRefused(request.path, group=offer.group, error_detail=detail)
        if found.state == "consented":
            at = datetime.now(UTC)
            found = await handovers.move_on(connection, found, "asked", at, theirs=offer.id)
        elif found.state != "done" or found.theirs != offer.id:
            await handovers.hurry(connection, found)
    # The refusal comes after the transaction, so that it does not undo the next attempt.
    if found.theirs != offer.id:
        detail = "the other side still has an earlier offer of it"
        raise HandoverRefused(request.path, group=offer.group, error_detail=detail)
    return operations.OfferAnswer(
        state=found.state,
        authority=context.database.node.authority,
        floor=found.floor,
        error=found.error,
    )


async def get_copies(request: web.Request) -> web.StreamResponse:
    """Read what the taker of a handover gets, or would get now: ends, then entities."""
    context = request[CONTEXT]
    async with context.database.acquire() as connection:
        found = await handovers.get(connection, request.match_info["id"])
    if found is None or found.state not in ("offered", "given"):
        raise NotFound(request.path)
    lines = (transactions.preview_lines if found.state == "offered" else transactions.given_lines)(
        context, found
    )
    async with stream_share(request):
        return await send(request, in_pieces(lines), {"Content-Type": LINES})


routes: Sequence[Route] = (
    Route(operations.LIST_HANDOVERS, list_handovers),
    Route(operations.BEGIN_HANDOVER, begin_handover),
    Route(operations.GET_HANDOVER, get_handover),
    Route(operations.ABORT_HANDOVER, abort_handover),
    Route(operations.TELL_OFFER, hear_offer),
    Route(operations.GET_CONSENT, get_consent),
    Route(operations.GET_COPIES, get_copies),
)


_AT_ONCE = 1000


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
        adopt = partial(_adopt_at, context, link.authority, group.xid, is_home=is_home)
        try:
            changes, entities = await transactions.repeated(adopt)
        except Unfit as error:
            fault = str(error)
            raise HandoverRefused(request.path, group=group.xid, error_detail=fault) from error
        context.database.signal.set(changes)
        number += entities
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


async def _adopt_at(
    context: Context, authority: str, xid: str, *, is_home: bool
) -> tuple[Sequence[Change], int]:
    """Adopt a group with everything below it; return the changes and the number of entities.

    Raises:
        Unfit: nothing was written.
    """
    own, now = context.database.node.authority, datetime.now(UTC)
    async with context.database.transaction() as connection:
        locked = await lock_and_load(connection, transactions.touched_by({xid}))
        entities, deleted = await transactions.load_group(connection, authority, xid)
        there = entities[0].origin
        dead = await store.load_tombstones(connection, [Origin(own, e.xid) for e in entities])
        floor = await handovers.read_floor(connection, own, xid)
        made = await aside(len(entities), succeed, entities, deleted, own, floor, now)
        made = await aside(len(entities), _placed, made, there, xid, is_home)
        signer = await context.signers.get(connection, locked.signing_key)
        changes = await transactions.write_succession(
            context, connection, entities, made, dead, signer
        )
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
