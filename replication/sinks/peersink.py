"""The sink of pushing links: another node."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from shlex import quote

from catalog.client import ClientError
from catalog.model.entity import Origin
from catalog.model.masking import counted
from catalog.operations.feed import MOST_PUSHED, Verdict
from catalog.operations.peers import MOST_NAMED, Handshake
from catalog.store import links
from catalog.store.changes import Position, read_head
from catalog.store.database import Connection
from catalog.store.links import Link
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Copy
from replication.deciding.decide import CONFLICTS
from replication.feed.feedpages import read_copies
from replication.peers.linkerrors import may_pass
from replication.sinks.pushrequests import PushFlow, PushRequest, meet_target, requests_for
from replication.sources.ownlog import SentPage, sent_by
from replication.store import digests, linkconflicts
from replication.store.digests import DigestSelection, count_entities
from replication.store.linkconflicts import MOST_CONFLICTS, CopyFinding
from replication.store.loghistory import why_lost
from replication.transfer import comparison
from replication.transfer.comparison import DifferingOrigin, DigestComparison
from replication.transfer.linkrun import Applied, LinkRun, PeerIdentity, Start
from replication.transfer.transfer import DryRun, LinkPeer, LinkSink, outcome_of


class PeerSink(LinkSink, LinkPeer):
    """Pushes pages of the log to another node.

    The target keeps the cursor together with the copies before the cursor. So no copy is lost or
    sent again for long if either catalog stops or is restored from a backup.
    """

    def __init__(self, run: LinkRun) -> None:
        self._run = run
        self._target: Handshake
        self._flow: PushFlow
        self._told_at = float("-inf")

    async def meet(self) -> None:
        """Ask the target for an identity; the target must take pushes."""
        self._target = await meet_target(self._run.context, self._run.peer)

    async def identify(self, connection: Connection, link: Link) -> PeerIdentity:
        """The identity of the target; a new instance gets a complete copy.

        Raises:
            ClientError: the target claims another authority, or another link pushes to the target.
        """
        target = self._target
        if link.authority not in (None, target.authority):
            raise ClientError(
                f"The target is pinned to the authority {link.authority}, and claims to be "
                f"{target.authority}.",
                f"If it is, run `concord link set {link.id} --pin {quote(target.authority)}`.",
            )
        if other := await links.find_pushing(connection, target.instance, link):
            raise ClientError(
                f"Link {other} pushes to the same target.",
                f"Remove one of the two: `concord link remove {link.id}`.",
            )
        return PeerIdentity(
            instance=target.instance,
            authority=target.authority,
            base=target.base,
            changed=f"the target is {target.instance} now, it was {link.instance}",
        )

    async def resume(self, saved: str | None) -> Start[Position]:
        """Continue from the position up to which the target has every copy, if the log allows."""
        run = self._run
        self._flow = flow = PushFlow(run=run, target=self._target)
        self._told_at = float("-inf")
        # The answers also set the cursor of the flow, which the target keeps.
        strays = await learn_conflicts(flow)
        # A complete copy includes the entities of the damaged copies.
        run.strays = [] if saved is None else strays
        cursor = flow.own_cursor(flow.after)
        async with run.database.snapshot(run.database.pools.tasks) as connection:
            head = await read_head(connection)
            flow.loss = "" if cursor is None else await why_lost(connection, cursor)
        if flow.loss:
            await run.remember("lost data", f"This node lost what it had sent: {flow.loss}.")
        if saved is None or flow.loss:
            return Start(cursor=None, is_copied=False)
        if cursor is None or not head.reaches(cursor.position):
            await run.remember("resynchronise", "the target has no cursor of this log")
            return Start(cursor=None, is_copied=False)
        return Start(cursor=cursor.position, is_copied=True)

    async def compare(self) -> DigestComparison | None:
        """Compare digests with the target; `None` if everything has to be pushed."""
        flow = self._flow
        if flow.needs_all or flow.loss:
            return None
        return await compare_target(flow)

    async def differences(self, max_age: float) -> Collection[DifferingOrigin] | None:
        """Compare own entities with the target, and return differences that must not remain."""
        found = await _compare(self._flow, max_age)
        if found is None:
            return None
        own = self._run.database.node.authority
        # The target ignores a relayed copy while a link of the target to the authority is behind.
        differing = [each for each in found.differing if each.origin.authority == own]
        return comparison.unsettled(differing, own, sends=True)

    async def preview(self) -> DryRun | None:
        """The effect of a push, by digests, or `None` if the target offers none.

        Refusals of the target stay unknown until a real push.
        """
        await self.meet()
        found = await compare_target(PushFlow(run=self._run, target=self._target))
        if found is None:
            return None
        result = DryRun(rows=found.rows, differing=len(found.wanted))
        for each in found.differing:
            if each.here is not None:
                is_there = each.there is not None and not each.there.is_deleted
                outcome = outcome_of(is_deletion=each.here.is_deleted, is_there=is_there)
                result.note(outcome, each.origin, each.here.epoch)
        return result

    def admits(self, copy: Copy) -> bool:
        """Whether the target needs a copy."""
        return self._flow.admits(copy)

    async def begin(self, found: DigestComparison | None) -> None:
        """Announce a complete copy to the target, or a copy of the differing origins."""
        if found is not None:
            await self._flow.begin(len(found.wanted), is_whole=False)
            return
        async with self._run.database.snapshot(self._run.database.pools.feed) as connection:
            entities = await count_entities(connection)
        await self._flow.begin(entities)

    async def apply(self, page: SentPage) -> Applied:
        """Push a page; the target saves the cursor.

        The cursor of a page without copies goes with the next request, except that the cursor of
        the last page is sent at intervals.
        """
        flow, applied, request = self._flow, Applied(), PushRequest()
        async for following in requests_for(flow, page.copies):
            if request.copies:
                applied.add(await flow.send(request))
            request = following
        now = asyncio.get_running_loop().time()
        is_due = page.is_last and now - self._told_at >= self._run.interval
        # During a complete copy the target has no cursor, so the cursor that ends the copy is
        # always sent.
        if page.cursor is not None and (request.copies or is_due or flow.after is None):
            cursor = await flow.cursor_of(page.cursor)
            applied.add(await flow.send(request, cursor=cursor, behind=page.behind))
            self._told_at = now if page.is_last else self._told_at
        elif request.copies:
            applied.add(await flow.send(request))
        return applied

    def told(self, total: Applied) -> tuple[str, str]:
        """The event of a complete copy in the history of the link, and its details."""
        return "copied", counted(total.copies, "copies")


async def compare_target(flow: PushFlow) -> DigestComparison | None:
    """Compare the copies that a link sends with the target.

    Returns:
        `None` if everything has to be pushed: the target offers no digests, or has an entity of
        this node without even a tombstone in this catalog, which only a complete copy corrects.
    """
    database = flow.run.database
    async with database.snapshot(database.pools.feed) as connection:
        # Read before the comparison, so that the log brings every later change.
        head = await read_head(connection)
    found = await _compare(flow)
    if found is None:
        return None
    own = database.node.authority
    lacks = any(
        each.here is None and each.there and not each.there.is_deleted
        for each in found.differing
        if each.origin.authority == own
    )
    if lacks:
        return None
    here = {each.origin: each.here for each in found.differing if each.here is not None}
    return replace(found, cursor=head.now, wanted=comparison.in_copy_order(here))


async def _compare(flow: PushFlow, max_age: float = 0.0) -> DigestComparison | None:
    authorities = await _authorities(flow)
    if not 0 < len(authorities) <= MOST_NAMED:
        return None
    sent = sent_by(flow.run.context, flow.run.link.definition)
    if sent.types and "types" not in flow.target.offers:
        return None
    wanted = DigestSelection(
        authorities=authorities, scope=sent.scope, types=sent.types, max_age=max_age
    )
    try:
        return await comparison.find_differences(flow.run, wanted)
    except ClientError as error:
        if may_pass(error):
            raise
        return None


async def _authorities(flow: PushFlow) -> list[str]:
    """The authorities in the selection of the link, without the target's authority."""
    named = sent_by(flow.run.context, flow.run.link.definition).authorities
    if named is None:
        database = flow.run.database
        async with database.snapshot(database.pools.feed) as connection:
            named = frozenset(await digests.read_authorities(connection, MOST_NAMED + 1))
    return sorted(named - {flow.target.authority})


