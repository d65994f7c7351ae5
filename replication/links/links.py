"""Handlers for operators who show, change, reset and delete links, and list conflicts.

A link of mode `accept` takes the pushes of a source. Without an accepting link, the node takes no
pushes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import structlog
from aiohttp import web

from catalog.client import ClientError, CursorExpired
from catalog.context import CONTEXT, Context
from catalog.http.flags import page_limit
from catalog.http.route import model_response
from catalog.model.concorderrors import UnresolvedConflict
from catalog.model.credentials import PeerCredential
from catalog.model.entity import Entity, Origin
from catalog.model.errors import BadRequest, InvalidAttribute
from catalog.model.linkterms import RELAY
from catalog.model.masking import counted
from catalog.operations.links import (
    ConflictQuery,
    ConflictSide,
    CopyConflict,
    CopyConflicts,
    DropQuery,
    ForceQuery,
    LinkAnswer,
    LinkAnswers,
    LinkChanges,
    LinkReset,
    NewLink,
)
from catalog.operations.operation import PageQuery
from catalog.store import entities, links
from catalog.store.database import Connection
from catalog.store.links import Link, LinkDefinition
from replication.deciding.copycontent import side_of
from replication.links import linkdefinitionchecks
from replication.links.linkanswers import (
    advice_about,
    answer_link,
    existing_link,
    link_answer,
    present,
)
from replication.peers.handshake import first_contact, loss_told, shake_hands, why_lost, why_own
from replication.peers.keyhistories import trust_with_link
from replication.peers.linkerrors import cause_of, describe
from replication.peers.peeraccess import PeerAccess, access_of, given_credential
from replication.store import linkconflicts, linklosses
from replication.store.linkconflicts import LinkConflict
from replication.store.linkstates import pause, renew_credential, resume, save_credential

_log = structlog.get_logger(__name__)

_PAUSED = "paused on request"
_MOST_SIDES_BYTES = 4 * 1024 * 1024
_FORCE = (
    "If it is the right one all the same, change the link with `?force` (`--force`): it compares "
    "everything with what is there."
)


async def list_links(request: web.Request, page: PageQuery) -> web.Response:
    """List the links in pages."""
    limit = page_limit(request, page.limit)
    async with request[CONTEXT].database.acquire() as connection:
        found = await links.page(connection, page.after, limit + 1)
    headers = next_page(request, limit, found[limit - 1].id) if len(found) > limit else {}
    answer = LinkAnswers(links=[link_answer(link) for link in found[:limit]])
    return model_response(answer, headers=headers)


async def get_link(request: web.Request) -> LinkAnswer:
    """Show a link."""
    async with request[CONTEXT].database.acquire() as connection:
        return answer_link(request, await links.get(connection, request.match_info["id"]))


async def replace_link(request: web.Request, body: NewLink) -> LinkAnswer:
    """Replace a link: a link to a different catalog begins anew.

    A link with a new selection or new names drops or renames replicas. The link stays pinned to the
    same authority unless the body names a new authority.
    """
    context, id = request[CONTEXT], request.match_info["id"]
    if body.id not in (None, id):
        raise InvalidAttribute(request.path, name="id", error_detail=f'it needs to be "{id}"')
    definition = linkdefinitionchecks.checked_definition(context, body, request.path)
    given = given_credential(body, definition, context.settings, request.path)
    async with context.database.transaction() as connection:
        before = await existing_link(connection, request)
        linkdefinitionchecks.check_not_accepted(before.definition, request.path)
        linkdefinitionchecks.check_not_accepted(definition, request.path)
        leads_to_another = definition.target != before.definition.target
        is_pinned = definition.terms.has("authority") or not leads_to_another
        kept = before.authority if is_pinned else None
        authority = body.authority or kept
        await linkdefinitionchecks.check_pin(connection, request, id, definition, authority)
        await trust_with_link(connection, definition, authority, request.path)
        link = await links.replace(connection, before, definition, authority)
        # A credential must be shown only to the peer that it was given for.
        leads_elsewhere = definition.peer != before.definition.peer
        if link is not None and (given is not None or leads_elsewhere):
            credential = given or PeerCredential()
            link = await save_credential(connection, context.keys, link, credential)
        return answer_link(request, link)


async def reset_link(request: web.Request, body: LinkReset) -> LinkAnswer:
    """Let a link bring what differs or, with `full`, everything again.

    With `drop`, the replicas of the authorities that the link may bring are dropped first, or only
    the replicas of the named authorities.
    """
    async with request[CONTEXT].database.transaction() as connection:
        before = await existing_link(connection, request)
        drops = _droppable(before, body.authorities, request.path) if body.drop else before.drops
        reset = await links.restart(
            connection,
            before,
            authority=before.authority,
            drops=drops,
            ends=before.ends,
            copiesall=body.full,
        )
        return answer_link(request, reset)


async def delete_link(request: web.Request, query: DropQuery) -> LinkAnswer | web.Response:
    """Delete a link: its replicas stay, and stay read-only.

    With `?drop`, the replicas are dropped first, and then the link is deleted.
    """
    async with request[CONTEXT].database.transaction() as connection:
        if not query.drop:
            return answer_link(request, await links.delete(connection, request.match_info["id"]))
        before = await existing_link(connection, request)
        drops = _droppable(before, [], request.path)
        ending = await links.restart(
            connection, before, authority=before.authority, drops=drops, ends=True
        )
        return model_response(answer_link(request, ending), status=202)


async def change_link(request: web.Request, body: LinkChanges, query: ForceQuery) -> LinkAnswer:
    """Replace the members of a link that the body has.

    Deselected replicas are dropped, newly selected entities are fetched, groups are renamed, and
    addresses of endpoints are rewritten. A `token` or `credential` replaces the credential of the
    link; if the body has nothing else, the link continues from the cursor. With a new `source` or
    `target`, the link also continues from the cursor, after a check that the new URL leads to the
    same catalog; `?force` skips the check.
    """
    context = request[CONTEXT]
    given = linkdefinitionchecks.members_of(body, request.path)
    async with context.database.acquire() as connection:
        found = await existing_link(connection, request)
    moved: Mapping[str, Any] = _moved_peer(body, found, request.path)
    if moved and not query.force:
        definition = replace(found.definition, **moved)
        await _check_moved(context, found, definition, body, request.path)
    # The peer was asked outside of the transaction, so the link may have changed meanwhile.
    async with context.database.transaction() as connection:
        link = await existing_link(connection, request)
        if body.authority is not None:
            # The link begins anew with the new pin.
            linkdefinitionchecks.check_authority(context, body.authority, request.path)
            linkdefinitionchecks.check_not_accepted(link.definition, request.path)
            await linkdefinitionchecks.check_pin(
                connection, request, link.id, link.definition, body.authority
            )
            pinned = await links.restart(
                connection, link, authority=body.authority, drops=link.drops, ends=link.ends
            )
            link = present(request, pinned)
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
    linkdefinitionchecks.check_members(definition.mode, body, request.path)
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
    """Let a link lose the entities of its question; return the number.

    The operator names the digest of the question, and so allows only the losses that were shown.
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
    # Catalogs behind this node would ask about the same loss: they believe the digest once.
    if link.authority is not None and not link.definition.sends:
        await linklosses.note_allowance(connection, link.authority, digest, link.id)
    at, told = datetime.now(UTC), f"{counted(allowed, 'deletions')}, of the digest {digest}"
    await links.remember(connection, link, at, "allowed", told)
    return allowed


