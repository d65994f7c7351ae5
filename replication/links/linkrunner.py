"""Runs one link: shakes hands with the source, copies everything once, then follows the feed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import structlog

from catalog.client import ClientError, CursorExpired, Refused
from catalog.model.entity import Origin
from catalog.model.errors import ServerBusy
from catalog.model.linkterms import TRUST_FIRST, State
from catalog.model.masking import counted
from catalog.store import linkconflicts, links
from catalog.store.copies import count_replicas
from catalog.store.database import wait_for
from catalog.store.linkconflicts import MOST_CONFLICTS
from catalog.store.links import Link, LinkReplaced
from catalog.supervisor import backoff_from
from replication.applying.deletionlimit import TooManyDeletions
from replication.applying.eviction import doubt_copies, drop_doubted, evict
from replication.applying.leaving import leave, leave_unlabelled
from replication.applying.readdressing import readdress_endpoints
from replication.applying.renaming import rename_groups
from replication.credentials.peeraccess import access_of
from replication.deciding.pinning import admitted, meet_claim, met
from replication.deciding.provenance import Policy
from replication.feed.confirmations import SAVE_SECONDS
from replication.feed.sourceloss import loss_told, why_lost
from replication.feed.wakeup import until_woken
from replication.links.linkresources import LinkResources
from replication.links.notifications import HINT_SECONDS, ensure_subscription
from replication.peers.handshake import cause_of, describe, shake_hands, why_own
from replication.peers.keyhistories import ask_for_keys
from replication.peers.linkbounds import TooMuchSent, too_many_copies
from replication.peers.linkerrors import ErrorClass, class_of, state_of
from replication.peers.trusting import trust_first
from replication.sources.labelledpull import bootstrap_labelled, pull_labelled
from replication.sources.pull import Brought, Flow, bootstrap, pull_once, retry_conflicts
from replication.sources.relayedallowances import follow_allowances
from replication.sources.resync import resynchronise

_log = structlog.get_logger(__name__)

_LONG_POLL_SECONDS = 25.0
# A subscription whose events come is asked for once in so many pulls.
_PULLS_PER_CHECK = 10
# A link that was woken reads the feed until nothing came for this long. While there are changes,
# its source wakes it more often, so it reads all of them as quickly as by pull.
_AWAKE_SECONDS = 2 * HINT_SECONDS
# A source that ignores the wait must not be asked in a tight loop.
_SHORTEST_POLL_SECONDS = 0.5
_EMPTY_PAGES, _EMPTY_PAGE_SECONDS = 20, 0.1
# Replicas are counted again after changes of one in so many of those that a link may have.
_MEASURED_AGAIN = 20


class SnapshotNeeded(ClientError):
    """The link has to begin with a complete copy again."""


class LinkRunner:
    """Follows one revision of a link until it is cancelled or the link is replaced.

    `wakeup` lets it read the feed at once. `subscription` is the id of the subscription at the
    source that wakes the link, if any.
    """

    def __init__(self, link: Link, resources: LinkResources) -> None:
        self.id = link.id
        self.revision = link.revision
        self.link = link
        self.wakeup = asyncio.Event()
        self.subscription = link.subscription
        self._resources = resources
        self._database = resources.context.database
        self._backoff = backoff_from(resources.context.settings)
        self._access = access_of(link, resources.context)
        self._peer = resources.peer_of(link, self._access)
        self._failures = link.failures
        self._retried_at = -resources.context.settings.pull_interval_seconds
        # How often conflicts were to be retried, and how often of these they were.
        self._requested = self._retried = 0
        # How often in a row copies came spoilt, and when everything may be copied for that again.
        self._spoilt, self._whole_after = 0, 0.0
        self._is_awake = self._has_dropped = False
        # Changes since the replicas were counted; they are counted first of all.
        self._unmeasured = resources.context.settings.link_copies
        self._probation = contextlib.AsyncExitStack()
        self._is_known_current = self._has_polled = False
        self._may_conflict, self._checked_at = True, float("-inf")
        self._allowances_at = float("-inf")

    def reconsider(self) -> None:
        """Retry conflicts soon."""
        self._requested += 1
        self.wakeup.set()

    async def run(self) -> None:
        """Follow the source; after failures, wait longer and longer."""
        while True:
            try:
                async with self._probation:
                    if self._failures:
                        share = self._resources.connections.probation
                        await self._probation.enter_async_context(share.hold())
                    await self._follow()
            except LinkReplaced:
                # The next comparison starts another runner if there is a link of this id.
                self.revision = -1
                return
            # The node's own fault is not counted against the source.
            except ServerBusy:
                await self._database.recovered()
            except TooMuchSent as error:
                await self._stop(error)
            except ClientError as error:
                await self._fail(describe(error, self._peer.url, self.id), error)
            # An unexpected error of one link must not stop the others.
            except Exception as error:
                _log.exception("link failed", link=self.id)
                await self._fail(f"{type(error).__name__}: {error}", None)

    async def _follow(self) -> None:
        await self._drop_replicas()
        await self._await_permission()
        flow, cursor = await self._shake_hands()
        self._has_polled, self._checked_at = False, float("-inf")
        try:
            await self._reconsider(flow.link, flow.policy)
            flow = reconsidered(flow)
            if cursor is None:
                cursor = await self._copy(flow)
            await self._drop_doubted(flow)
            await self._leave_unlabelled(flow)
            while True:
                cursor = await self._follow_allowances(flow, cursor)
                cursor = await self._advance(flow, cursor)
        except (CursorExpired, SnapshotNeeded) as error:
            loss = loss_told(error)
            async with self._database.transaction() as connection:
                expired = class_of(error) if isinstance(error, CursorExpired) else None
                await links.forget_cursor(connection, self.link, expired, loss=loss)
            self.link = replace(self.link, cursor=None)
            event = "lost data" if loss else "resynchronise"
            await self._remember(event, describe(error, self._peer.url))
            await self._resources.timing.sleep(self._delay(1))
        except TooManyDeletions:
            # The question is stored: the link waits for its answer when it begins again.
            return

    async def _await_permission(self) -> None:
        """Wait until an operator answers the question of the link, if it asks one."""
        while True:
            self.wakeup.clear()
            async with self._database.acquire() as connection:
                link = await links.get(connection, self.id)
            if link is None or link.revision != self.revision:
                raise LinkReplaced(self.id)
            if link.question is None:
                return
            await wait_for(self.wakeup, self._resources.context.settings.pull_interval_seconds)

    async def _drop_replicas(self) -> None:
        """Drop what an operator asked to be dropped, whether the source answers or not."""
        if self._has_dropped or not (self.link.drops or self.link.ends):
            return
        number = await evict(self._resources.context, self.link)
        async with self._database.transaction() as connection:
            if self.link.ends:
                await links.delete(connection, self.id)
            else:
                await links.note_dropped(connection, self.link)
        if self.link.ends:
            raise LinkReplaced(self.id)
        self._has_dropped = True
        await self._remember("dropped", counted(number, "replicas"))

    async def _reconsider(self, link: Link, policy: Policy) -> None:
        """Let go what the link selects no more, and give the rest its names and addresses."""
        if link.former is None:
            return
        if number := await leave(self._resources.context, link, policy):
            await self._remember("left", f"{counted(number, 'replicas')} no longer selected")
        if number := await rename_groups(self._resources.context, link, policy):
            await self._remember("renamed", counted(number, "groups"))
        if number := await readdress_endpoints(self._resources.context, link, policy):
            await self._remember("readdressed", counted(number, "endpoints"))
        async with self._database.transaction() as connection:
            await links.note_reconsidered(connection, self.link)

    async def _copy(self, flow: Flow) -> str:
        """Bring what differs, or everything once; return the cursor to go on from.

        What is here of the source's authority is doubted first, and replaced or dropped if an
        operator has set up the link since the last copy: a source that lost data by itself does
        not delete it here, too.
        """
        await self._report("copying", copies=flow.source.entities)
        found = None if flow.link.copiesall else await resynchronise(flow)
        if found is not None:
            brought = found.brought
            rows = max(found.rows, found.differing)  # Of these, the source may have lost some.
            detail = f"{found.differing} of {counted(rows, 'origins')} differ: {brought.text}"
            await self._remember("compared", detail)
            return brought.cursor
        await doubt_copies(flow.context, flow.link, flow.policy, overruled=flow.link.doubts)
        brought = await (bootstrap_labelled if flow.link.definition.labels else bootstrap)(flow)
        await self._remember("copied", brought.text)
        return brought.cursor

    async def _follow_allowances(self, flow: Flow, cursor: str) -> str:
        """Follow a relay, now and then, in what it was allowed to lose; return the cursor."""
        now = asyncio.get_running_loop().time()
        pause = _PULLS_PER_CHECK * self._resources.context.settings.pull_interval_seconds
        if now - self._allowances_at < pause or not flow.link.definition.authorities:
            return cursor
        self._allowances_at = now
        source = await shake_hands(self._peer)
        if source.instance != flow.source.instance:
            return cursor
        followed = await follow_allowances(replace(flow, source=source))
        for authority, brought in followed.items():
            cursor, self._is_known_current = brought.cursor, False
            await self._remember("allowed", f"at its source, about {authority}: {brought.text}")
        return cursor

    async def _leave_unlabelled(self, flow: Flow) -> None:
        if number := await leave_unlabelled(self._resources.context, flow.link, flow.policy):
            await self._remember("left", f"{counted(number, 'replicas')} without the labels")

    async def _drop_doubted(self, flow: Flow) -> None:
        if number := await drop_doubted(flow.context, flow.link, flow.policy):
            await self._remember("dropped", f"{counted(number, 'replicas')} not at their authority")

    async def _shake_hands(self) -> tuple[Flow, str | None]:
        """Ask the source for its identity; a cursor is valid only for the instance that gave it."""
        source = await shake_hands(self._peer, count=self.link.cursor is None)
        if why_own(self._resources.context, source):
            raise ClientError(
                f"{self._peer.url} is this node itself, or claims its authority.",
                "Let the link lead to another catalog.",
            )
        async with self._database.transaction() as connection:
            link = await links.get(connection, self.id)
            if link is None:
                raise LinkReplaced(self.id)
            await meet_claim(connection, link, source.authority)
        if TRUST_FIRST in link.definition.trust:
            await trust_first(self._resources.context, self._peer, source.authority)
        authorities = admitted(link.definition, source.authority)
        await ask_for_keys(
            self._resources.context, self._peer, authorities, sender=source.authority
        )
        async with self._database.transaction() as connection:
            loss = why_lost(link, source.instance)
            cursor = await links.meet(
                connection, self.link, source.instance, source.authority, source.base, loss=loss
            )
        if link.instance not in (None, source.instance):
            detail = f"the source is {source.instance} now, it was {link.instance}"
            await self._remember("another instance", detail)
        flow = Flow(
            context=self._resources.context,
            link=met(link, source.instance, source.authority, loss),
            peer=self._peer,
            source=source,
            gate=self._resources.gate,
        )
        return flow, cursor

    async def _advance(self, flow: Flow, cursor: str) -> str:
        """Catch up, then wait for changes; return the cursor to go on from."""
        was_woken = self.wakeup.is_set() or self._is_awake
        self.wakeup.clear()
        await self._check_subscription(flow)
        await self._check_held(flow)
        begin = cursor
        if not self._has_polled or was_woken:
            cursor = await self._catch_up(flow, cursor)
        if cursor != begin and not was_woken:
            await self._check_subscription(flow, is_doubtful=True)
        await self._retry_conflicts(flow)
        await self._report_current()
        seconds = self._resources.context.settings.pull_interval_seconds
        if flow.link.definition.mode == "events":
            if self._is_awake or await wait_for(self.wakeup, seconds):
                cursor = await self._stay_awake(flow, cursor)
            return cursor
        with self._resources.connections.place_to_wait() as has_place:
            if has_place:
                return await self._poll(flow, cursor, min(seconds, _LONG_POLL_SECONDS))
        await wait_for(self.wakeup, seconds)
        self._has_polled = False
        return cursor

    async def _catch_up(self, flow: Flow, cursor: str) -> str:
        before, pages = "", 0
        while cursor != before:
            brought = await self._pull(flow, cursor, 0)
            self._note(brought, cursor)
            before, cursor = cursor, brought.cursor
            # A source may skip what the link does not want, but not keep the node busy with it.
            pages = 0 if brought.copies else pages + 1
            if pages > _EMPTY_PAGES:
                await self._resources.timing.sleep(_EMPTY_PAGE_SECONDS)
            await self._check_held(flow)
        return cursor

    async def _check_subscription(self, flow: Flow, *, is_doubtful: bool = False) -> None:
        """Make sure of the subscription that wakes the link: at first, now and then, and if the
        feed had changes that no event told."""
        if flow.link.definition.mode != "events":
            return
        now = asyncio.get_running_loop().time()
        pause = _PULLS_PER_CHECK * self._resources.context.settings.pull_interval_seconds
        if is_doubtful or now - self._checked_at >= pause:
            self.subscription = await ensure_subscription(flow, self.subscription)
            self._checked_at = now

    def _note(self, brought: Brought, before: str) -> None:
        """Note what came with a page, which was asked for with the cursor `before`."""
        self._unmeasured += brought.changes
        self._may_conflict |= brought.conflicts > 0
        self._is_known_current &= not brought.copies and brought.cursor == before

    async def _report_current(self) -> None:
        """Say that the link is current; together with others if it has been so before."""
        self._failures = 0
        if self._is_known_current and not self._peer.slowed:
            self._resources.confirmations.add(self.link)
        else:
            await self._report("current", currentat=datetime.now(UTC))

    async def _pull(self, flow: Flow, cursor: str, wait_seconds: float) -> Brought:
        """Apply a page of the source's feed."""
        pull = pull_labelled if flow.link.definition.labels else pull_once
        return await pull(flow, cursor, wait_seconds=wait_seconds)

    async def _check_held(self, flow: Flow) -> None:
        """Count the replicas of a link's authorities, now and then.

        Raises:
            TooMuchSent
        """
        limits = self._resources.context.settings
        if self._unmeasured < limits.link_copies // _MEASURED_AGAIN:
            return
        policy = flow.policy
        async with self._database.acquire() as connection:
            held = await count_replicas(connection, policy.authorities, own=policy.own)
        if held > limits.link_copies:
            raise too_many_copies(limits, "Of its authorities, this node has")
        self._unmeasured = 0

    async def _stay_awake(self, flow: Flow, cursor: str) -> str:
        """Read the feed as it grows, until nothing came for a while or a retry is due."""
        loop = asyncio.get_running_loop()
        reported = loop.time()
        ends = reported + self._resources.context.settings.pull_interval_seconds
        self._is_awake = True
        while self._is_awake and self._requested == self._retried and loop.time() < ends:
            brought = await self._pull(flow, cursor, _AWAKE_SECONDS)
            self._note(brought, cursor)
            cursor, self._is_awake = brought.cursor, brought.copies > 0
            await self._check_held(flow)
            if self._is_awake and loop.time() - reported >= SAVE_SECONDS:
                reported = loop.time()
                await self._report("current", currentat=datetime.now(UTC))
        return cursor

    async def _poll(self, flow: Flow, cursor: str, seconds: float) -> str:
        loop = asyncio.get_running_loop()
        began, self._has_polled = loop.time(), False
        brought = await until_woken(self._pull(flow, cursor, seconds), self.wakeup)
        if brought is None:
            return cursor
        if not brought.copies and loop.time() - began < _SHORTEST_POLL_SECONDS:
            await self._resources.timing.sleep(min(seconds, _SHORTEST_POLL_SECONDS))
        self._note(brought, cursor)
        cursor = brought.cursor
        if brought.copies:
            cursor = await self._stay_awake(flow, cursor)
        self._has_polled = not self._is_awake
        return cursor

    async def _retry_conflicts(self, flow: Flow) -> None:
        """Retry conflicts, whose causes may be gone, or all copies if not all were recorded."""
        now, requested = asyncio.get_running_loop().time(), self._requested
        interval = self._resources.context.settings.pull_interval_seconds
        is_early = not self._may_conflict or now - self._retried_at < interval
        if requested == self._retried and is_early:
            return
        self._retried_at = now
        retried = await retry_conflicts(flow)
        self._may_conflict = retried.number > 0
        self._is_known_current &= not self._may_conflict
        is_requested, self._retried = requested != self._retried, requested
        if is_requested and retried.number >= MOST_CONFLICTS:
            raise SnapshotNeeded("More was refused than is recorded.")
        await self._replace_strays(retried.strays)

    async def _replace_strays(self, strays: Sequence[Origin]) -> None:
        """Copy everything again if some copies came spoilt, and nobody knows what they were of.

        Where that happens again and again, everything is copied less and less often.
        """
        now = asyncio.get_running_loop().time()
        if not strays:
            self._spoilt = 0
        elif now >= self._whole_after:
            self._spoilt += 1
            pause = self._backoff.delay(self._spoilt, self._resources.timing.random)
            self._whole_after = now + pause
            async with self._database.transaction() as connection:
                await linkconflicts.drop(connection, self.id, strays)
            raise SnapshotNeeded("Copies came spoilt, and what they were of is not known.")

    async def _stop(self, error: TooMuchSent) -> None:
        """Do nothing more until the link is replaced or the node restarts with other limits.

        To try again would bring as much again.
        """
        message = describe(error, self._peer.url)
        _log.warning("link stopped", link=self.id, error=message)
        # Who sees that it has stopped finds that in its history, too.
        await self._remember("stopped", message)
        await self._report("refused", error=message, error_class=class_of(error))
        await asyncio.Event().wait()

    async def _fail(self, message: str, error: ClientError | None) -> None:
        self._failures += 1
        if self._failures == 1 and error is not None:
            _log.warning("link interrupted", link=self.id, cause=cause_of(error))
        # What a token permits may be another when it is fetched again.
        if isinstance(error, Refused):
            self._access.forget()
        seconds = self._delay(self._failures, 0.0 if error is None else error.retry_after)
        # While the database is away, the state cannot be saved.
        with contextlib.suppress(ServerBusy, TimeoutError):
            await self._report(
                state_of(error),
                error=message[:1000],
                error_class=class_of(error),
                nextattemptat=datetime.now(UTC) + timedelta(seconds=seconds),
            )
        await self._resources.timing.sleep(seconds)

    def _delay(self, failures: int, at_least: float = 0.0) -> float:
        """Seconds to wait after so many failures."""
        return self._backoff.delay(failures, self._resources.timing.random, at_least=at_least)

    async def _report(
        self,
        state: State,
        *,
        error: str | None = None,
        currentat: datetime | None = None,
        nextattemptat: datetime | None = None,
        error_class: ErrorClass | None = None,
        copies: int | None = None,
    ) -> None:
        """Store the state of the link; see `links.save_state`."""
        slowed, self._peer.slowed = self._peer.slowed, 0
        async with self._database.acquire() as connection:
            await links.save_state(
                connection,
                self.link,
                state,
                failures=self._failures,
                error=error,
                currentat=currentat,
                nextattemptat=nextattemptat,
                error_class=error_class,
                copies=copies,
                too_many=slowed,
            )
        self._is_known_current = state == "current"
        if self._is_known_current:
            await self._probation.aclose()

    async def _remember(self, event: str, detail: str) -> None:
        _log.info("link", link=self.id, event_=event, detail=detail)
        async with self._database.acquire() as connection:
            await links.remember(connection, self.link, datetime.now(UTC), event, detail[:500])


def reconsidered(flow: Flow) -> Flow:
    """The flow of a link for which nothing is left to go."""
    if not flow.link.former:
        return flow
    return replace(flow, link=replace(flow.link, former=()))
