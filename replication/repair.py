"""Mends single origins: they are fetched again and applied on the operator's word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from catalog.context import Context
from catalog.http.outbound import open_session
from catalog.model.entity import Origin
from catalog.store import links
from catalog.store.links import Link
from replication.apply import AppliedBatch, Batch, apply_batch
from replication.batch import CopyFinding, Incoming
from replication.decide import Verdict
from replication.linkscope import may_bring, policy_of
from replication.pull import apply_lines
from replication.remote import Remote, RemoteError

_MOST_LINKS = 10_000
_MENDED = frozenset({Verdict.APPLY, Verdict.CURRENT})
_REASONS = {
    Verdict.STALE: "a later one is here",
    Verdict.DELETED: "it was deleted here later",
    Verdict.OWN: "this node is its authority",
    Verdict.REFUSED: "the link does not admit it",
}


@dataclass(slots=True, kw_only=True)
class Repaired:
    """The verdict of each copy that came, by origin, and why the others were not mended."""

    findings: dict[Origin, CopyFinding] = field(default_factory=dict)
    unresolved: dict[Origin, str] = field(default_factory=dict)

    @property
    def verdicts(self) -> Counter[str]:
        return Counter(finding.verdict.value for finding in self.findings.values())


async def repair(context: Context, origins: Sequence[Origin]) -> Repaired:
    """Fetch origins by the links that may bring them, and apply what comes.

    What is here is judged by its content, so damage is mended even where the stored digest
    was left as it was; at equal epochs the source is right. What is older than what is
    here is not applied. A link to the origin's authority is asked before a relay.
    """
    async with context.database.pool.acquire(timeout=30) as connection:
        known = await links.page(connection, "", _MOST_LINKS)
    repaired = Repaired(
        unresolved=dict.fromkeys(origins, "no link of this node brings this authority")
    )
    async with open_session(context.settings) as session:
        for is_relayed in (False, True):
            for link in known:
                wanted = [
                    origin
                    for origin in repaired.unresolved
                    if (origin.authority != link.authority) is is_relayed
                    and may_bring(link.definition, link.authority, origin)
                ]
                if wanted:
                    remote = Remote(
                        session, link.definition.source, context.settings.request_timeout_seconds
                    )
                    await _repair_from(context, link, remote, wanted, repaired)
    return repaired


async def _repair_from(
    context: Context, link: Link, remote: Remote, wanted: list[Origin], repaired: Repaired
) -> None:
    try:
        found = await _fetch(context, link, remote, wanted)
    except RemoteError as error:
        repaired.unresolved.update(dict.fromkeys(wanted, str(error)))
        return
    for origin in wanted:
        finding = found.get(origin)
        if finding is None:
            repaired.unresolved[origin] = f"{link.definition.source} does not have it"
            continue
        repaired.findings[origin] = finding
        if finding.verdict in _MENDED:
            del repaired.unresolved[origin]
        else:
            reason = _REASONS.get(finding.verdict) or finding.detail
            repaired.unresolved[origin] = reason


async def _fetch(
    context: Context, link: Link, remote: Remote, wanted: list[Origin]
) -> dict[Origin, CopyFinding]:
    source = await remote.handshake()
    policy = policy_of(
        link.definition, own=context.database.node.authority, source=source.authority
    )
    found: dict[Origin, CopyFinding] = {}

    async def apply(copies: list[Incoming], _: str | None) -> AppliedBatch:
        batch = Batch(copies=copies, policy=replace(policy, is_trusted=True), is_repair=True)
        applied = await apply_batch(context, batch)
        found.update({finding.origin: finding for finding in applied.findings})
        return applied

    await apply_lines(remote.fetch(wanted), apply)
    return found
