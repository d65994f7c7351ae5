"""The handler that changes the selection, names, peer, pin or state of a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog
from aiohttp import web

from catalog.client import ClientError, Credential, CursorExpired
from catalog.context import CONTEXT, Context
from catalog.model.concorderrors import SourceUnusable, TargetUnusable, UnresolvedConflict
from catalog.model.errors import BadRequest, InvalidAttribute
from catalog.model.masking import counted
from catalog.operations.links import ForceQuery, LinkAnswer, LinkChanges
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import Link
from replication.links.linkanswers import answer_link, present
from replication.links.linkdefinitions import (
    check_authority,
    check_members,
    check_not_accepted,
    check_pin,
    members_of,
)
from replication.links.links import check_not_paused, existing_link
from replication.peers.handshake import first_contact, loss_told, shake_hands, why_lost, why_own
from replication.peers.linkerrors import cause_of, describe
from replication.peers.peeraccess import PeerAccess, access_of, given_credential
from replication.store import allowances, linklosses
from replication.store.linkcommands import pause, resume
from replication.store.linkcredentials import renew_credential, save_credential

_PAUSED = "paused on request"


async def change_link(request: web.Request, body: LinkChanges, query: ForceQuery) -> LinkAnswer:
    """Replace the members of a link that the body has.

    Deselected replicas are dropped, newly selected entities are fetched, groups are renamed, and
    addresses of endpoints are rewritten. A `token` or `credential` replaces the credential of the
    link; if the body has nothing else, the link continues from the cursor. With a new `source` or
    `target`, the link also continues from the cursor, after a check that the new URL leads to the
    same catalog; `?force` skips the check.
    """
    context = request[CONTEXT]
    given = members_of(body, request.path)
    async with context.database.acquire() as connection:
        found = await existing_link(connection, request)
    moved: Mapping[str, Any] = moved_peer(body, found, request.path)
    if moved and not query.force:
        await _check_moved(context, found, body, request.path)
    # The peer was asked outside of the transaction, so the link may have changed meanwhile.
    async with context.database.transaction() as connection:
        link = await existing_link(connection, request)
        if body.authority is not None:
            link = present(request, await _pin(connection, request, link, body.authority))
        if given or moved or body.token is not None or body.credential is not None:
            link = present(request, await _redefine(connection, request, link, body, given, moved))
        if body.paused is not None:
            reason = body.reason or _PAUSED
            changed = pause(connection, link, reason) if body.paused else resume(connection, link)
            link = present(request, await changed)
        if body.allow is None:
            return answer_link(request, link)
        allowed = await _allow(connection, link, body.allow, request.path)
        answer = answer_link(request, await links.get(connection, link.id))
        return answer.model_copy(update={"allowed": allowed})


async def _pin(
    connection: Connection, request: web.Request, before: Link, authority: str
) -> Link | None:
    """Pin the source of a link to a new authority; the link begins anew."""
    check_authority(request[CONTEXT], authority, request.path)
    check_not_accepted(before.definition, request.path)
    await check_pin(connection, request, before.id, before.definition, authority)
    return await links.restart(
        connection, before, authority=authority, drops=before.drops, ends=before.ends
    )


async def _redefine(
    connection: Connection,
    request: web.Request,
    before: Link,
    body: LinkChanges,
    given: Mapping[str, Any],
    moved: Mapping[str, Any],
) -> Link | None:
    context = request[CONTEXT]
    definition = replace(before.definition, **moved, **given)
    check_members(definition.mode, body, request.path)
    credential = given_credential(body, definition, context.settings, request.path)
    if credential is not None and not (given or moved):
        return await renew_credential(connection, context.keys, before, credential)
    changed = await links.replace(
        connection, before, definition, before.authority, is_moved=bool(moved)
    )
    if changed is not None and moved:
        detail = f"from {before.definition.peer} to {definition.peer}"
        await links.remember(connection, changed, datetime.now(UTC), "moved", detail)
        changed = await links.get(connection, changed.id)
    if changed is not None and credential is not None:
        changed = await save_credential(connection, context.keys, changed, credential)
    return changed


async def _allow(connection: Connection, link: Link, digest: str, subject: str) -> int:
    """Let a link lose the entities of its question.

    The operator names the digest of the question, and so allows only the losses that were shown.

    Returns:
        the number of entities.
    """
    check_not_paused(link, subject)
    if link.question is None:
        raise BadRequest(subject, error_detail="The link does not ask anything")
    asked, allowed = link.question["digest"], int(link.question["deletions"])
    if digest != asked:
        fault = f"it asks another question, with the digest {asked}"
        detail = f"`concord link show {link.id}` lists the entities that it is about."
        raise UnresolvedConflict(subject, error_detail=fault, detail=detail)
    await linklosses.allow(connection, link)
    if link.authority is not None and not link.definition.sends:
        await allowances.allow(connection, link.authority, digest, link.id)
    at, told = datetime.now(UTC), f"{counted(allowed, 'deletions')}, of the digest {digest}"
    await links.remember(connection, link, at, "allowed", told)
    return allowed


async def _check_moved(context: Context, link: Link, body: LinkChanges, subject: str) -> None:
    """Check a new URL with the credential of the body, or else with the link's credential."""
    moved: Mapping[str, Any] = moved_peer(body, link, subject)
    definition = replace(link.definition, **moved)
    given = given_credential(body, definition, context.settings, subject)
    access = access_of(link, context)
    if given is not None:
        access = PeerAccess(given, context.settings, link=link.id)
    if body.authority is not None:
        link = replace(link, authority=body.authority)
    await check_moved(context, link, definition.peer, access, subject)


