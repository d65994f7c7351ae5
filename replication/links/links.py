"""Handlers for links: define, show, run, reset and delete them; conflicts.

A link of mode `accept` takes what its source pushes. Without such a link, the node takes no pushes.
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.http.flags import page_limit
from catalog.http.outboundaddress import why_refused
from catalog.http.route import model_response
from catalog.model.concorderrors import (
    LimitReached,
    SourceUnusable,
    TargetUnusable,
    UnresolvedConflict,
)
from catalog.model.entity import Origin
from catalog.model.errors import (
    BadRequest,
    InvalidAttribute,
    NotFound,
    RequiredAttributeMissing,
)
from catalog.model.linkterms import RELAY
from catalog.model.peercredential import PeerCredential
from catalog.operations.links import (
    ConflictQuery,
    CopyConflict,
    CopyConflicts,
    DropQuery,
    DryRunAnswer,
    LinkAnswer,
    LinkAnswers,
    LinkReset,
    LinkSelection,
    NewLink,
    NewLinkQuery,
    RunQuery,
)
from catalog.operations.operation import PageQuery
from catalog.store import linkauthorities, linkconflicts, links
from catalog.store.database import Connection
from catalog.store.linkcommands import run_now
from catalog.store.linkconflicts import LinkConflict
from catalog.store.linkcredentials import save_credential, with_credential
from catalog.store.links import Link, LinkDefinition
from replication.credentials.givencredential import given_credential
from replication.credentials.peeraccess import PeerAccess
from replication.deciding.addresses import why_no_rules
from replication.deciding.mapping import why_no_names, write_names
from replication.deciding.pinning import why_not_pinned
from replication.links.conflictremedies import remedy_of
from replication.links.dryrunrequest import try_link
from replication.links.linkanswers import answer_link, created_link, link_answer
from replication.links.linkprobes import ask_peer
from replication.peers.trusting import trust_with_link
from replication.sources.topicaddress import why_no_topic
from replication.sources.walkprobe import check_walk


async def list_links(request: web.Request, page: PageQuery) -> web.Response:
    """List the links in pages."""
    limit = page_limit(request, page.limit)
    async with request[CONTEXT].database.acquire() as connection:
        found = await links.page(connection, page.after, limit + 1)
    headers = next_page(request, limit, found[limit - 1].id) if len(found) > limit else {}
    answer = LinkAnswers(links=[link_answer(link) for link in found[:limit]])
    return model_response(answer, headers=headers)


async def create_link(request: web.Request, body: NewLink, query: NewLinkQuery) -> web.Response:
    """Create a link, or tell what it would do.

    The source is pinned to the authority in the body, or to the one that it claims when it is
    asked, here or at the first contact. A link of mode `accept` takes what an authority pushes.
    """
    context = request[CONTEXT]
    definition = _checked(context, body, request.path)
    id = body.id or uuid.uuid4().hex[:12]
    given = given_credential(body, definition, context.settings, request.path)
    credential = given or PeerCredential()
    found = None
    if not query.force:
        is_named = bool(body.model_fields_set & {"mode", "eventtopic"})
        definition, found = await ask_peer(
            context,
            definition,
            request.path,
            is_named=is_named,
            credential=PeerAccess(credential, context.settings),
        )
    if found is not None and definition.mode == "walk" and body.authority is not None:
        found = found.model_copy(update={"authority": body.authority})
    authority = body.authority
    if found is not None:
        authority = authority or found.authority
    if found is not None and found.authority != authority:
        detail = f"it claims to be {found.authority}, not {authority}"
        if definition.sends:
            raise TargetUnusable(request.path, target=definition.target, error_detail=detail)
        raise SourceUnusable(request.path, source=definition.source, error_detail=detail)
    if query.dryrun:
        unsaved = links.unsaved(id, definition, authority)
        tried = await try_link(request, with_credential(unsaved, context.keys, credential))
        return model_response(tried)
    async with context.database.transaction() as connection:
        await check_number(connection, context, request.path)
        if definition.mode == "accept":
            await _check_alone(connection, body.authority or "", request.path)
        if found is not None:
            others = await linkauthorities.following(connection, found.authority)
            found = found.model_copy(update={"followedby": others})
        link = await links.create(connection, id, definition, authority)
        if link is None:
            raise await _taken(connection, request, id)
        link = await save_credential(connection, context.keys, link, credential)
        is_named = body.authority is not None
        await check_pin(connection, request, id, definition, authority, is_named=is_named)
        await trust_with_link(connection, definition, authority, request.path)
        context.caller.author.name_target(f"/replication/links/{id}")
    return created_link(request, link_answer(link).model_copy(update={"found": found}))


async def get_link(request: web.Request) -> LinkAnswer:
    """Show a link."""
    async with request[CONTEXT].database.acquire() as connection:
        return answer_link(request, await links.get(connection, request.match_info["id"]))


async def replace_link(request: web.Request, body: NewLink) -> LinkAnswer:
    """Replace a link: one that leads elsewhere begins anew.

    One that selects other entities, or names them otherwise, reconsiders what is here. It stays
    pinned to its authority unless the body names another one.
    """
    context, id = request[CONTEXT], request.match_info["id"]
    if body.id not in (None, id):
        raise InvalidAttribute(request.path, name="id", error_detail=f'it needs to be "{id}"')
    definition = _checked(context, body, request.path)
    given = given_credential(body, definition, context.settings, request.path)
    async with context.database.transaction() as connection:
        before = await existing_link(connection, request)
        check_not_accepted(before.definition, request.path)
        check_not_accepted(definition, request.path)
        leads_to_another = definition.target != before.definition.target
        kept = None if definition.mode == "write" and leads_to_another else before.authority
        authority = body.authority or kept
        await check_pin(connection, request, id, definition, authority)
        await trust_with_link(connection, definition, authority, request.path)
        link = await links.replace(connection, before, definition, authority)
        # A credential is shown to whom it was given for, and to nobody else.
        leads_elsewhere = definition.peer != before.definition.peer
        if link is not None and (given is not None or leads_elsewhere):
            credential = given or PeerCredential()
            link = await save_credential(connection, context.keys, link, credential)
        return answer_link(request, link)


async def run_link(request: web.Request, query: RunQuery) -> LinkAnswer | DryRunAnswer:
    """Let a link read its source now, or tell what it would do.

    One that waits after a failure, or has stopped, begins anew. With `?dryrun`, it stays as it is.
    """
    if query.dryrun:
        async with request[CONTEXT].database.acquire() as connection:
            found = await existing_link(connection, request)
        return await try_link(request, found)
    async with request[CONTEXT].database.transaction() as connection:
        link = await existing_link(connection, request)
        check_not_paused(link, request.path)
        return answer_link(request, await run_now(connection, link))


async def reset_link(request: web.Request, body: LinkReset) -> LinkAnswer:
    """Let a link bring what differs or, with `full`, everything again.

    With `drop`, the replicas of the authorities that the link may bring are dropped first, or those
    of some of them.
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

    With `?drop` they are dropped, and then the link is deleted.
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


