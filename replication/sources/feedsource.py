"""The source of links that follow a node: feed, snapshot and single entities."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from urllib.parse import urlsplit

from catalog.client import CursorExpired
from catalog.model.entity import Origin
from catalog.model.linkterms import TRUST_FIRST, is_scope
from catalog.operations.feed import Verdict
from catalog.operations.peers import MOST_ORIGINS, Handshake
from catalog.store.database import Connection, wait_for
from catalog.store.links import Link
from replication.applying.replicas import await_earlier_batches
from replication.deciding.provenance import admitted, meet_claim, policy_within
from replication.feed.cards import note_card
from replication.peers.handshake import check_not_own, loss_told, shake_hands, why_lost
from replication.peers.keyhistories import ask_for_keys, trust_first
from replication.peers.linkbounds import Allowance
from replication.peers.linkerrors import class_of, describe
from replication.signing.copyverification import read_trust
from replication.sources import copypages
from replication.sources.copypages import CopyPage
from replication.sources.notifications import HINT_SECONDS, ensure_subscription, wake_by_topic
from replication.sources.sourcecomparison import SourceComparison, compare, unsettled_differences
from replication.store import linklosses
from replication.store.linkconflicts import MOST_CONFLICTS, LinkConflict
from replication.transfer.comparison import DifferingOrigin
from replication.transfer.linkrun import BeginAgain, LinkRun, PeerIdentity, Start, until_woken
from replication.transfer.transfer import LinkPeer, LinkSource

_LONG_POLL_SECONDS = 25.0
# A working subscription is checked once in so many pulls.
_PULLS_PER_CHECK = 10
# A woken link reads the feed until no change comes for this long. During changes, events wake the
# link more often than that, so that events are as quick as pull.
_AWAKE_SECONDS = 2 * HINT_SECONDS
# A source that ignores the wait must not be asked in a tight loop.
_SHORTEST_POLL_SECONDS = 0.5
_EMPTY_PAGES, _EMPTY_PAGE_SECONDS = 20, 0.1


class FeedSource(LinkSource, LinkPeer):
    """Reads the feed of another node, and asks the node to wait for changes or to post events."""

    def __init__(self, run: LinkRun, *, by_events: bool = False) -> None:
        self._run = run
        self._by_events = by_events
        self.subscription = run.link.subscription
        self._is_awake = self._has_polled = False
        self._checked_at = self._allowances_at = float("-inf")

    @property
    def _source(self) -> Handshake:
        assert self._run.source is not None, "the link has met its source"
        return self._run.source

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Listen to the topic with the events of the source, if the link has an event topic."""
        run, topic = self._run, self._run.link.definition.eventtopic
        if not topic:
            yield
            return
        listening = asyncio.create_task(wake_by_topic(topic, run))
        try:
            yield
        finally:
            listening.cancel()
            await asyncio.wait([listening])

    async def meet(self) -> None:
        """Ask the source for an identity; the source must not be this node."""
        run = self._run
        run.source = await shake_hands(run.peer, count=run.link.cursor is None)
        self.expected = run.source.entities
        check_not_own(run.context, run.source)

    async def identify(self, connection: Connection, link: Link) -> PeerIdentity:
        """The identity of the source; a cursor is valid only for the instance that issued it."""
        source = self._source
        await meet_claim(connection, link, source.authority)
        await note_card(connection, source)
        return PeerIdentity(
            instance=source.instance,
            authority=source.authority,
            base=source.base,
            loss=why_lost(link, source.instance),
            changed=f"the source is {source.instance} now, it was {link.instance}",
        )

    async def resume(self, saved: str | None) -> Start[str]:
        """Continue from the saved cursor, with the keys of the authorities that the link brings."""
        run, source = self._run, self._source
        definition = run.link.definition
        if TRUST_FIRST in definition.trust:
            await trust_first(run.context, run.peer, source.authority)
        authorities = admitted(definition, source.authority)
        await ask_for_keys(run.context, run.peer, authorities, sender=source.authority)
        return Start(cursor=saved, is_copied=saved is not None)

    async def compare(self) -> SourceComparison | None:
        """Compare digests with the source; `None` if a complete copy is needed."""
        run = self._run
        if run.link.copiesall:
            return None
        if run.link.doubts:
            await await_earlier_batches(run.context)
        return await compare(run)

    async def differences(self, max_age: float) -> Collection[DifferingOrigin] | None:
        """Compare digests with the source, and return what a current link must not leave."""
        return await unsettled_differences(self._run, max_age)

    async def everything(self, after: str | None) -> AsyncGenerator[CopyPage]:
        """A snapshot of the source, with the cursor in the last page.

        An interrupted snapshot begins again; copies that were already applied are then current.
        """
        run = self._run
        assert after is None, "a snapshot has no cursor within it"
        lines = run.peer.snapshot_lines(self._filters)
        if run.link.definition.labels:
            pages = copypages.labelled_listing(run, lines, is_bulk=True)
        else:
            pages = copypages.pages_of(run.context, lines, Allowance.of(run.settings), is_bulk=True)
        async with contextlib.aclosing(pages):
            async for page in pages:
                yield page

    async def differing(self, found: SourceComparison) -> AsyncGenerator[CopyPage]:
        """The differing origins, and the cursor from before the comparison."""
        run, wanted = self._run, found.wanted
        for start in range(0, len(wanted), MOST_ORIGINS):
            async for page in self._fetch(wanted[start : start + MOST_ORIGINS]):
                yield page
        # An entity of the source is no longer doubted, even if the source could not send a copy.
        present = [each.origin for each in found.differing if each.there is not None]
        yield CopyPage(cursor=found.cursor, present=present, lists_all=run.is_allowed)

    async def changes(self, cursor: str) -> AsyncGenerator[CopyPage]:
        """Catch up, then wait for changes, for ever."""
        run = self._run
        self._has_polled, self._checked_at = False, float("-inf")
        # The complete copy has ended, but a contact may have broken off before this page.
        yield CopyPage(lists_all=True)
        while True:
            # The event is cleared before the feed is read, so that no later event gets lost.
            was_woken = run.wakeup.is_set() or self._is_awake
            run.wakeup.clear()
            await self._check_subscription()
            begin = cursor
            if not self._has_polled or was_woken:
                async for page in self._catch_up(cursor):
                    yield page
                    cursor = page.cursor or cursor
            if cursor != begin and not was_woken:
                await self._check_subscription(is_doubtful=True)
            yield CopyPage(is_last=True)
            async for page in self._wait(cursor):
                yield page
                cursor = page.cursor or cursor

    async def again(self, *, is_requested: bool) -> AsyncGenerator[CopyPage]:
        """Fetch every conflict again; begin again if not all are recorded and an operator asks."""
        run, number, strays = self._run, 0, list[Origin]()
        async for found in run.conflicts(MOST_ORIGINS // 2):
            number += len(found)
            wanted = [o for o in _suspects_of(found) if o.authority and is_scope(o.xid)]
            brought: set[Origin] = set()
            async for page in self._fetch([o for o in wanted if run.policy.admits(o)]):
                yield page
                brought.update(page.brought)
            invalid = [c.origin for c in found if c.verdict == Verdict.INVALID]
            strays += [origin for origin in invalid if origin not in brought]
        run.strays = strays
        if is_requested and number >= MOST_CONFLICTS:
            raise BeginAgain("More was refused than is recorded.")

    async def allowances(self) -> Mapping[str, str]:
        """Ask a relay for its allowed losses from time to time; see `_allowed_here`."""
        run, now = self._run, asyncio.get_running_loop().time()
        is_due = now - self._allowances_at >= _PULLS_PER_CHECK * run.interval
        definition = run.link.definition
        if not (is_due and definition.authorities) or definition.labels:
            return {}
        self._allowances_at = now
        source = await shake_hands(run.peer)
        if source.instance != self._source.instance or not source.allowances:
            return {}
        return await _allowed_here(run, source.allowances)

    @property
    def _filters(self) -> list[tuple[str, str]]:
        """The query parameters that keep the source from sending copies that would be refused."""
        policy = self._run.policy
        authorities = [("authority", each) for each in sorted(policy.authorities or ())]
        scope = [("scope", path) for path in policy.scope]
        return authorities + scope + [("type", each) for each in policy.types]

    async def _read(self, cursor: str, wait_seconds: float) -> AsyncGenerator[CopyPage]:
        """The pages of one answer of the feed; `BeginAgain` if it cannot go on from the cursor."""
        run = self._run
        read = copypages.labelled_changes if run.link.definition.labels else copypages.change_pages
        try:
            async for page in read(run, cursor, wait_seconds, self._filters):
                if page.copies or page.labelled or page.cursor not in (None, cursor):
                    yield page
        except CursorExpired as error:
            message = describe(error, run.peer.url)
            raise BeginAgain(message, loss=loss_told(error), error_class=class_of(error)) from error

    async def _catch_up(self, cursor: str) -> AsyncGenerator[CopyPage]:
        before, answers = "", 0
        while cursor != before:
            before, copies = cursor, 0
            async for page in self._read(cursor, 0):
                yield page
                cursor, copies = page.cursor or cursor, copies + len(page.copies)
            # A source may skip copies that the link does not want, but a stream of empty pages must
            # not keep the node busy.
            answers = 0 if copies else answers + 1
            if answers > _EMPTY_PAGES:
                await self._run.resources.timing.sleep(_EMPTY_PAGE_SECONDS)

    async def _wait(self, cursor: str) -> AsyncGenerator[CopyPage]:
        """Wait for changes, and read them."""
        run = self._run
        if self._by_events:
            if self._is_awake or await wait_for(run.wakeup, run.interval):
                async for page in self._stay_awake(cursor):
                    yield page
            return
        # Without a free place, the link polls at intervals, so that long polls leave connections
        # free.
        with run.resources.connections.place_to_wait() as has_place:
            if has_place:
                async for page in self._poll(cursor, min(run.interval, _LONG_POLL_SECONDS)):
                    yield page
                return
        await wait_for(run.wakeup, run.interval)
        self._has_polled = False

    async def _poll(self, cursor: str, seconds: float) -> AsyncGenerator[CopyPage]:
        run, loop = self._run, asyncio.get_running_loop()
        began, self._has_polled, copies = loop.time(), False, 0
        async with contextlib.aclosing(self._read(cursor, seconds)) as pages:

            async def first() -> CopyPage:
                return await anext(pages, CopyPage())

            page = await until_woken(first(), run.wakeup)
            if page is None:
                return
            yield page
            cursor, copies = page.cursor or cursor, len(page.copies)
            async for page in pages:
                yield page
                cursor, copies = page.cursor or cursor, copies + len(page.copies)
        if not copies and loop.time() - began < _SHORTEST_POLL_SECONDS:
            await run.resources.timing.sleep(min(seconds, _SHORTEST_POLL_SECONDS))
        if copies:
            async for page in self._stay_awake(cursor):
                yield page
        self._has_polled = not self._is_awake

    async def _stay_awake(self, cursor: str) -> AsyncGenerator[CopyPage]:
        """Read the feed as it grows, until nothing comes for a while or a retry is due."""
        run, loop = self._run, asyncio.get_running_loop()
        ends = loop.time() + run.interval
        self._is_awake = True
        while self._is_awake and run.requested == run.retried and loop.time() < ends:
            self._is_awake = False
            async for page in self._read(cursor, _AWAKE_SECONDS):
                yield page
                cursor = page.cursor or cursor
                self._is_awake |= bool(page.copies)

    async def _check_subscription(self, *, is_doubtful: bool = False) -> None:
        """Check the subscription that wakes the link: at first, at intervals, after missed events.

        A topic without brokers belongs to the cluster in this node's settings, whose credential is
        never sent to a source: only the operator of the source can subscribe the topic.
        """
        topic = self._run.link.definition.eventtopic
        if not self._by_events or (topic and not urlsplit(topic).netloc):
            return
        now = asyncio.get_running_loop().time()
        if is_doubtful or now - self._checked_at >= _PULLS_PER_CHECK * self._run.interval:
            self.subscription = await ensure_subscription(self._run, self.subscription)
            self._checked_at = now

    async def _fetch(self, origins: Sequence[Origin]) -> AsyncGenerator[CopyPage]:
        run = self._run
        if not origins:
            return
        allowance = Allowance.of(run.settings, copypages.COPIES_OF_ONE * len(origins))
        pages = copypages.pages_of(run.context, run.peer.fetch_lines(origins), allowance)
        async with contextlib.aclosing(pages):
            async for page in pages:
                # The cursor of an answer about single origins would skip the changes of all other
                # origins.
                page.cursor = page.behind = None
                page.is_last = False
                yield page


def _suspects_of(conflicts: Sequence[LinkConflict]) -> list[Origin]:
    """The possible origins of conflicts; the xid of a damaged copy may be its true origin."""
    found = {conflict.origin: None for conflict in conflicts}
    for conflict in conflicts:
        if conflict.verdict == Verdict.INVALID:
            found[Origin(conflict.origin.authority, conflict.xid)] = None
    return list(found)


async def _allowed_here(run: LinkRun, told: Mapping[str, str]) -> Mapping[str, str]:
    """The allowances of a relay that concern this node and are new.

    A relay deletes nothing in the name of an authority. The relay names the authorities whose lossy
    state it was allowed to follow, each with the digest of the question. A catalog behind the relay
    believes each allowance once, like the tombstones of the relay, but not for an authority with
    trusted keys or with a direct link.
    """
    async with run.database.acquire() as connection:
        known = await linklosses.read_allowances(connection)
        policy = await policy_within(connection, run.policy, told)
        trust = await read_trust(connection, told)
    direct = {name for each in policy.direct for name in each.authorities or ()}
    kept_out = direct | {policy.own, policy.sender}
    return {
        authority: digest
        for authority, digest in told.items()
        if known.get(authority) != digest
        and authority not in kept_out
        and (policy.authorities is None or authority in policy.authorities)
        and not trust.is_pinned(authority)
    }