_log = structlog.get_logger(__name__)

_FORCE = (
    "If it is the right one all the same, change the link with `?force` (`--force`): it compares "
    "everything with what is there."
)


def moved_peer(body: LinkChanges, link: Link, subject: str) -> dict[str, str]:
    """The member of the definition with the new URL of the peer; empty if the body has no URL.

    Raises:
        InvalidAttribute: links of the mode have no such member, or the URL cannot be changed.
    """
    name = "target" if link.definition.sends else "source"
    if other := {"source", "target"} & body.model_fields_set - {name}:
        fault = f'a link of mode "{link.definition.mode}" has none'
        raise InvalidAttribute(subject, name=other.pop(), error_detail=fault)
    url = getattr(body, name)
    if url is None:
        return {}
    if not link.definition.terms.moves:
        fault = f'a link of mode "{link.definition.mode}" is removed and added anew instead'
        raise InvalidAttribute(subject, name=name, error_detail=fault)
    return {name: url}


async def check_moved(
    context: Context, link: Link, url: str, credential: Credential, subject: str
) -> None:
    """Check that the catalog at a URL is the peer of a link, and continues from the link's cursor.

    Args:
        credential: the credential to show to the catalog.
        subject: the subject of an error.

    Raises:
        SourceUnusable, TargetUnusable: the catalog does not answer, is a different catalog, a
            different instance or the node itself, or has lost data.
    """
    async with first_contact(context, url, credential) as peer:
        try:
            found = await shake_hands(peer)
            fault = why_own(context, found)
            if not fault and link.authority not in (None, found.authority):
                fault = f"it is the authority {found.authority}, not {link.authority}"
            # An earlier loss is known, and says nothing about the new URL.
            fault = fault or why_lost(replace(link, loss=None), found.instance)
            if not fault and link.cursor is not None and not link.definition.sends:
                await peer.changes(link.cursor, limit=1)
        except CursorExpired as error:
            fault = loss_told(error)
        except ClientError as error:
            _log.info("a link cannot move", link=link.id, url=url, cause=cause_of(error))
            fault = describe(error, url, link.id).rstrip(".")
    if fault and link.definition.sends:
        raise TargetUnusable(subject, target=url, error_detail=fault, detail=_FORCE)
    if fault:
        raise SourceUnusable(subject, source=url, error_detail=fault, detail=_FORCE)