async def learn_conflicts(flow: PushFlow) -> list[Origin]:
    """Ask the target for the cursor, and note the copies that the target could not apply.

    The noted copies are pushed again, like the copies that the target has refused in answers.

    Returns:
        the origins of damaged copies without an entity of this node: the true origins are unknown.
    """
    strays: list[Origin] = []
    after: Origin | None = None
    for _ in range(MOST_CONFLICTS // MOST_PUSHED):
        told = await flow.ask(after)
        if told:
            strays += await _note(flow, told)
        if len(told) < MOST_PUSHED:
            break
        after = told[-1].origin
    return strays


async def _note(flow: PushFlow, told: Sequence[CopyFinding]) -> list[Origin]:
    """Note the conflicts of held entities that the link sends; return other damaged origins."""
    database = flow.run.database
    async with database.snapshot(database.pools.feed) as connection:
        copies = await read_copies(connection, {each for one in told for each in _suspects(one)})
    sent = sent_by(flow.run.context, flow.run.link.definition)
    held = {origin_of(c): c for c in copies if sent.admits(c) and flow.admits(c)}
    conflicts = [
        CopyFinding.about(held[origin], each.verdict, each.detail)
        for each in told
        for origin in _suspects(each) & held.keys()
        if each.verdict in CONFLICTS
    ]
    if conflicts:
        async with database.transaction() as connection:
            await linkconflicts.add(connection, flow.run.link.id, conflicts)
    return [e.origin for e in told if e.verdict is Verdict.INVALID and e.origin not in held]


def _suspects(told: CopyFinding) -> set[Origin]:
    """The possible origins of a copy: after damage, `origin` or `xid` may be wrong."""
    return {told.origin, Origin(told.origin.authority, told.xid)}
