"""Answers to requests for dry runs of links."""

from __future__ import annotations

import asyncio

from aiohttp import web

from catalog.client import ClientError
from catalog.context import CONTEXT, Context
from catalog.http.outbound import open_session
from catalog.model.concorderrors import SourceUnusable
from catalog.model.errors import BadRequest
from catalog.operations.links import DryRunAnswer, TriedCopies, TriedCopy
from catalog.store.links import Link
from catalog.supervisor import LoopTiming
from replication.credentials.peeraccess import access_of
from replication.deciding.batch import CopyFinding
from replication.deciding.pinning import meet_claim, met
from replication.feed.sourceloss import why_lost
from replication.links.conflictremedies import remedy_of
from replication.links.dryrun import DryRun, dry_run, dry_walk
from replication.links.walkrunner import server_identity
from replication.peers.handshake import describe, peer_at, shake_hands
from replication.peers.linkbounds import LinkGate
from replication.sources.pull import Flow
from replication.sources.walk import Walk, WalkMemory
from replication.sources.walkedregistry import describe_registry
from replication.sources.walkedserver import WalkedServer

_MODES = frozenset({"pull", "events", "walk"})
# The rest of a request's time is for the decisions about what the walk read.
_WALKED_SHARE = 0.8
_UNDECIDED = (
    "The link would bring a complete copy: too much differs to tell it one by one, or the source "
    "offers no digests."
)


async def try_link(request: web.Request, link: Link) -> DryRunAnswer:
    """Tell what a link would bring, delete and refuse; it need not be stored, and may be paused.

    Raises:
        SourceUnusable: its source does not answer, or may not be who it claims to be.
        BadRequest: links of its mode bring nothing by themselves.
    """
    context = request[CONTEXT]
    if link.definition.mode not in _MODES:
        detail = f'a link of mode "{link.definition.mode}" has no dry run'
        raise BadRequest(request.path, error_detail=detail)
    try:
        found = await (_try_walk if link.definition.mode == "walk" else _try)(context, link)
    except ClientError as error:
        source = link.definition.source
        detail = describe(error, source).rstrip(".")
        raise SourceUnusable(request.path, source=source, error_detail=detail) from error
    if found is None:
        return DryRunAnswer(isdecided=False, reason=_UNDECIDED)
    return _answer(found, link)


async def _try(context: Context, link: Link) -> DryRun | None:
    seconds = context.settings.request_timeout_seconds
    async with open_session(context.settings, total_seconds=seconds) as session:
        access = access_of(link, context)
        peer = peer_at(link.definition.source, session, seconds, credential=access)
        source = await shake_hands(peer)
        async with context.database.snapshot() as connection:
            await meet_claim(connection, link, source.authority)
        gate = LinkGate()
        loss = why_lost(link, source.instance)
        link = met(link, source.instance, source.authority, loss)
        flow = Flow(context=context, link=link, peer=peer, source=source, gate=gate)
        return await dry_run(flow)


async def _try_walk(context: Context, link: Link) -> DryRun:
    seconds = _WALKED_SHARE * context.settings.request_timeout_seconds
    source, access = link.definition.source, access_of(link, context)
    try:
        async with (
            asyncio.timeout(seconds) as limit,
            open_session(context.settings, total_seconds=seconds) as session,
        ):
            server = WalkedServer(
                source, session, context.settings, LoopTiming(), credential=access
            )
            registry = await describe_registry(server, context.configuration.model)
            found = server_identity(context, link, registry)
            async with context.database.snapshot() as connection:
                await meet_claim(connection, link, found.authority)
            flow = Flow(
                context=context,
                link=met(link, found.instance, found.authority, ""),
                peer=peer_at(source, session, seconds, credential=access),
                source=found,
                gate=LinkGate(),
            )
            walk = Walk(flow=flow, server=server, registry=registry, memory=WalkMemory())
            return await dry_walk(walk)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise ClientError(
            f"{source} could not be walked within {seconds:.0f} seconds.",
            "Try the link with a narrower scope (`--scope`).",
        ) from error


def _answer(found: DryRun, link: Link) -> DryRunAnswer:
    outcomes = {
        outcome: TriedCopies(number=number, first=[_tried(e, link) for e in found.first[outcome]])
        for outcome, number in found.numbers.most_common()
    }
    return DryRunAnswer(
        isdecided=True,
        rows=found.rows,
        differing=found.differing,
        outcomes=outcomes,
        question=None if found.question is None else found.question.shown(),
    )


def _tried(finding: CopyFinding, link: Link) -> TriedCopy:
    remedy = remedy_of(finding.verdict.value, link, finding.origin.xid) if finding.detail else None
    return TriedCopy(
        authority=finding.origin.authority,
        origin=finding.origin.xid,
        xid=finding.xid,
        epoch=finding.epoch,
        detail=finding.detail or None,
        remedy=remedy,
    )
