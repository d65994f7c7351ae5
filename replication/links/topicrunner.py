"""Runs one link that follows a topic, to which another catalog publishes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from catalog.client import ClientError
from catalog.context import Context
from catalog.model.concorderrors import SourceUnusable
from catalog.model.digest import DIGEST_VERSION
from catalog.model.masking import counted
from catalog.operations.links import FoundCatalog
from catalog.operations.peers import Handshake
from catalog.store import links
from catalog.store.links import LinkDefinition, LinkReplaced
from replication.applying.deletionlimit import TooManyDeletions
from replication.applying.eviction import doubt_copies, drop_doubted
from replication.deciding.pinning import meet_claim, met, policy_of
from replication.feed.sourceloss import why_lost
from replication.feed.wakeup import until_woken
from replication.links.linkrunner import LinkRunner, reconsidered
from replication.peers.handshake import why_own
from replication.sources.pull import Brought, Flow
from replication.sources.topicaddress import TopicLost, TopicUnusable, address_of
from replication.sources.topiccursor import TopicPlace
from replication.sources.topicflow import TopicFlow, current_at
from replication.sources.topicmarks import newest_mark
from replication.sources.topicrecords import Mark

if TYPE_CHECKING:
    from replication.sources.topic import Topic, TopicBounds

_REPORT_SECONDS = 1.0
_LONGEST_WAIT = 20.0
# A wait that ended earlier was ended by an operator.
_WHOLE_WAIT = 0.9
# Reading a whole topic again for the same conflicts is done less and less often.
_LONGEST_PAUSE = 3600.0
_WRITTEN_ANEW = "its source has written the topic anew"
_FORCE = "If it is going to publish later, add the link with `?force` (`--force`)."


class TopicRunner(LinkRunner):
    """Reads the topic of a link from its beginning, then goes on as it grows."""

    _again_at = 0.0
    _fruitless = 0
    _copied = 0

    async def _follow(self) -> None:
        # Kafka is an extra.
        from replication.sources.topic import open_topic

        await self._drop_replicas()
        await self._await_permission()
        settings = self._resources.context.settings
        address = address_of(self.link.definition.source, settings)
        try:
            async with open_topic(address, settings) as topic:
                flow = await self._meet_source(topic)
                await self._read(flow)
        except TopicLost as error:
            async with self._database.transaction() as connection:
                await links.forget_cursor(connection, self.link, loss=error.loss)
            await self._remember_anew(error.message, error.loss)
            await self._resources.timing.sleep(self._delay(1))

    async def _meet_source(self, topic: Topic) -> TopicFlow:
        """Learn from the newest mark who publishes, and where to go on."""
        context = self._resources.context
        mark, marked, bounds = await read_state(topic, self.link.authority)
        source = _identity_in(mark)
        if fault := why_own(context, source):
            raise ClientError(
                f"{self._peer.url} cannot be followed: {fault}.", "Name another topic."
            )
        async with self._database.transaction() as connection:
            link = await links.get(connection, self.id)
            if link is None:
                raise LinkReplaced(self.id)
            await meet_claim(connection, link, source.authority)
            before = _place_in(link.cursor)
            is_anew = before is not None and before.publication != mark.publication
            loss = why_lost(link, source.instance) or (mark.loss if is_anew else "")
            cursor = await links.meet(
                connection, self.link, source.instance, source.authority, None, loss=loss
            )
        if link.instance not in (None, source.instance):
            detail = f"the source is {source.instance} now, it was {link.instance}"
            await self._remember("another instance", detail)
        place = _place_in(cursor)
        if place is not None and place.publication != mark.publication:
            await self._remember_anew(_WRITTEN_ANEW, loss)
            place = None
        if place is None:
            _check_beginning(mark, bounds)
            place = TopicPlace(publication=mark.publication, offsets=mark.begins)
            own = context.database.node.authority
            policy = policy_of(link.definition, own=own, source=source.authority)
            await doubt_copies(context, self.link, policy, overruled=False)
        flow = TopicFlow(
            flow=Flow(
                context=context,
                link=met(link, source.instance, source.authority, loss),
                peer=self._peer,
                source=source,
                gate=self._resources.gate,
            ),
            topic=topic,
            begins=mark.begins,
            place=place,
        )
        if marked < place.offsets[0]:
            flow.mark, flow.marked = mark, marked
        return flow

    async def _read(self, flow: TopicFlow) -> None:
        """Read up to the end, then wait for more, for ever."""
        try:
            await self._reconsider(flow.flow.link, flow.flow.policy)
            flow.flow = reconsidered(flow.flow)
            while True:
                self.wakeup.clear()
                if flow.is_first:
                    await self._report("copying")
                await self._read_on(flow)
                self._check_publication(flow)
                if not flow.is_first:
                    await self._retry(flow)
                elif flow.mark is not None and flow.mark.position is not None:
                    await self._conclude_copy(flow)
                else:
                    # At the end of the copy, all conflicts are gone over anyway.
                    self._retried = self._requested
                self._failures = 0
                await self._tell(flow)
                await self._wait(flow)
        except TooManyDeletions:
            # The question is stored: the link waits for its answer when it begins again.
            return

    async def _read_on(self, flow: TopicFlow) -> None:
        """Read all that the topic has now."""
        await self._check_held(flow.flow)
        bounds = await flow.bounds()
        while any(at < end for at, end in zip(flow.place.offsets, bounds.ends, strict=True)):
            brought = await flow.bring(self._resources.context.settings.request_timeout_seconds)
            if brought is None:
                raise TopicUnusable(f"{self._peer.url} did not answer in time.")
            await self._count(flow, brought)

    async def _wait(self, flow: TopicFlow) -> None:
        """Read what comes until nothing does for a while, or an operator wakes the link."""
        loop = asyncio.get_running_loop()
        seconds = min(self._resources.context.settings.pull_interval_seconds, _LONGEST_WAIT)
        ends, told = loop.time() + seconds, loop.time() - _REPORT_SECONDS
        while self._requested == self._retried:
            began = loop.time()
            brought = await until_woken(flow.bring(seconds), self.wakeup)
            if brought is None:
                if loop.time() - began < _WHOLE_WAIT * seconds:
                    self._again_at = 0.0
                return
            await self._count(flow, brought)
            self._check_publication(flow)
            if loop.time() >= ends:
                return
            if loop.time() - told >= _REPORT_SECONDS:
                told = loop.time()
                await self._tell(flow)
            seconds = min(seconds, _REPORT_SECONDS)

    async def _count(self, flow: TopicFlow, brought: Brought) -> None:
        self._unmeasured += brought.changes
        self._copied += brought.copies
        await self._check_held(flow.flow)

    async def _remember_anew(self, reason: str, loss: str) -> None:
        event = "lost data" if loss else "resynchronise"
        await self._remember(event, f"{reason}: {loss}" if loss else reason)

    def _check_publication(self, flow: TopicFlow) -> None:
        """Look whether the newest mark is of what the link reads.

        Raises:
            TopicLost
        """
        if flow.mark is not None and flow.mark.publication != flow.place.publication:
            raise TopicLost(_WRITTEN_ANEW, loss=flow.mark.loss)

    async def _conclude_copy(self, flow: TopicFlow) -> None:
        if number := await drop_doubted(flow.context, flow.link, flow.flow.policy):
            await self._remember("dropped", f"{counted(number, 'replicas')} not at their authority")
        left = await flow.go_over_conflicts()
        await flow.finish()
        self._note_conflicts(left)
        told, self._copied = f"{counted(self._copied, 'copies')}, {counted(left, 'conflicts')}", 0
        await self._remember("copied", f"{told}, up to {flow.place.position}")

    async def _tell(self, flow: TopicFlow) -> None:
        if flow.is_first or flow.mark is None:
            return
        if flow.is_current:
            await self._report("current", currentat=current_at(flow.mark))
        else:
            await self._report("behind")

    async def _retry(self, flow: TopicFlow) -> None:
        """Read again what could not be applied, since the cause may be gone."""
        requested = self._requested
        if requested == self._retried and asyncio.get_running_loop().time() < self._again_at:
            return
        self._retried = requested
        async with self._database.acquire() as connection:
            link = await links.get(connection, self.id)
        self._note_conflicts(await flow.go_over_conflicts() if link and link.conflicts else 0)

    def _note_conflicts(self, left: int) -> None:
        self._retried = self._requested
        self._fruitless = min(self._fruitless + 1, 16) if left else 0
        interval = self._resources.context.settings.pull_interval_seconds
        pause = min(interval * 2**self._fruitless, _LONGEST_PAUSE)
        self._again_at = asyncio.get_running_loop().time() + pause


async def read_state(topic: Topic, authority: str | None) -> tuple[Mark, int, TopicBounds]:
    """The newest mark of a topic, its offset and the bounds of the topic.

    Args:
        authority: pass over the marks of others.

    Raises:
        ClientError: nobody publishes there, or in another form.
    """
    partitions = await topic.partitions()
    if not partitions:
        raise TopicUnusable("There is no topic of this name.", "Its source creates it.")
    bounds = await topic.bounds(partitions)
    found = await newest_mark(topic, bounds, authority)
    if found is None:
        raise TopicUnusable("Nobody publishes to the topic yet.")
    mark, marked = found
    if mark.digestversion != DIGEST_VERSION:
        raise ClientError(
            f"Its source computes digests by version {mark.digestversion}, "
            f"here it is {DIGEST_VERSION}.",
            "Bring both to the same version of Concord.",
        )
    return mark, marked, bounds


async def probe_topic(context: Context, definition: LinkDefinition, subject: str) -> FoundCatalog:
    """Find out who publishes to a topic.

    Raises:
        SourceUnusable: nobody does, or it cannot be followed.
    """
    from replication.sources.topic import open_topic

    fault, hint = "", ""
    try:
        async with open_topic(
            address_of(definition.source, context.settings), context.settings
        ) as topic:
            mark, _, _ = await read_state(topic, None)
        fault = why_own(context, _identity_in(mark))
    except ClientError as error:
        fault, hint = error.message.rstrip("."), error.hint or _FORCE
    if fault:
        raise SourceUnusable(subject, source=definition.source, error_detail=fault, detail=hint)
    return FoundCatalog(
        authority=mark.authority,
        software=mark.software,
        digestversion=mark.digestversion,
    )


def _identity_in(mark: Mark) -> Handshake:
    return Handshake(
        instance=mark.instance,
        authority=mark.authority,
        software=mark.software,
        digestversion=mark.digestversion,
    )


def _place_in(cursor: str | None) -> TopicPlace | None:
    try:
        return None if cursor is None else TopicPlace.parse(cursor)
    except ValueError:
        return None


def _check_beginning(mark: Mark, bounds: TopicBounds) -> None:
    """Check that a topic still has all that a publication begins with.

    Raises:
        TopicUnusable
    """
    is_there = len(mark.begins) <= len(bounds.begins) and all(
        first <= begin <= after
        for begin, first, after in zip(mark.begins, bounds.begins, bounds.ends, strict=False)
    )
    if not is_there:
        raise TopicUnusable(
            "The topic has lost its beginning.", "Its source writes it anew when it notices that."
        )
