"""The modes of links: the source and the sink of each mode, and what depends on the mode.

A link is created, run, and tried without writing (a dry run) by its mode.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from functools import partial
from typing import assert_never
from urllib.parse import quote, urlsplit

from aiohttp import web

from catalog.client import ClientError
from catalog.context import CONTEXT, Context
from catalog.http.outboundconnections import open_session
from catalog.http.route import model_response
from catalog.model.caller import Author, Caller
from catalog.model.credentials import PeerCredential
from catalog.model.errors import BadRequest
from catalog.operations.links import (
    DryRunAnswer,
    FoundCatalog,
    LinkAnswer,
    NewLink,
    NewLinkQuery,
    RunQuery,
    TriedCopies,
    TriedCopy,
)
from catalog.store import links, linksources
from catalog.store.links import Link, LinkDefinition
from replication.links import linkdefinitionchecks
from replication.links.linkanswers import advice_about, answer_link, existing_link, link_answer
from replication.links.linkrunner import LinkRunner
from replication.links.links import check_not_paused
from replication.peers.keyhistories import trust_with_link
from replication.peers.linkerrors import describe
from replication.peers.peeraccess import PeerAccess, given_credential
from replication.sinks.owncatalog import OwnCatalog, try_feed, try_topic, try_walk
from replication.sinks.peersink import PeerSink
from replication.sinks.pushedcopies import PushedCopies
from replication.sinks.pushrequests import find_target
from replication.sinks.serversink import ServerSink
from replication.sinks.topicsink import TopicSink, try_to_publish
from replication.sources.feedsource import FeedSource
from replication.sources.ownlog import OwnLog
from replication.sources.topicsource import TopicSource, find_publisher
from replication.sources.walksource import WalkSource, choose_mode
from replication.store.linkconflicts import CopyFinding
from replication.store.linkstates import run_now, save_credential, with_credential
from replication.targets.probe import find_server
from replication.transfer.linkrun import LinkResources, LinkRun
from replication.transfer.transfer import Transfer

# The share of a request's time for a dry run; the rest is for the answer.
_TRIED_SHARE = 0.8
_UNDECIDED = (
    "The link would bring a complete copy: too much differs to tell it one by one, or the source "
    "offers no digests."
)


def runner_of(link: Link, resources: LinkResources) -> LinkRunner:
    """The runner of a link, by the link's mode; the link is the author of the runner's writes."""
    address = urlsplit(link.definition.source).hostname or ""
    path = f"/replication/links/{link.id}"
    author = Author(kind="link", name=link.id, address=address, path=path)
    context = resources.context.shared.for_caller(Caller.unrestricted(author))
    return LinkRunner(LinkRun.of(link, replace(resources, context=context)), _transfer_of)


def _transfer_of(run: LinkRun) -> Transfer:
    """The source and the sink of a link."""
    match run.link.definition.mode:
        case "pull" | "events" as mode:
            feed = FeedSource(run, by_events=mode == "events")
            return Transfer(
                source=feed, sink=OwnCatalog(run), peer=feed, preview=partial(try_feed, run)
            )
        case "accept":
            pushed = PushedCopies()
            return Transfer(source=pushed, sink=OwnCatalog(run), peer=pushed)
        case "kafka":
            topic = TopicSource(run)
            # Records of a topic come out of the order of their epochs, so an older epoch must not
            # overrule.
            return Transfer(
                source=topic,
                sink=OwnCatalog(run, overrules=False),
                peer=topic,
                preview=partial(try_topic, run),
            )
        case "walk":
            walked = WalkSource(run)
            return Transfer(
                source=walked, sink=OwnCatalog(run), peer=walked, preview=partial(try_walk, run)
            )
        case "push":
            target = PeerSink(run)
            return Transfer(
                source=OwnLog(run, target.admits), sink=target, peer=target, preview=target.preview
            )
        case "publish":
            published = TopicSink(run)
            return Transfer(
                source=OwnLog(run), sink=published, peer=published, preview=published.preview
            )
        case "write":
            server = ServerSink(run)
            source = OwnLog(run, retries_refused=True, tombstones=False)
            return Transfer(source=source, sink=server, peer=server, preview=server.preview)
        case mode:
            assert_never(mode)


async def _find(
    context: Context, definition: LinkDefinition, access: PeerAccess, *, is_named: bool
) -> tuple[LinkDefinition, FoundCatalog | None]:
    """Ask the peer of a new link for its identity; `None` for a topic, and a source that pushes.

    Args:
        is_named: the operator has named the mode; if not, the source may get a different mode.

    Raises:
        ClientError: the link cannot work with the peer.
    """
    match definition.mode:
        case "pull" | "events" | "walk":
            return await choose_mode(context, definition, access, is_named=is_named)
        case "accept":
            return definition, None
        case "kafka":
            return definition, await find_publisher(context, definition)
        case "push":
            return definition, await find_target(context, definition.peer, access)
        case "publish":
            await try_to_publish(context, definition)
            return definition, None
        case "write":
            return definition, await find_server(context, definition, access)
        case mode:
            assert_never(mode)


async def create_link(request: web.Request, body: NewLink, query: NewLinkQuery) -> web.Response:
    """Create a link, or tell what it would do.

    The source is pinned to the authority in the body, or to the authority that the source claims
    when asked, by the handler or at the first contact. A link of mode `accept` takes the pushes of
    an authority.
    """
    context = request[CONTEXT]
    definition = linkdefinitionchecks.checked_definition(context, body, request.path)
    id = body.id or uuid.uuid4().hex[:12]
    given = given_credential(body, definition, context.settings, request.path)
    credential = given or PeerCredential()
    found = None
    # The dry run of a link that sends asks the target itself.
    if not query.force and not (query.dryrun and definition.sends):
        is_named = bool(body.model_fields_set & {"mode", "eventtopic"})
        access = PeerAccess(credential, context.settings)
        try:
            definition, found = await _find(context, definition, access, is_named=is_named)
        except ClientError as error:
            raise linkdefinitionchecks.unusable_now(definition, request.path, error) from error
        linkdefinitionchecks.check_members(definition.mode, body, request.path)
        definition = linkdefinitionchecks.with_context(definition)
    authority = body.authority
    if found is not None and authority is not None and definition.terms.is_nameless:
        found = found.model_copy(update={"authority": authority})
    elif found is not None:
        authority = authority or found.authority
    if found is not None and found.authority != authority:
        fault = f"it claims to be {found.authority}, not {authority}"
        raise linkdefinitionchecks.unusable(definition, request.path, fault)
    if query.dryrun:
        unsaved = Link(id=id, definition=definition, authority=authority)
        asking = with_credential(unsaved, context.keys, credential)
        tried = await _try(request, asking, name=body.id or "ID")
        return model_response(tried)
    # Peers are asked before the transaction, since a slow one would hold its connection.
    async with context.database.transaction() as connection:
        await linkdefinitionchecks.check_number(connection, context, request.path)
        if definition.terms.needs == "authority" and (
            other := await links.get_acceptance(connection, body.authority or "")
        ):
            detail = f'Its pushes are accepted already, by "{other.id}"'
            raise BadRequest(request.path, error_detail=detail)
        if found is not None:
            others = await linksources.following(connection, found.authority)
            found = found.model_copy(update={"followedby": others})
        link = await links.create(connection, id, definition, authority)
        if link is None:
            raise await linkdefinitionchecks.id_taken(connection, request, id)
        link = await save_credential(connection, context.keys, link, credential)
        is_named = body.authority is not None
        await linkdefinitionchecks.check_pin(
            connection, request, id, definition, authority, is_named=is_named
        )
        await trust_with_link(connection, definition, authority, request.path)
        context.caller.author.name_target(f"/replication/links/{id}")
    answer = link_answer(link).model_copy(update={"found": found})
    location = f"{context.base_url(request)}/replication/links/{quote(link.id)}"
    return model_response(answer, status=201, headers={"Location": location})


async def run_link(request: web.Request, query: RunQuery) -> LinkAnswer | DryRunAnswer:
    """Let a link read its source now, or tell what it would do.

    A link that waits after a failure, or has stopped, begins anew. With `?dryrun`, the link does
    not change.
    """
    if query.dryrun:
        async with request[CONTEXT].database.acquire() as connection:
            found = await existing_link(connection, request)
        return await _try(request, found, name=found.id)
    async with request[CONTEXT].database.transaction() as connection:
        link = await existing_link(connection, request)
        check_not_paused(link, request.path)
        return answer_link(request, await run_now(connection, link))


async def _try(request: web.Request, link: Link, *, name: str) -> DryRunAnswer:
    """Predict the copies that a link would bring, delete and refuse; it need not be stored.

    Args:
        name: the id of the link in commands of the advice.

    Raises:
        SourceUnusable, TargetUnusable: the peer does not answer, or may not have the claimed
            authority.
        BadRequest: links of the mode have no dry run.
    """
    context, definition = request[CONTEXT], link.definition
    seconds = _TRIED_SHARE * context.settings.request_timeout_seconds
    try:
        async with (
            asyncio.timeout(seconds),
            open_session(context.settings, total_seconds=seconds) as session,
        ):
            run = LinkRun.of(link, LinkResources.of(context, session))
            preview = _transfer_of(run).preview
            if preview is None:
                detail = f'a link of mode "{definition.mode}" has no dry run: its source begins'
                raise BadRequest(request.path, error_detail=detail)
            found = await preview()
    except ClientError as error:
        fault = describe(error, definition.peer)
        raise linkdefinitionchecks.unusable(definition, request.path, fault) from error
    except TimeoutError as error:
        fault = f"it could not be read within {seconds:.0f} seconds"
        hint = "Try the link with a narrower scope (`--scope`)."
        raise linkdefinitionchecks.unusable(definition, request.path, fault, hint) from error
    if found is None:
        return DryRunAnswer(isdecided=False, reason=_UNDECIDED)
    named = replace(link, id=name)
    return DryRunAnswer(
        isdecided=True,
        rows=found.rows,
        differing=found.differing,
        outcomes={
            outcome: TriedCopies(number=n, first=[_tried(e, named) for e in found.first[outcome]])
            for outcome, n in found.numbers.most_common()
        },
        question=found.question,
    )


def _tried(finding: CopyFinding, link: Link) -> TriedCopy:
    advice = None
    if finding.detail:
        advice = advice_about(finding.verdict.value, link, finding.origin.xid)
    return TriedCopy(
        authority=finding.origin.authority,
        origin=finding.origin.xid,
        xid=finding.xid,
        epoch=finding.epoch,
        detail=finding.detail or None,
        advice=advice,
    )