def _checked(context: Context, body: NewLink, subject: str) -> LinkDefinition:
    definition = LinkDefinition(
        source=body.source or "",
        target=body.target or "",
        mode=body.mode,
        authorities=body.authorities,
        dialect=body.dialect,
        trust=body.trust,
        eventtopic=body.eventtopic or "",
        **members_of(body, subject),
    )
    if definition.mode == "accept":
        _check_accepted(body, subject)
    else:
        _check_peer(context, definition, subject)
    check_selection(definition, subject)
    if body.authority is not None:
        check_authority(context, body.authority, subject)
    check_walk(definition, subject)
    _check_event_topic(context, definition, subject)
    for name, value in (("authority", body.authority), ("dialect", body.dialect)):
        if value is not None and (definition.mode == "write") == (name == "authority"):
            detail = f'a link of mode "{body.mode}" has none'
            raise InvalidAttribute(subject, name=name, error_detail=detail)
    return definition


def _check_peer(context: Context, definition: LinkDefinition, subject: str) -> None:
    other, needed = ("source", "target") if definition.sends else ("target", "source")
    if getattr(definition, other):
        detail = f'a link of mode "{definition.mode}" has a {needed} instead'
        raise InvalidAttribute(subject, name=other, error_detail=detail)
    if not definition.peer:
        raise RequiredAttributeMissing(subject, list=needed)
    why_unusable = why_no_topic if definition.is_topic else why_refused
    refusal = why_unusable(definition.peer, context.settings)
    if definition.peer in (context.public_base, context.settings.public_url):
        refusal = "it is this node itself"
    if refusal is not None:
        raise InvalidAttribute(subject, name=needed, error_detail=refusal)


def _check_accepted(body: NewLink, subject: str) -> None:
    if body.authority is None:
        raise RequiredAttributeMissing(subject, list="authority")
    for name in ("source", "target", "trust"):
        if getattr(body, name):
            detail = 'a link of mode "accept" has none: its source sends by itself'
            raise InvalidAttribute(subject, name=name, error_detail=detail)


def _check_event_topic(context: Context, definition: LinkDefinition, subject: str) -> None:
    if not definition.eventtopic:
        return
    refusal = why_no_topic(definition.eventtopic, context.settings)
    if definition.mode != "events":
        refusal = f'a link of mode "{definition.mode}" is woken by no events'
    if refusal is not None:
        raise InvalidAttribute(subject, name="eventtopic", error_detail=refusal)


