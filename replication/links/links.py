"""Handlers for operators who show, replace, reset and delete links, and list conflicts.

A link of mode `accept` takes the pushes of a source. Without an accepting link, the node takes no
pushes.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.flags import page_limit
from catalog.http.route import model_response
from catalog.model.concorderrors import (
    UnresolvedConflict,
)
from catalog.model.credentials import PeerCredential
from catalog.model.entity import Origin
from catalog.model.errors import (
    InvalidAttribute,
    NotFound,
)
from catalog.model.linkterms import RELAY
from catalog.operations.links import (
    ConflictQuery,
    CopyConflict,
    CopyConflicts,
    DropQuery,
    LinkAnswer,
    LinkAnswers,
    LinkReset,
    NewLink,
)
from catalog.operations.operation import PageQuery
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import Link
from replication.links.conflictadvice import advice_about
from replication.links.linkanswers import answer_link, link_answer
from replication.links.linkdefinitions import (
    check_not_accepted,
    check_pin,
    checked_definition,
)
from replication.peers.keyhistories import trust_with_link
from replication.peers.peeraccess import given_credential
from replication.store import linkconflicts
from replication.store.linkconflicts import LinkConflict
from replication.store.linkcredentials import save_credential


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
    definition = checked_definition(context, body, request.path)
    given = given_credential(body, definition, context.settings, request.path)
    async with context.database.transaction() as connection:
        before = await existing_link(connection, request)
        check_not_accepted(before.definition, request.path)
        check_not_accepted(definition, request.path)
        leads_to_another = definition.target != before.definition.target
        is_pinned = definition.terms.has("authority") or not leads_to_another
        kept = before.authority if is_pinned else None
        authority = body.authority or kept
        await check_pin(connection, request, id, definition, authority)
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


async def list_conflicts(request: web.Request, page: ConflictQuery) -> web.Response:
    """List the copies that a link did not apply, in pages."""
    id, limit = request.match_info["id"], page_limit(request, page.limit)
    authority, _, xid = page.after.partition("\n")
    after = Origin(authority, xid) if page.after else None
    async with request[CONTEXT].database.acquire() as connection:
        link = await existing_link(connection, request)
        found = await linkconflicts.load(connection, id, after, limit + 1)
    headers = {}
    if len(found) > limit:
        last = found[limit - 1].origin
        headers = next_page(request, limit, f"{last.authority}\n{last.xid}")
    shown = [_conflict(conflict, link) for conflict in found[:limit]]
    return model_response(CopyConflicts(conflicts=shown), headers=headers)


async def existing_link(connection: Connection, request: web.Request) -> Link:
    """The link that a request addresses.

    Raises:
        NotFound
    """
    link = await links.get(connection, request.match_info["id"])
    if link is None:
        raise NotFound(request.path)
    return link


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
        raise InvalidAttribute(
            subject,
            name="authorities",
            error_detail=f"the link does not bring {', '.join(sorted(others))}",
        )
    return named or brought


def next_page(request: web.Request, limit: int, after: str) -> dict[str, str]:
    url = f"{request[CONTEXT].base_url(request)}{request.path}"
    return {"Link": f"<{url}?limit={limit}&after={quote(after, safe='')}>;rel=next"}


def _conflict(conflict: LinkConflict, link: Link) -> CopyConflict:
    return CopyConflict(
        authority=conflict.origin.authority,
        origin=conflict.origin.xid,
        xid=conflict.xid,
        epoch=conflict.epoch,
        verdict=conflict.verdict,
        detail=conflict.detail,
        advice=advice_about(conflict.verdict, link, conflict.origin.xid),
        at=conflict.at,
    )
