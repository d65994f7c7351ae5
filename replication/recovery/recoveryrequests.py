"""Handlers of a node that takes its lost entities back from replicas, or repairs single origins."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import aiohttp
from aiohttp import web

from catalog.client import Client, ClientError
from catalog.context import CONTEXT, Context
from catalog.http.allowedaddresses import why_refused
from catalog.http.flags import page_limit
from catalog.http.outboundconnections import open_session
from catalog.http.route import Route, model_response
from catalog.model.concorderrors import ReplicaUnusable, UnresolvedConflict
from catalog.model.credentials import PeerCredential
from catalog.model.entity import Origin
from catalog.model.errors import InvalidAttribute, NotFound
from catalog.model.linkterms import Mode
from catalog.operations import recovery as operations
from catalog.operations.feed import Verdict
from catalog.operations.operation import PageQuery
from catalog.operations.peers import MOST_NAMED, REPAIR, Repairs, UnresolvedOrigin, WantedOrigins
from catalog.store import entities as store
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.locks import Touched, lock_and_load
from catalog.store.secrets import seal_credential
from replication.applying.apply import Batch, apply_batch
from replication.deciding.placement import mapping_of, rules_of
from replication.deciding.provenance import check_claim, policy_of
from replication.links.links import next_page
from replication.peers.handshake import first_contact, shake_hands
from replication.peers.linkbounds import Allowance, PacedClient
from replication.peers.linkerrors import NO_LINK, describe
from replication.peers.peeraccess import access_for, access_of, check_credential, peer_credential
from replication.recovery.replicasurvey import Replica, meet_replica
from replication.sources.copypages import COPIES_OF_ONE, pages_of
from replication.store import recoveries
from replication.store.linkconflicts import CopyFinding
from replication.transfer.comparison import read_authorities

# The exclusive lock waits for writes under way: each has seen the gate where it was.
_EVERYTHING = Touched(catalog_exclusive=True)


async def get_recovery(request: web.Request) -> operations.RecoveryAnswer:
    """Show the current recovery, or the last recovery."""
    async with request[CONTEXT].database.snapshot() as connection:
        return await _answer(connection, request)


async def begin_recovery(
    request: web.Request, wanted: operations.NewRecovery, query: operations.RecoveryQuery
) -> operations.RecoveryAnswer:
    """Take lost entities of the node back from its replicas.

    The node takes no writes until the recovery ends. The new recovery replaces a running recovery.
    Copies of the sources have to be signed by the keys of this authority, unless `unsigned` is
    true.
    """
    context = request[CONTEXT]
    shown = {
        url: peer_credential(wanted.credentials.get(url), request.path) for url in wanted.sources
    }
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
    async with context.database.transaction() as connection:
        await lock_and_load(connection, _EVERYTHING)
        keys, table = context.keys, "recovery_sources"
        sealed = {
            url: await seal_credential(connection, keys, credential, table, url)
            for url, credential in shown.items()
        }
        await recoveries.begin(
            connection,
            sealed,
            datetime.now(UTC),
            named=wanted.trust,
            is_unsigned_taken=wanted.unsigned,
            allowed=wanted.allow,
        )
        return await _answer(connection, request)


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
        return await _answer(connection, request)


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
        return await _answer(connection, request)


async def list_findings(request: web.Request, page: PageQuery) -> web.Response:
    """List the findings of the recovery for the operator, in pages.

    A finding is an entity that was refused, taken in part or deleted, or whose copies differed.
    """
    limit = page_limit(request, page.limit)
    async with request[CONTEXT].database.acquire() as connection:
        found = await recoveries.findings(connection, page.after, limit + 1)
    headers = next_page(request, limit, found[limit - 1].origin) if len(found) > limit else {}
    return model_response(operations.RecoveryFindings(findings=found[:limit]), headers=headers)


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
                known |= {*(await read_authorities(replica))[0]}
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


async def _answer(connection: Connection, request: web.Request) -> operations.RecoveryAnswer:
    return operations.RecoveryAnswer.model_validate(await _existing(connection, request))


_MOST_LINKS = 10_000
_NO_LINK = "no link of this node brings this authority"
_REPAIRED = frozenset({Verdict.APPLY, Verdict.CURRENT, Verdict.SIGNED})
_REASONS = {
    Verdict.STALE: "a later one is here",
    Verdict.DELETED: "it was deleted here later",
    Verdict.OWN: "this node is its authority",
    Verdict.REFUSED: "the link does not admit it",
    Verdict.DIRECT: "another link follows its authority itself",
}
# Links that cannot ask for single entities.
_NOT_ASKED: Mapping[Mode, str] = {
    "walk": "its source is walked: run `concord link reset {link} --full`",
    "kafka": "it comes through a topic: run `concord link reset {link}`",
    "accept": "it is pushed here: run `concord link reset` for the link that pushes it",
}


async def post_repair(request: web.Request, wanted: WantedOrigins) -> Repairs:
    """Fetch these origins again; the source overrules the copies of this node."""
    context, findings = request[CONTEXT], dict[Origin, CopyFinding]()
    unresolved = dict.fromkeys(wanted.to_origins(), _NO_LINK)
    async with context.database.acquire() as connection:
        held = await links.page(connection, "", _MOST_LINKS)
    bringing = [each for each in held if each.authority is not None and not each.definition.sends]
    async with open_session(context.settings) as session:
        # Links to the authority of an origin are asked before relays.
        for is_relayed in (False, True):
            for link in bringing:
                policy = policy_of(link.definition, own="", source=link.authority or "")
                admitted = [origin for origin in unresolved if policy.admits(origin)]
                if (advice := _NOT_ASKED.get(link.definition.mode)) is not None:
                    told = advice.format(link=link.id)
                    unresolved |= {each: told for each in admitted if unresolved[each] == _NO_LINK}
                elif asked := [
                    origin
                    for origin in admitted
                    if (origin.authority != link.authority) is is_relayed
                ]:
                    await _repair_from(context, session, link, asked, findings, unresolved)
    return Repairs(
        verdicts=Counter(finding.verdict.value for finding in findings.values()),
        unresolved=[
            UnresolvedOrigin(authority=origin.authority, origin=origin.xid, reason=reason)
            for origin, reason in unresolved.items()
        ],
    )


async def _repair_from(
    context: Context,
    session: aiohttp.ClientSession,
    link: Link,
    wanted: list[Origin],
    findings: dict[Origin, CopyFinding],
    unresolved: dict[Origin, str],
) -> None:
    """Repair origins by a link; add the findings, and the reasons of what stays unresolved."""
    url, seconds = link.definition.source, context.settings.request_timeout_seconds
    peer = PacedClient(url, session, seconds, credential=access_of(link, context))
    try:
        found = await _fetch(context, link, peer, wanted)
    except ClientError as error:
        unresolved.update(dict.fromkeys(wanted, describe(error, peer.url)))
        return
    for origin in wanted:
        finding = found.get(origin)
        if finding is None:
            unresolved[origin] = f"{url} does not have it"
            continue
        findings[origin] = finding
        if finding.verdict in _REPAIRED:
            del unresolved[origin]
        else:
            unresolved[origin] = _REASONS.get(finding.verdict) or finding.detail


async def _fetch(
    context: Context, link: Link, peer: Client, wanted: list[Origin]
) -> dict[Origin, CopyFinding]:
    """Fetch origins from a source, and apply the copies.

    Digests of the entities here are computed anew, so damage is repaired even if the stored digest
    is unchanged; at equal epochs the copy of the source wins. A copy from the authority itself
    replaces the copy held at the time of the request, whatever the epochs; older copies of relays
    are not applied.
    """
    source = await shake_hands(peer)
    check_claim(link, source.authority)
    policy = policy_of(
        link.definition, own=context.database.node.authority, source=source.authority
    )
    policy = replace(policy, is_trusted=True, overruled=await _digests_here(context, wanted))
    mapping, addresses = mapping_of(link.definition), rules_of(link.definition)
    found: dict[Origin, CopyFinding] = {}
    allowance = Allowance.of(context.settings, COPIES_OF_ONE * len(wanted))
    pages = pages_of(context, peer.fetch_lines(wanted), allowance)
    async with contextlib.aclosing(pages):
        async for page in pages:
            batch = Batch(
                copies=page.copies,
                policy=policy,
                is_repair=True,
                mapping=mapping,
                addresses=addresses,
            )
            # Pages are applied in their order, since a child needs its parent here.
            page.applied = await apply_batch(context, batch)
            found.update({finding.origin: finding for finding in page.applied.findings})
    return found


async def _digests_here(context: Context, origins: list[Origin]) -> frozenset[bytes]:
    """The digests of the copies held before a request to the authority, and of damaged copies.

    A copy that arrives meanwhile is not included, since it may be later than the authority's
    answer.
    """
    async with context.database.acquire() as connection:
        live = await store.load_by_origin(connection, origins)
        deleted = await store.load_tombstones(connection, origins)
    here = {entity.digest for entity in live.values()} | {end.digest for end in deleted.values()}
    return frozenset(here | {b""})


routes: Sequence[Route] = (
    Route(operations.GET_RECOVERY, get_recovery),
    Route(operations.BEGIN_RECOVERY, begin_recovery),
    Route(operations.ABORT_RECOVERY, abort_recovery),
    Route(operations.CHANGE_RECOVERY, change_recovery),
    Route(operations.LIST_FINDINGS, list_findings),
    Route(REPAIR, post_repair),
)