def _moved_peer(body: LinkChanges, link: Link, subject: str) -> dict[str, str]:
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


async def _check_moved(
    context: Context, link: Link, definition: LinkDefinition, body: LinkChanges, subject: str
) -> None:
    """Check that the catalog at a new URL is the peer of a link, and continues from the cursor.

    The catalog is shown the credential of the body, or else the link's credential.

    Raises:
        SourceUnusable, TargetUnusable: the catalog does not answer, is a different catalog, a
            different instance or the node itself, or has lost data.
    """
    url, authority = definition.peer, body.authority or link.authority
    given = given_credential(body, definition, context.settings, subject)
    access = access_of(link, context)
    if given is not None:
        access = PeerAccess(given, context.settings, link=link.id)
    async with first_contact(context, url, access) as peer:
        try:
            found = await shake_hands(peer)
            fault = why_own(context, found)
            if not fault and authority not in (None, found.authority):
                fault = f"it is the authority {found.authority}, not {authority}"
            # An earlier loss is known, and says nothing about the new URL.
            fault = fault or why_lost(replace(link, loss=None), found.instance)
            if not fault and link.cursor is not None and not definition.sends:
                await peer.changes(link.cursor, limit=1)
        except CursorExpired as error:
            fault = loss_told(error)
        except ClientError as error:
            _log.info("a link cannot move", link=link.id, url=url, cause=cause_of(error))
            fault = describe(error, url, link.id).rstrip(".")
    if fault:
        raise linkdefinitionchecks.unusable(definition, subject, fault, _FORCE)