def members_of(body: LinkSelection, subject: str) -> dict[str, Any]:
    """The members of a definition that the body of a request has.

    Raises:
        InvalidAttribute: its names or addresses cannot be used.
    """
    faults = {"map": why_no_names(body.map), "addresses": why_no_rules(body.addresses)}
    for name, fault in faults.items():
        if fault:
            raise InvalidAttribute(subject, name=name, error_detail=fault)
    members = body.model_dump(include={*LinkSelection.model_fields}, exclude_unset=True)
    given = {n: write_names(v) if isinstance(v, dict) else v for n, v in members.items()}
    if "map" in given:
        given["names"] = given.pop("map")
    return given


def check_selection(definition: LinkDefinition, subject: str) -> None:
    """Refuse names and addresses for what is sent, and labels that nobody can tell the effect of.

    Raises:
        InvalidAttribute
    """
    changed = {
        "prefix": definition.prefix,
        "map": definition.names,
        "addresses": definition.addresses,
    }
    if definition.sends and (name := next(filter(changed.get, changed), None)):
        detail = "the target gives names and addresses to what it gets"
        raise InvalidAttribute(subject, name=name, error_detail=detail)
    if definition.labels and definition.mode not in ("pull", "events"):
        detail = f'a link of mode "{definition.mode}" selects by scope and types only'
        raise InvalidAttribute(subject, name="labels", error_detail=detail)


def check_authority(context: Context, authority: str, subject: str) -> None:
    if authority == context.database.node.authority:
        raise InvalidAttribute(
            subject, name="authority", error_detail="it is the authority of this node"
        )


async def check_number(connection: Connection, context: Context, subject: str) -> None:
    """Refuse another link if there are as many as may be.

    Raises:
        LimitReached
    """
    most = context.settings.max_links
    if await links.count(connection) >= most:
        limit, setting = str(most), "CONCORD_MAX_LINKS"
        raise LimitReached(subject, limit=limit, things="links", setting=setting)


async def check_pin(
    connection: Connection,
    request: web.Request,
    id: str,
    definition: LinkDefinition,
    authority: str | None,
    *,
    is_named: bool = True,
) -> None:
    """Refuse a source that may not be pinned to an authority.

    Raises:
        SourceUnusable: another source is, or the operator needs to name the authority.
    """
    if authority is None or definition.sends:
        return
    remedy = f"If it is, name it as `authority` (`--pin {shlex.quote(authority)}`)."
    source = definition.source
    refusal = await why_not_pinned(
        connection, id, source, authority, is_named=is_named, remedy=remedy
    )
    if refusal is not None:
        raise SourceUnusable(
            request.path,
            source=source or authority,
            error_detail=refusal.reason,
            detail=refusal.remedy,
        )


async def _check_alone(connection: Connection, authority: str, subject: str) -> None:
    """Refuse to accept the pushes of an authority twice.

    Raises:
        BadRequest
    """
    if before := await links.get_acceptance(connection, authority):
        detail = f'Its pushes are accepted already, by "{before.id}"'
        raise BadRequest(subject, error_detail=detail)


async def _taken(connection: Connection, request: web.Request, id: str) -> BadRequest:
    """The error that a link cannot have an id, since another link has it."""
    other = await links.get(connection, id)
    if other is not None and other.ends:
        detail = (
            f'link "{id}" is being removed with its replicas; wait until `concord link list` no '
            "longer shows it, or give the new link another id"
        )
        return BadRequest(request.path, error_detail=detail)
    return BadRequest(request.path, error_detail=f'There is a link "{id}" already')


async def existing_link(connection: Connection, request: web.Request) -> Link:
    """The link that a request addresses.

    Raises:
        NotFound
    """
    link = await links.get(connection, request.match_info["id"])
    if link is None:
        raise NotFound(request.path)
    return link


def check_not_accepted(definition: LinkDefinition, subject: str) -> None:
    """Refuse to replace a link that accepts pushes, and to let it follow another authority.

    Raises:
        InvalidAttribute
    """
    if definition.mode == "accept":
        detail = "it accepts pushes: remove it, and accept them as they should be"
        raise InvalidAttribute(subject, name="mode", error_detail=detail)


def check_not_paused(link: Link, subject: str) -> None:
    """Refuse to let a paused link do anything.

    Raises:
        UnresolvedConflict
    """
    if link.paused is not None:
        fault = f"the link is paused ({link.paused})"
        raise UnresolvedConflict(subject, error_detail=fault, detail="Resume it first.")


def _droppable(link: Link, named: Sequence[str], subject: str) -> Sequence[str]:
    """The authorities whose replicas a link drops: all that it may bring, or the named ones."""
    if link.definition.mode == "write" and not named:
        return RELAY
    if link.definition.sends:
        raise InvalidAttribute(subject, name="drop", error_detail="the link brings nothing here")
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
        remedy=remedy_of(conflict.verdict, link, conflict.origin.xid),
        at=conflict.at,
    )
