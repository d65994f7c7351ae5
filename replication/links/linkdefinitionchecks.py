"""Definitions of links as given by operators, and the checks before a definition is stored."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import structlog
from aiohttp import web

from catalog.client import ClientError, Refused
from catalog.context import Context
from catalog.http.allowedaddresses import why_refused
from catalog.model.concorderrors import LimitReached, SourceUnusable, TargetUnusable
from catalog.model.errors import BadRequest, InvalidAttribute, RequiredAttributeMissing
from catalog.model.linkterms import MODE_TERMS, Mode, context_for, names_in_context
from catalog.operations.links import LinkSelection, LinkTerms, NewLink
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import LinkDefinition
from replication.deciding.placement import why_no_names, why_no_rules, write_names
from replication.deciding.provenance import why_not_pinned
from replication.peers.handshake import ThisNode
from replication.peers.linkerrors import cause_of, describe
from replication.transfer.topicrecords import why_no_topic

_log = structlog.get_logger(__name__)

_FORCE = "If it is going to be there later, add the link with `?force` (`--force`)."
_OTHERS = ("source", "target", "authority", "authorities", "dialect", "trust", "eventtopic")


def checked_definition(context: Context, body: NewLink, subject: str) -> LinkDefinition:
    """The definition of a link in the body of a request.

    Raises:
        RequiredAttributeMissing, InvalidAttribute
    """
    check_members(body.mode, body, subject)
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
    terms = definition.terms
    if not getattr(body, terms.needs):
        raise RequiredAttributeMissing(subject, list=terms.needs)
    if body.authority is not None:
        check_authority(context, body.authority, subject)
    refusals: dict[str, str] = {}
    if definition.peer:
        why_not = why_no_topic if terms.is_topic else why_refused
        refusals[terms.needs] = why_not(definition.peer, context.settings)
        if definition.peer in (context.public_base, context.settings.public_url):
            refusals[terms.needs] = "it is this node itself"
    if definition.eventtopic:
        refusals["eventtopic"] = why_no_topic(definition.eventtopic, context.settings)
    for name, refusal in refusals.items():
        if refusal:
            raise InvalidAttribute(subject, name=name, error_detail=refusal)
    return with_context(definition)


def with_context(definition: LinkDefinition) -> LinkDefinition:
    """The definition of a link, with names for the contexts of a registry of the Confluent API."""
    is_named = definition.prefix or definition.map
    if is_named or definition.dialect != "confluent" or definition.sends:
        return definition
    prefix, names = names_in_context(context_for(definition.source))
    return replace(definition, prefix=prefix, map=write_names(names))


def check_members(mode: Mode, body: LinkTerms, subject: str) -> None:
    """Refuse members that links of a mode cannot have.

    Raises:
        InvalidAttribute
    """
    terms = MODE_TERMS[mode]
    for name in (*LinkSelection.model_fields, *_OTHERS):
        if getattr(body, name, None) and not terms.has(name):
            has = f"a {terms.needs} instead" if name in ("source", "target") else "none"
            detail = f'a link of mode "{mode}" has {has}'
            raise InvalidAttribute(subject, name=name, error_detail=detail)


def members_of(body: LinkSelection, subject: str) -> dict[str, Any]:
    """The members of a definition in the body of a request.

    Raises:
        InvalidAttribute: the names or addresses are invalid.
    """
    faults = {"map": why_no_names(body.map), "addresses": why_no_rules(body.addresses)}
    for name, fault in faults.items():
        if fault:
            raise InvalidAttribute(subject, name=name, error_detail=fault)
    members = body.model_dump(include={*LinkSelection.model_fields}, exclude_unset=True)
    return {n: write_names(v) if isinstance(v, dict) else v for n, v in members.items()}


def check_authority(context: Context, authority: str, subject: str) -> None:
    if authority == context.database.node.authority:
        fault = "it is the authority of this node"
        raise InvalidAttribute(subject, name="authority", error_detail=fault)


async def check_number(connection: Connection, context: Context, subject: str) -> None:
    """Refuse a new link if the node has the maximal number of links.

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
        SourceUnusable: another link's source is pinned to the authority already, or the operator
            has not named the authority, which this node knows already.
    """
    if authority is None or definition.sends:
        return
    source = definition.source
    fault, advice = await why_not_pinned(connection, id, source, authority, is_named=is_named)
    if fault:
        advice = advice or f"If it is, name it as `authority` (`--pin {shlex.quote(authority)}`)."
        raise SourceUnusable(
            request.path, source=source or authority, error_detail=fault, detail=advice
        )


async def id_taken(connection: Connection, request: web.Request, id: str) -> BadRequest:
    """The error for an id that a different link has already."""
    other = await links.get(connection, id)
    detail = f'There is a link "{id}" already'
    if other is not None and other.ends:
        detail = (
            f'link "{id}" is being removed with its replicas; wait until `concord link list` no '
            "longer shows it, or give the new link another id"
        )
    return BadRequest(request.path, error_detail=detail)


def check_not_accepted(definition: LinkDefinition, subject: str) -> None:
    """Refuse to replace a link that accepts pushes, or to pin it to a new authority.

    Raises:
        InvalidAttribute
    """
    if definition.terms.is_fixed:
        detail = "it accepts pushes: remove it, and accept them as they should be"
        raise InvalidAttribute(subject, name="mode", error_detail=detail)


def unusable(
    definition: LinkDefinition, subject: str, fault: str, hint: str = ""
) -> SourceUnusable | TargetUnusable:
    """The error for a peer that a link cannot use."""
    fault = fault.rstrip(".")
    if definition.sends:
        return TargetUnusable(subject, target=definition.target, error_detail=fault, detail=hint)
    return SourceUnusable(subject, source=definition.source, error_detail=fault, detail=hint)


def unusable_now(
    definition: LinkDefinition, subject: str, error: ClientError
) -> SourceUnusable | TargetUnusable:
    """The error for a peer that a new link cannot use, or cannot use yet."""
    _log.info("a link cannot be made", peer=definition.peer, cause=cause_of(error))
    if isinstance(error, ThisNode):
        return unusable(definition, subject, error.message)
    hint = (isinstance(error, Refused) and error.hint) or _FORCE
    return unusable(definition, subject, describe(error, definition.peer), hint)
