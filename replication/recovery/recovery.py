"""Handlers for the recovery of a node, which takes lost entities back from its replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import get_args

from aiohttp import web

from catalog.client import ClientError
from catalog.context import CONTEXT, Context
from catalog.http.flags import page_limit
from catalog.http.outboundaddress import why_refused
from catalog.http.route import Route, model_response
from catalog.model.concorderrors import ReplicaUnusable, UnresolvedConflict
from catalog.model.credentials import PeerCredential
from catalog.model.errors import InvalidAttribute, NotFound
from catalog.operations import recovery as operations
from catalog.operations.operation import PageQuery
from catalog.operations.peers import MOST_NAMED
from catalog.store.database import Connection
from catalog.store.locks import Touched, lock_and_load
from catalog.store.secrets import seal_credential
from replication.links.links import next_page
from replication.peers.handshake import first_contact
from replication.peers.linkerrors import NO_LINK, describe
from replication.peers.peeraccess import access_for, check_credential, peer_credential
from replication.recovery.replicasurvey import Replica, meet_replica
from replication.store import recoveries
from replication.transfer.comparison import read_authorities

_EVERYTHING = Touched(catalog_exclusive=True)


async def get_recovery(request: web.Request) -> operations.RecoveryAnswer:
    """Show the current recovery, or the last recovery."""
    context = request[CONTEXT]
    async with context.database.snapshot() as connection:
        return _answer(context, await _existing(connection, request))


async def begin_recovery(
    request: web.Request, wanted: operations.NewRecovery, query: operations.RecoveryQuery
) -> operations.RecoveryAnswer:
    """Take lost entities of the node back from its replicas.

    The node takes no writes until the recovery ends. The new recovery replaces a running recovery.
    Copies of the sources have to be signed by the keys of this authority, unless `unsigned` is
    true.
    """
    context = request[CONTEXT]
    sources = list(dict.fromkeys(wanted.sources))
    shown = {url: peer_credential(wanted.credentials.get(url), request.path) for url in sources}
    for url, credential in shown.items():
        refusal = why_refused(url, context.settings)
        if url in (context.public_base, context.settings.public_url):
            refusal = "it is this node itself"
        if refusal:
            fault = f"{url}: {refusal}"
            raise InvalidAttribute(request.path, name="sources", error_detail=fault)
        check_credential(credential, url, context.settings, request.path)
    if not query.force:
        await _ask(context, shown, request.path)
    terms = recoveries.RecoveryTerms(
        named=wanted.trust, is_unsigned_taken=wanted.unsigned, allowed=wanted.allow
    )
    async with context.database.transaction() as connection:
        await lock_and_load(connection, _EVERYTHING)
        keys, table = context.keys, "recovery_sources"
        sealed = {
            url: await seal_credential(connection, keys, credential, table, url)
            for url, credential in shown.items()
        }
        await recoveries.begin(connection, sources, datetime.now(UTC), terms, sealed)
        return _answer(context, await _existing(connection, request))


async def abort_recovery(request: web.Request) -> operations.RecoveryAnswer:
    """End the recovery early, and take writes again.

    Copies that the recovery has taken stay. Later writes of clients may have epochs that replicas
    already have.
    """
    context = request[CONTEXT]
    async with context.database.transaction() as connection:
        await lock_and_load(connection, _EVERYTHING)
        recovery = await _unended(connection, request)
        try:
            await recoveries.end(connection, recovery, "aborted", datetime.now(UTC))
        except recoveries.RecoveryReplaced as error:
            raise NotFound(request.path) from error
        return _answer(context, await _existing(connection, request))


async def change_recovery(
    request: web.Request, wanted: operations.RecoveryChanges
) -> operations.RecoveryAnswer:
    """Continue now, and retry the copies that could not be taken or delete their entities."""
    context = request[CONTEXT]
    state: operations.RecoveryState = wanted.state
    async with context.database.transaction() as connection:
        await lock_and_load(connection, _EVERYTHING)
        recovery = await _unended(connection, request)
        if recovery.state == "awaited":
            detail, fault = "Begin one: `concord recover --from URL`.", "no recovery has begun"
            raise UnresolvedConflict(request.path, error_detail=fault, detail=detail)
        if recovery.state == "blocked":
            if state == "taking":
                await recoveries.try_again(connection)
        elif state == "burying":
            detail = "It deletes only what it could not take. Wait until it is blocked."
            fault = f"the recovery is {recovery.state}"
            raise UnresolvedConflict(request.path, error_detail=fault, detail=detail)
        elif recovery.state != "asking":
            state = recovery.state
        if wanted.allow is not None:
            await recoveries.allow(connection, recovery, wanted.allow)
        await recoveries.move_on(connection, recovery, state, "closed")
        return _answer(context, await _existing(connection, request))


async def list_findings(request: web.Request, page: PageQuery) -> web.Response:
    """List the findings of the recovery for the operator, in pages.

    A finding is an entity that was refused, taken in part or deleted, or whose copies differed.
    """
    limit = page_limit(request, page.limit)
    async with request[CONTEXT].database.acquire() as connection:
        found = await recoveries.findings(connection, page.after, limit + 1)
    headers = next_page(request, limit, found[limit - 1].origin) if len(found) > limit else {}
    shown = operations.RecoveryFindings(findings=[_show_finding(each) for each in found[:limit]])
    return model_response(shown, headers=headers)


async def _existing(connection: Connection, request: web.Request) -> recoveries.Recovery:
    recovery = await recoveries.read(connection)
    if recovery is None:
        raise NotFound(request.path, detail="This node has never recovered.")
    return recovery


async def _unended(connection: Connection, request: web.Request) -> recoveries.Recovery:
    recovery = await _existing(connection, request)
    if recovery.state in recoveries.ENDED:
        detail = f"the recovery is {recovery.state}"
        raise UnresolvedConflict(request.path, error_detail=detail)
    return recovery


async def _ask(context: Context, shown: Mapping[str, PeerCredential], subject: str) -> None:
    """Check the identities of the sources, and whether a source knows the authority of the node.

    Raises:
        ReplicaUnusable: a source is no replica, two sources are the same catalog, or no source
            knows this authority.
    """
    own, known, instances = context.database.node.authority, set[str](), dict[object, str]()
    for url, credential in shown.items():
        access = await access_for(context, url, credential)
        async with first_contact(context, url, access) as peer:
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
            source=", ".join(shown),
            error_detail=f"nothing there is of {own}, the authority of this node",
            detail=f"They have entities of: {', '.join(sorted(known)) or 'nobody'}. A fresh node "
            "takes up the authority of a lost one by `concord serve --authority`.",
        )


def _answer(context: Context, recovery: recoveries.Recovery) -> operations.RecoveryAnswer:
    counts = {state: recovery.counts.get(state, 0) for state in get_args(operations.ChoiceState)}
    return operations.RecoveryAnswer(
        authority=context.database.node.authority,
        state=recovery.state,
        writes=recovery.gate,
        startedat=recovery.startedat,
        endedat=recovery.endedat,
        sources=[
            operations.RecoverySourceAnswer(
                url=source.url,
                instance=source.instance,
                differing=source.origins,
                isread=source.is_read,
                unproven=source.unproven,
            )
            for source in recovery.sources
        ],
        **counts,
        diverged=recovery.diverged,
        keys=None if recovery.keys is None else [*recovery.keys],
        allowed=recovery.allowed,
        failures=recovery.failures,
        error=recovery.error,
        nextattemptat=recovery.nextattemptat,
    )


def _show_finding(finding: recoveries.RecoveryFinding) -> operations.RecoveryFindingAnswer:
    detail = finding.detail
    if finding.rivals > 1:
        detail = (
            f"{finding.rivals} copies of this epoch differ; the one that is taken was at "
            f"{finding.votes}. {detail}".strip()
        )
    return operations.RecoveryFindingAnswer(
        origin=finding.origin,
        epoch=finding.epoch,
        deleted=finding.is_deleted,
        state=finding.state,
        rivals=finding.rivals,
        detail=detail,
    )


routes: Sequence[Route] = (
    Route(operations.GET_RECOVERY, get_recovery),
    Route(operations.BEGIN_RECOVERY, begin_recovery),
    Route(operations.ABORT_RECOVERY, abort_recovery),
    Route(operations.CHANGE_RECOVERY, change_recovery),
    Route(operations.LIST_FINDINGS, list_findings),
)
