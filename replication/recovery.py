"""Handlers for the recovery of a node, which takes its own entities back from its replicas."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, get_args

from aiohttp import web

from catalog.client import ClientError
from catalog.context import CONTEXT, Context
from catalog.http.flags import read_page
from catalog.http.outbound import open_session
from catalog.http.outboundaddress import why_refused
from catalog.http.responses import json_response
from catalog.model.concorderrors import ReplicaUnusable, UnresolvedConflict
from catalog.model.errors import InvalidAttribute, NotFound
from catalog.model.timestamps import format_time
from catalog.store import recoveries
from catalog.store.database import Connection
from catalog.store.locks import Touched, lock_and_load
from catalog.store.peercredentials import seal_credential
from catalog.store.recoveries import (
    ENDED,
    ChoiceState,
    Recovery,
    RecoveryFinding,
    RecoveryReplaced,
    RecoveryState,
)
from replication.accessremedies import NO_LINK
from replication.comparison import read_authorities
from replication.credentials.givencredential import check_credential
from replication.credentials.peeraccess import access_for
from replication.feed import MOST_NAMED
from replication.handshake import describe, peer_at
from replication.links import next_page
from replication.replicasurvey import Replica, meet_replica
from replication.wire import RecoveryBody, ResumeBody, read_request

_PROBE_SECONDS = 10.0
_EVERYTHING = Touched(catalog_exclusive=True)


async def get_recovery(request: web.Request) -> web.Response:
    """`GET /replication/recovery`: the one under way, or the last one."""
    context = request.app[CONTEXT]
    async with context.database.snapshot() as connection:
        return _answer(context, await _existing(connection, request))


async def begin_recovery(request: web.Request) -> web.Response:
    """`POST /replication/recovery`: take this node's own entities back from its replicas.

    The node takes no writes from now on until it has. A recovery that is under way is replaced by
    this one. The sources are asked first unless `?force` is given. What they send has to be signed
    by the keys of this authority, of which `trust` names some, unless `unsigned` is true. The
    recovery deletes up to `allow` entities without asking.
    """
    context = request.app[CONTEXT]
    body = await read_request(request, RecoveryBody)
    sources = list(dict.fromkeys(body.sources))
    for url in sources:
        _check_url(context, url, request.path)
        check_credential(body.shown_to(url), url, context.settings, request.path)
    if "force" not in request.query:
        await _ask(context, sources, body, request.path)
    async with context.database.transaction() as connection:
        await lock_and_load(connection, _EVERYTHING)
        sealed = {
            url: await seal_credential(
                connection, context.keys, body.shown_to(url), "recovery_sources", url
            )
            for url in sources
        }
        await recoveries.begin(connection, sources, datetime.now(UTC), body.to_terms(), sealed)
        begun = await _existing(connection, request)
    return _answer(context, begun, status=202)


async def abort_recovery(request: web.Request) -> web.Response:
    """`DELETE /replication/recovery`: end it as it is, and take writes again.

    What it has taken stays. What clients write from now on may have epochs that replicas have
    already.
    """
    context = request.app[CONTEXT]
    async with context.database.transaction() as connection:
        await lock_and_load(connection, _EVERYTHING)
        recovery = await _unended(connection, request)
        await _end(connection, recovery, request)
        return _answer(context, await _existing(connection, request))


async def resume_recovery(request: web.Request) -> web.Response:
    """`POST /replication/recovery/resume`: go on now, and try again what could not be taken.

    It may delete as many entities as `allow` says.
    """
    body = await read_request(request, ResumeBody) if request.can_read_body else ResumeBody()
    return await _move_on(request, "taking", body.allow)


async def bury_refused(request: web.Request) -> web.Response:
    """`POST /replication/recovery/bury`: delete what cannot be taken, everywhere, and end."""
    return await _move_on(request, "burying")


async def list_findings(request: web.Request) -> web.Response:
    """`GET /replication/recovery/findings`: what an operator should see, in pages.

    What could not be taken or not as a whole, what was deleted, and of what copies differed.
    """
    after, limit = read_page(request)
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        found = await recoveries.findings(connection, after, limit + 1)
    headers = next_page(request, limit, found[limit - 1].origin) if len(found) > limit else {}
    return json_response({"findings": [_show_finding(f) for f in found[:limit]]}, headers=headers)


async def _move_on(
    request: web.Request, state: RecoveryState, allowed: int | None = None
) -> web.Response:
    context = request.app[CONTEXT]
    async with context.database.transaction() as connection:
        await lock_and_load(connection, _EVERYTHING)
        recovery = await _unended(connection, request)
        if recovery.state == "awaited":
            detail = "Begin one: `concord recover --from URL`."
            error_detail = "no recovery has begun"
            raise UnresolvedConflict(request.path, error_detail=error_detail, detail=detail)
        if recovery.state == "blocked":
            if state == "taking":
                await recoveries.try_again(connection)
        elif state == "burying":
            detail = "It deletes only what it could not take. Wait until it is blocked."
            raise UnresolvedConflict(
                request.path, error_detail=f"the recovery is {recovery.state}", detail=detail
            )
        elif recovery.state != "asking":
            state = recovery.state
        if allowed is not None:
            await recoveries.allow(connection, recovery, allowed)
        await recoveries.move_on(connection, recovery, state, "closed")
        return _answer(context, await _existing(connection, request))


async def _end(connection: Connection, recovery: Recovery, request: web.Request) -> None:
    try:
        await recoveries.end(connection, recovery, "aborted", datetime.now(UTC))
    except RecoveryReplaced as error:
        raise NotFound(request.path) from error


async def _existing(connection: Connection, request: web.Request) -> Recovery:
    recovery = await recoveries.read(connection)
    if recovery is None:
        raise NotFound(request.path, detail="This node has never recovered.")
    return recovery


async def _unended(connection: Connection, request: web.Request) -> Recovery:
    recovery = await _existing(connection, request)
    if recovery.state in ENDED:
        detail = f"the recovery is {recovery.state}"
        raise UnresolvedConflict(request.path, error_detail=detail)
    return recovery


def _check_url(context: Context, url: str, subject: str) -> None:
    refusal = why_refused(url, context.settings)
    if url in (context.public_base, context.settings.public_url):
        refusal = "it is this node itself"
    if refusal is not None:
        raise InvalidAttribute(subject, name="sources", error_detail=f"{url}: {refusal}")


async def _ask(context: Context, sources: Sequence[str], body: RecoveryBody, subject: str) -> None:
    """Ask the sources who they are, and whether they know of this node's authority.

    Raises:
        ReplicaUnusable: one is no replica, two are the same, or all know of other authorities only.
    """
    own, known, instances = context.database.node.authority, set[str](), dict[object, str]()
    seconds = min(context.settings.request_timeout_seconds, _PROBE_SECONDS)
    async with open_session(context.settings, total_seconds=seconds) as session:
        for url in sources:
            access = await access_for(context, url, body.shown_to(url))
            peer = peer_at(url, session, seconds, credential=access)
            replica = Replica(context=context, peer=peer)
            try:
                found = await meet_replica(replica)
                known |= {*await read_authorities(replica)}
            except ClientError as error:
                fault = describe(error, url, NO_LINK).rstrip(".")
                raise ReplicaUnusable(subject, source=url, error_detail=fault) from error
            if other := instances.get(found.instance):
                detail = f"it is the same catalog as {other}"
                raise ReplicaUnusable(subject, source=url, error_detail=detail)
            instances[found.instance] = url
    if own not in known and len(known) <= MOST_NAMED:
        raise ReplicaUnusable(
            subject,
            source=", ".join(sources),
            error_detail=f"nothing there is of {own}, the authority of this node",
            detail=f"They have entities of: {', '.join(sorted(known)) or 'nobody'}. A fresh node "
            "takes up the authority of a lost one by `concord serve --authority`.",
        )


def _answer(context: Context, recovery: Recovery, *, status: int = 200) -> web.Response:
    shown = {
        "authority": context.database.node.authority,
        "state": recovery.state,
        "writes": recovery.gate,
        "startedat": format_time(recovery.startedat),
        "endedat": recovery.endedat and format_time(recovery.endedat),
        "sources": [
            {
                "url": source.url,
                "instance": source.instance and str(source.instance),
                "differing": source.origins,
                "isread": source.is_read,
                "unproven": source.unproven,
            }
            for source in recovery.sources
        ],
        **{state: recovery.counts.get(state, 0) for state in get_args(ChoiceState)},
        "diverged": recovery.diverged,
        "keys": recovery.keys,
        "allowed": recovery.allowed,
        "failures": recovery.failures,
        "error": recovery.error,
        "nextattemptat": recovery.nextattemptat and format_time(recovery.nextattemptat),
    }
    return json_response(shown, status=status)


def _show_finding(finding: RecoveryFinding) -> dict[str, Any]:
    detail = finding.detail
    if finding.rivals > 1:
        detail = (
            f"{finding.rivals} copies of this epoch differ; the one that is taken was at "
            f"{finding.votes}. {detail}".strip()
        )
    return {
        "origin": finding.origin,
        "epoch": finding.epoch,
        "deleted": finding.is_deleted,
        "state": finding.state,
        "rivals": finding.rivals,
        "detail": detail,
    }
