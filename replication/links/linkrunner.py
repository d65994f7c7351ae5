"""Runs one link: meets the peer, copies the catalog once, then copies every change and compares."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from catalog.client import ClientError, Refused
from catalog.model.errors import ServerBusy
from catalog.model.linkterms import State
from catalog.model.masking import counted
from catalog.store import links
from catalog.store.database import wait_for
from catalog.store.links import Link, LinkReplaced
from catalog.supervisor import backoff_from
from replication.applying.deletionlimit import TooManyDeletions
from replication.deciding.provenance import met
from replication.peers.linkbounds import TooMuchSent
from replication.peers.linkerrors import ErrorClass, cause_of, class_of, describe, state_of
from replication.store import linkconflicts, linklosses
from replication.store.linkconflicts import MOST_CONFLICTS
from replication.transfer import linkrun
from replication.transfer.comparison import DifferingOrigin
from replication.transfer.transfer import LinkPage, MakeTransfer

_log = structlog.get_logger(__name__)

# The seconds before a target that waits for an operator's answer is asked again.
_ANSWER_SECONDS = 2.0
# The longest pause, in seconds, between costly retries without success.
_LONGEST_PAUSE = 3600.0
_CONFLICTS_AT_ONCE = 1000
_MOST_TOLD = 3
# The share of the interval of comparisons for which fingerprints serve several comparisons.
_SHARED = 1 / 15


class LinkRunner:
    """Runs one revision of a link until it is cancelled or the link is replaced."""

    def __init__(self, run: linkrun.LinkRun, make: MakeTransfer) -> None:
        self.id = run.link.id
        self.revision = run.link.revision
        self.link_run = run
        self._make = make
        self._transfer = make(run)
        self._database = run.database
        self._timing = run.resources.timing
        self._backoff = backoff_from(run.settings)
        self._probation = contextlib.AsyncExitStack()
        self._has_dropped = False
        # The last question of the target to its operator.
        self._question = ""
        # The time of the next retry of conflicts, and the number of retries in a row without a
        # change.
        self._may_conflict, self._retry_at, self._fruitless = True, float("-inf"), 0
        # The number of checks in a row with damaged copies, and the earliest time of the next
        # complete copy for that reason.
        self._spoilt, self._whole_after = 0, 0.0
        # The last stored state, and whether no copy has come since the state was `current`.
        self._state, self._is_known_current = run.link.state, False
        # The time since which pages have copies, without a stored state; `None` after a page
        # without copies.
        self._busy_since: float | None = None

    @property
    def link(self) -> Link:
        return self.link_run.link

    @property
    def wakeup(self) -> asyncio.Event:
        return self.link_run.wakeup

    @property
    def subscription(self) -> str | None:
        """The id of the subscription at the source that wakes the link, or `None`."""
        return self._transfer.source.subscription

    def reconsider(self) -> None:
        """Retry conflicts soon."""
        self.link_run.requested += 1
        self.wakeup.set()

    async def run(self) -> None:
        """Copy changes until the link is replaced; after failures, wait longer and longer."""
        while True:
            try:
                # A link with failures holds a place in a limited share until the link is current
                # again, so that failing peers leave connections for the remaining links.
                async with self._probation:
                    if self.link_run.failures:
                        share = self.link_run.resources.connections.probation
                        await self._probation.enter_async_context(share.hold())
                    await self._contact()
            except LinkReplaced:
                # No stored revision is -1, so the next comparison with the stored links starts a
                # new runner if the link still exists.
                self.revision = -1
                return
            # A fault of the node itself is not counted as a failure of the peer.
            except ServerBusy:
                await self._database.recovered()
            # The question is stored already: the next contact begins with the wait for an answer.
            except TooManyDeletions:
                continue
            except TooMuchSent as error:
                await self._stop(error)
            except linkrun.BeginAgain as error:
                await self._begin_again(error)
            except linkrun.OutOfStep as error:
                await self.link_run.remember("out of step", error.message)
                await self._timing.sleep(self._delay(1))
            except linkrun.AwaitsAnswer as error:
                await self._await_answer(error)
            except ClientError as error:
                await self._fail(describe(error, self.link.definition.peer, self.id), error)
            # An unexpected error of one link must not stop the remaining links.
            except Exception as error:
                _log.exception("link failed", link=self.id)
                await self._fail(f"{type(error).__name__}: {error}", None)

    async def _contact(self) -> None:
        """Meet the peer, and copy until a failure."""
        transfer = self._transfer
        await self._drop()
        await self._await_permission()
        async with transfer.peer.opened():
            await transfer.peer.meet()
            saved = await self._identify()
            start = await transfer.peer.resume(saved)
            await transfer.sink.reconsider()
            cursor, self._may_conflict = start.cursor, True
            if not start.is_copied:
                cursor = await self._copy(cursor)
            async with (
                self._compared_periodically(),
                contextlib.aclosing(transfer.source.changes(cursor)) as pages,
            ):
                async for page in pages:
                    await self._note(page, await transfer.sink.apply(page))

    async def _drop(self) -> None:
        """Drop the replicas that an operator asked to drop, even if the peer does not answer."""
        link = self.link
        if self._has_dropped or not (link.drops or link.ends):
            return
        dropped = await self._transfer.sink.drop()
        async with self._database.transaction() as connection:
            if link.ends:
                await links.delete(connection, self.id)
            else:
                await links.note_dropped(connection, link)
        if link.ends:
            raise LinkReplaced(self.id)
        self._has_dropped = True
        await self.link_run.remember("dropped", dropped)

    async def _await_permission(self) -> None:
        """Wait until an operator answers the question of the link, if the link has a question."""
        while True:
            # Cleared before the read, so that an answer between read and wait is not missed.
            self.wakeup.clear()
            async with self._database.acquire() as connection:
                link = await links.get(connection, self.id)
            if link is None or link.revision != self.revision:
                raise LinkReplaced(self.id)
            if link.question is None:
                return
            await wait_for(self.wakeup, self.link_run.interval)

    async def _identify(self) -> str | None:
        """Store the identity of the peer; return the cursor, if it belongs to the same instance."""
        async with self._database.transaction() as connection:
            # Read again, since an operator may have changed the link while the peer was asked.
            before = await links.get(connection, self.id)
            if before is None or before.revision != self.revision:
                raise LinkReplaced(self.id)
            found = await self._transfer.peer.identify(connection, before)
            if found is None:
                self.link_run.link = before
                return before.cursor
            saved = await links.meet(
                connection, before, found.instance, found.authority, found.base, loss=found.loss
            )
        self.link_run.link = met(before, found.instance, found.authority, found.loss)
        if found.changed and before.instance not in (None, found.instance):
            await self.link_run.remember("another instance", found.changed)
        return saved

    async def _copy(self, cursor: Any) -> Any:
        """Copy the differing entities, or the whole catalog; return the cursor to continue from."""
        run, transfer = self.link_run, self._transfer
        await self._report("copying", copies=transfer.peer.expected)
        # An interrupted complete copy continues from the cursor, without a new comparison.
        found = await transfer.compare(run.link) if cursor is None else None
        cursor, total = await transfer.copy(found, cursor)
        await run.remember(*transfer.told(found, total))
        return cursor

    async def _note(self, page: LinkPage, applied: linkrun.Applied) -> None:
        """Note an applied page; after the last page, retry conflicts and store the state."""
        run = self.link_run
        self._may_conflict |= applied.conflicts > 0
        self._is_known_current &= page.cursor is None and not applied.copies
        if applied.changes:
            # The changes may have removed the cause of a conflict.
            self._fruitless = 0
            self._retry_at = min(self._retry_at, asyncio.get_running_loop().time() + run.interval)
        if not page.is_last:
            return
        await self._follow_allowances()
        await self._retry()
        run.failures = 0
        if page.is_behind:
            await self._report("behind")
        elif self._is_known_current and page.currentat is None and not run.peer.slowed:
            self._busy_since = None
            run.resources.confirmations.add(run.link)
        elif not applied.copies or self._state != "current" or self._is_busy():
            await self._report("current", currentat=page.currentat or datetime.now(UTC))

    def _is_busy(self) -> bool:
        """Whether pages have had copies for so long that the state has to be stored again.

        Pages with copies save progress with the cursor, so the state is stored once in a while.
        """
        now = asyncio.get_running_loop().time()
        self._busy_since = now if self._busy_since is None else self._busy_since
        return now - self._busy_since >= linkrun.SAVE_SECONDS

    async def _follow_allowances(self) -> None:
        """Delete the entities that the peer was allowed to lose, after a comparison."""
        for authority, digest in (await self._transfer.peer.allowances()).items():
            told = self.link_run.about(authority)
            transfer = self._make(told)
            found = await transfer.compare(told.link)
            if found is None:
                continue
            _, total = await transfer.copy(found)
            async with self._database.transaction() as connection:
                await linklosses.follow_allowance(connection, authority, digest)
            self._is_known_current = False
            detail = f"at its source, about {authority}: {total.text}"
            await self.link_run.remember("allowed", detail)

    async def _retry(self) -> None:
        """Retry conflicts, whose causes may be gone: on request, and once in a while."""
        run, now = self.link_run, asyncio.get_running_loop().time()
        # Read before the retry, so that a request during the retry leads to a further retry.
        requested, is_requested = run.requested, run.requested != run.retried
        if not is_requested and (not self._may_conflict or now < self._retry_at):
            return
        total = linkrun.Applied()
        async with contextlib.aclosing(
            self._transfer.source.again(is_requested=is_requested)
        ) as pages:
            async for page in pages:
                total.add(await self._transfer.sink.apply(page))
        async with self._database.acquire() as connection:
            self._may_conflict = bool(await linkconflicts.load(connection, self.id, None, 1))
        run.retried = requested
        self._is_known_current &= not self._may_conflict
        is_fruitless = self._may_conflict and not total.changes
        self._fruitless = min(self._fruitless + 1, 16) if is_fruitless else 0
        growth = 2**self._fruitless if self._transfer.peer.has_costly_retries else 1
        self._retry_at = now + min(run.interval * growth, max(run.interval, _LONGEST_PAUSE))
        await self._replace_strays()

    async def _replace_strays(self) -> None:
        """Copy the whole catalog again after damaged copies without a readable origin.

        If damaged copies keep coming, the pauses between complete copies grow.
        """
        now, strays = asyncio.get_running_loop().time(), self.link_run.strays
        if not strays:
            self._spoilt = 0
        elif now >= self._whole_after:
            self._spoilt += 1
            self._whole_after = now + self._delay(self._spoilt)
            async with self._database.transaction() as connection:
                await linkconflicts.drop(connection, self.id, list(strays))
            raise linkrun.BeginAgain("Copies came spoilt, and what they were of is not known.")

    async def _begin_again(self, error: linkrun.BeginAgain) -> None:
        """Forget the cursor, so that the whole catalog is compared or copied again."""
        async with self._database.transaction() as connection:
            await links.forget_cursor(connection, self.link, error.error_class, loss=error.loss)
        self.link_run.link = replace(self.link, cursor=None)
        await self.link_run.remember("lost data" if error.loss else "resynchronise", error.message)
        await self._timing.sleep(self._delay(1))

    async def _await_answer(self, error: linkrun.AwaitsAnswer) -> None:
        """Wait briefly before the target is asked again for the answer of its operator.

        The wait does not count as a failure, so that the answer takes effect soon.
        """
        self.link_run.failures = 0
        is_new, self._question = error.message != self._question, error.message
        if is_new:
            _log.warning("link waits for the answer to its target's question", link=self.id)
        await self._report(
            "refused",
            error=error.message[:1000],
            error_class=class_of(error.refusal) if is_new else None,
        )
        await self._timing.sleep(_ANSWER_SECONDS)

    async def _stop(self, error: TooMuchSent) -> None:
        """Stop until the link is replaced or the node restarts with new limits.

        A new attempt would bring the same amount of data again.
        """
        message = describe(error, self.link.definition.peer)
        _log.warning("link stopped", link=self.id, error=message)
        # The event is stored before the state, so that a reader of the state finds the event.
        await self.link_run.remember("stopped", message)
        await self._report("refused", error=message, error_class=class_of(error))
        await asyncio.Event().wait()

    async def _fail(self, message: str, error: ClientError | None) -> None:
        run = self.link_run
        run.failures += 1
        if run.failures == 1 and error is not None:
            _log.warning("link interrupted", link=self.id, cause=cause_of(error))
        # A new token may have more rights, so a refused token is not used again.
        if isinstance(error, Refused):
            run.access.forget()
        seconds = self._delay(run.failures, 0.0 if error is None else error.retry_after)
        # While the database is away, the state cannot be saved.
        with contextlib.suppress(ServerBusy, TimeoutError):
            await self._report(
                state_of(error),
                error=message[:1000],
                error_class=class_of(error),
                nextattemptat=datetime.now(UTC) + timedelta(seconds=seconds),
            )
        await self._timing.sleep(seconds)

    def _delay(self, failures: int, at_least: float = 0.0) -> float:
        """The seconds to wait after a number of failures."""
        return self._backoff.delay(failures, self._timing.random, at_least=at_least)

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
        run = self.link_run
        slowed, run.peer.slowed = run.peer.slowed, 0
        async with self._database.acquire() as connection:
            await links.save_state(
                connection,
                run.link,
                state,
                failures=run.failures,
                error=error,
                currentat=currentat,
                nextattemptat=nextattemptat,
                error_class=error_class,
                copies=copies,
                too_many=slowed,
            )
        self._state, self._busy_since = state, None
        self._is_known_current = state == "current"
        if self._is_known_current:
            await self._probation.aclose()

    @contextlib.asynccontextmanager
    async def _compared_periodically(self) -> AsyncIterator[None]:
        """Compare the link with its peer by digests while the context is open; repair nothing."""
        if not self.link_run.settings.comparison_interval_seconds:
            yield
            return
        comparing = asyncio.create_task(self._compare_for_ever())
        try:
            yield
        finally:
            comparing.cancel()
            # `wait` does not raise the CancelledError of the task, which would end the link's run.
            await asyncio.wait([comparing])

    async def _compare_for_ever(self) -> None:
        interval, random = self.link_run.settings.comparison_interval_seconds, self._timing.random
        # A random delay, since the links of a node start together, and hundreds may share a source.
        await asyncio.sleep(interval * random.random())
        while True:
            try:
                found = await self._lasting_differences(interval * _SHARED)
                if found is not None:
                    await self._tell_differences(found)
            except (ClientError, ServerBusy) as error:
                _log.info("link not compared", link=self.id, cause=str(error))
            # An unexpected error in one comparison must not end the later comparisons of the link.
            except Exception:
                _log.exception("comparison failed", link=self.id)
            # A random share keeps the links of one source from comparing at the same time.
            await asyncio.sleep(interval * (0.9 + 0.2 * random.random()))

    async def _lasting_differences(self, max_age: float) -> Collection[DifferingOrigin] | None:
        """The differences that two comparisons find; `None` if nothing can be compared now.

        A change under way shows up in the first comparison only, because the link has the interval
        of its pulls to bring the change before the second comparison.

        Args:
            max_age: the age in seconds of fingerprints that the first comparison may use, since
                hundreds of links may compare with one catalog.
        """
        if self._state != "current":
            return None
        first = await self._differences(max_age)
        if not first:
            return first
        await asyncio.sleep(self.link_run.interval)
        again = await self._differences(0.0)
        return first & again if again is not None and self._state == "current" else None

    async def _differences(self, max_age: float) -> frozenset[DifferingOrigin] | None:
        """The differences without the conflicts of the link, which operators see already."""
        found = await self._transfer.peer.differences(max_age)
        if not found:
            return None if found is None else frozenset()
        parts = self.link_run.conflicts(_CONFLICTS_AT_ONCE)
        conflicts = {conflict.origin async for part in parts for conflict in part}
        # A link stores no more conflicts, so unstored ones may be among the differences.
        if len(conflicts) >= MOST_CONFLICTS:
            return None
        return frozenset(each for each in found if each.origin not in conflicts)

    async def _tell_differences(self, found: Collection[DifferingOrigin]) -> None:
        """Store the number of entities that differ; a change of the number is an event."""
        run, number = self.link_run, len(found)
        async with self._database.acquire() as connection:
            before = await links.save_comparison(connection, run.link, datetime.now(UTC), number)
        if number == before:
            return
        if not found:
            told = "All entities agree with those of the other catalog again."
            return await run.remember("agrees", told)
        _log.warning("link differs from its peer", link=self.id, entities=number)
        first = sorted(found, key=lambda each: (each.origin.authority, each.origin.xid))
        shown = ", ".join(str(each) for each in first[:_MOST_TOLD])
        more = f" and {number - _MOST_TOLD} more" if number > _MOST_TOLD else ""
        advice = f"`concord link reset {self.id}` brings what differs."
        await run.remember("differs", f"{counted(number, 'entities')}: {shown}{more}. {advice}")