async def list_conflicts(request: web.Request, page: ConflictQuery) -> web.Response:
    """List the copies that a link did not apply, in pages."""
    id, limit = request.match_info["id"], page_limit(request, page.limit)
    authority, _, xid = page.after.partition("\n")
    after = Origin(authority, xid) if page.after else None
    async with request[CONTEXT].database.acquire() as connection:
        link = await existing_link(connection, request)
        found = await linkconflicts.load(connection, id, after, limit + 1, with_refused=True)
        held = await _held(connection, found[:limit])
    headers = {}
    if len(found) > limit:
        last = found[limit - 1].origin
        headers = next_page(request, limit, f"{last.authority}\n{last.xid}")
    shown = _shown(found[:limit], link, held)
    return model_response(CopyConflicts(conflicts=shown), headers=headers)


def check_not_paused(link: Link, subject: str) -> None:
    """Refuse a command to a paused link.

    Raises:
        UnresolvedConflict
    """
    if link.paused is not None:
        fault = f"the link is paused ({link.paused})"
        raise UnresolvedConflict(subject, error_detail=fault, detail="Resume it first.")


def _droppable(link: Link, named: Sequence[str], subject: str) -> Sequence[str]:
    """The authorities whose replicas a link drops: the named ones, or those that the link brings.

    Raises:
        InvalidAttribute: the link brings no replicas, or not the replicas of a named authority.
    """
    if not link.definition.terms.drops or (link.definition.sends and named):
        raise InvalidAttribute(subject, name="drop", error_detail="the link brings nothing here")
    if link.definition.sends:
        return RELAY
    own = [link.authority] if link.authority is not None else []
    brought = link.definition.authorities or own
    if brought != RELAY and (others := {*named} - {*brought}):
        fault = f"the link does not bring {', '.join(sorted(others))}"
        raise InvalidAttribute(subject, name="authorities", error_detail=fault)
    return named or brought


def next_page(request: web.Request, limit: int, after: str) -> dict[str, str]:
    url = f"{request[CONTEXT].base_url(request)}{request.path}"
    return {"Link": f"<{url}?limit={limit}&after={quote(after, safe='')}>;rel=next"}


async def _held(connection: Connection, conflicts: Sequence[LinkConflict]) -> dict[str, Entity]:
    """The entities that are at the paths of conflicts now, with their documents if these fit."""
    found = await entities.load(connection, [conflict.xid for conflict in conflicts])
    versions = [xid for xid, each in found.items() if each.document_sha256 is not None]
    documents = await linkconflicts.load_small_documents(connection, versions)
    return {xid: replace(each, document=documents.get(xid)) for xid, each in found.items()}


def _shown(
    conflicts: Sequence[LinkConflict], link: Link, held: Mapping[str, Entity]
) -> list[CopyConflict]:
    """Conflicts with both sides, as far as an answer has room; of a link that sends, with one."""
    shown, room = [], _MOST_SIDES_BYTES
    for conflict in conflicts:
        present = side_of(held.get(conflict.xid))
        sides = (present, None) if link.definition.sends else (conflict.refused, present)
        room -= sum(len(side) for side in sides if side is not None)
        refused, here = (
            None if side is None or room < 0 else ConflictSide.model_validate_json(side)
            for side in sides
        )
        shown.append(
            CopyConflict(
                refused=refused,
                held=here,
                authority=conflict.origin.authority,
                origin=conflict.origin.xid,
                xid=conflict.xid,
                epoch=conflict.epoch,
                verdict=conflict.verdict,
                detail=conflict.detail,
                advice=advice_about(conflict.verdict, link, conflict.origin.xid),
                at=conflict.at,
            )
        )
    return shown
