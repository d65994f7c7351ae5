"""Repairs single origins at the request of operators and of jobs that compare catalogs."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import aiohttp
from aiohttp import web

from catalog.client import Client, ClientError
from catalog.context import CONTEXT, Context
from catalog.http.outbound import open_session
from catalog.http.route import Route
from catalog.model.entity import Origin
from catalog.model.linkterms import Mode
from catalog.operations.feed import Verdict
from catalog.operations.peers import REPAIR, Repairs, UnresolvedOrigin, WantedOrigins
from catalog.store import entities as store
from catalog.store import links
from catalog.store.links import Link
from replication.applying.apply import Batch, apply_batch
from replication.deciding.batch import CopyFinding
from replication.deciding.placement import mapping_of, rules_of
from replication.deciding.provenance import check_claim, policy_of
from replication.peers.handshake import shake_hands
from replication.peers.linkbounds import Allowance, PacedClient
from replication.peers.linkerrors import describe
from replication.peers.peeraccess import access_of
from replication.sources.copypages import COPIES_OF_ONE, pages_of

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


routes: Sequence[Route] = (Route(REPAIR, post_repair),)
