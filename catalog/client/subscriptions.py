"""Calls for subscriptions, and for the stream of events as they happen."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import orjson

from catalog.client.errors import BadAnswer, ClientError, Unreachable
from catalog.client.operationcalls import OperationCalls, target_of
from catalog.operations import deliveries
from catalog.operations import subscriptions as operations
from catalog.operations.deliveries import (
    CauseQuery,
    DeadLetterAnswer,
    DeadLetterQuery,
    DeliveryAttempt,
    ExampleAnswer,
    NumberQuery,
    Redelivered,
    Redelivery,
    SubscriptionChanges,
    WholeDeadLetter,
)
from catalog.operations.events import END, EVENT_STREAM, LAST_EVENT_ID, READ_EVENTS, EventsQuery
from catalog.operations.subscriptions import (
    KeyExchange,
    NewSubscription,
    SigningKeyAnswer,
    SubscriptionAnswer,
    SubscriptionsQuery,
)

Event = Mapping[str, Any]
Item = TypeVar("Item")


class SubscriptionCalls(OperationCalls):
    """The CloudEvents Subscriptions API."""

    async def subscriptions(self, *, about: str | None = None) -> list[SubscriptionAnswer]:
        """All subscriptions, or those that would be sent a change of an entity.

        Args:
            about: the xid of the entity.
        """
        query = SubscriptionsQuery(about=about)
        pages = self.call_pages(operations.LIST_SUBSCRIPTIONS, query=query)
        return [each async for page in pages for each in page.root]

    async def subscription(self, id: str) -> SubscriptionAnswer:
        return await self.call(operations.GET_SUBSCRIPTION, id=id)

    async def subscribe(self, wanted: NewSubscription) -> SubscriptionAnswer:
        """Create a subscription to later changes; the answer has the id."""
        return await self.call(operations.CREATE_SUBSCRIPTION, wanted)

    async def unsubscribe(self, id: str) -> None:
        await self.call(operations.DELETE_SUBSCRIPTION, id=id)

    async def pause_subscription(self, id: str, reason: str | None = None) -> SubscriptionAnswer:
        """Pause the deliveries of a subscription; the cursor of the subscription stays."""
        return await self._change(id, SubscriptionChanges(paused=True, reason=reason))

    async def resume_subscription(self, id: str) -> SubscriptionAnswer:
        """Resume deliveries; a subscription that waits after a failure tries again at once."""
        return await self._change(id, SubscriptionChanges(paused=False))

    async def replay_subscription(self, id: str, start: str) -> SubscriptionAnswer:
        """Deliver from `earliest`, `now`, a time, or after the sequence of an event."""
        return await self._change(id, SubscriptionChanges(cursor=start))

    async def _change(self, id: str, changes: SubscriptionChanges) -> SubscriptionAnswer:
        return await self.call(deliveries.CHANGE_SUBSCRIPTION, changes, id=id)

    async def test_subscription(self, id: str) -> ExampleAnswer:
        """Send an example event; returns the `outcome` and the `answer` of the sink."""
        return await self.call(deliveries.SEND_EXAMPLE, id=id)

    async def delivery_attempts(self, id: str, most: int | None = None) -> list[DeliveryAttempt]:
        """The last `most` attempts to deliver, newest first."""
        query = NumberQuery(limit=most)
        pages = self.call_pages(deliveries.LIST_ATTEMPTS, query=query, id=id)
        return await _first((page.root async for page in pages), most)

    async def dead_letters(
        self, id: str, most: int | None = None, *, cause: str | None = None
    ) -> list[DeadLetterAnswer]:
        """The first `most` dead letters, oldest first; with a `cause`, those with this reason."""
        query = DeadLetterQuery(limit=most, cause=cause)
        pages = self.call_pages(deliveries.LIST_DEAD_LETTERS, query=query, id=id)
        return await _first((page.root async for page in pages), most)

    async def dead_letter(self, id: str, number: int) -> WholeDeadLetter:
        """A dead letter with the `event`."""
        return await self.call(deliveries.GET_DEAD_LETTER, id=id, number=str(number))

    async def redeliver(
        self,
        id: str,
        number: int | None = None,
        *,
        since: datetime | None = None,
        cause: str | None = None,
    ) -> Redelivered:
        """Deliver dead letters again: one, those since a time or with a reason, or every letter.

        Events that wait behind the dead letters are delivered, too. The answer has the number of
        events `accepted`, and does not wait for the delivery.
        """
        wanted = Redelivery(number=number, since=since, cause=cause)
        return await self.call(deliveries.REDELIVER_DEAD_LETTERS, wanted, id=id)

    async def remove_dead_letter(self, id: str, number: int) -> None:
        await self.call(deliveries.DELETE_DEAD_LETTER, id=id, number=str(number))

    async def remove_dead_letters(self, id: str, *, cause: str | None = None) -> int:
        """Delete the dead letters of a subscription, of a cause or all; return the number."""
        query = CauseQuery(cause=cause)
        return (await self.call(deliveries.DELETE_DEAD_LETTERS, query=query, id=id)).deleted

    async def exchange_signing_key(self, id: str, overlap: int | None = None) -> SigningKeyAnswer:
        """Make a new key; only the answer has the secret of the key.

        Args:
            overlap: the seconds for which the old key still signs; `None` stands for a day.
        """
        wanted = KeyExchange() if overlap is None else KeyExchange(overlapseconds=overlap)
        return await self.call(operations.ADD_KEY, wanted, id=id)

    async def end_signing_key(self, id: str, key: str) -> None:
        """End the use of an old key."""
        await self.call(operations.END_KEY, id=id, key=key)


async def _first(pages: AsyncIterator[list[Item]], most: int | None) -> list[Item]:
    found: list[Item] = []
    async for page in pages:
        found += page
        if most is not None and len(found) >= most:
            return found[:most]
    return found


@dataclass(slots=True)
class _Block:
    """The fields of a block of a stream, and the last id of the stream."""

    id: str = ""
    event: str = ""
    data: str = ""


class EventCalls(OperationCalls):
    """The calls for streams of events."""

    async def events(
        self, wanted: EventsQuery | None = None, *, begun: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[Mapping[str, Any]]:
        """The CloudEvents of changes as they happen, without end.

        After a loss of the connection, the stream resumes where it broke off: an event may come
        twice, with the same `id`, and none is missed. Once events have come, the node is tried
        again until it answers.

        Args:
            wanted: the events, and where the stream begins; by default every event from now on.
            begun: is called once the node has told where the stream begins: later events come.

        Raises:
            Refused: the node refuses the stream, for example since a credential has expired or the
                log of changes no longer reaches back to where the stream broke off.
            Unreachable: the node could not be reached at first.
        """
        last, failures = "", 0
        while True:
            lost: ClientError = Unreachable(f"{self.url} ended the stream.", is_doubtful=False)
            try:
                async for block in self._blocks(wanted, last):
                    if not last:
                        begun()
                    last, failures = block.id or last, 0
                    if block.event == END:
                        break
                    if block.data:
                        yield self._event_in(block.data)
            except ClientError as error:
                lost = error
                # Before the first block, the URL is likelier wrong than the node away for a while.
                is_hopeless = not last and failures + 1 >= self._retry.attempts
                if is_hopeless or not error.is_retryable:
                    raise
            failures += 1
            await self._retry.sleep(self._retry.delay(failures, lost))

    async def _blocks(self, wanted: EventsQuery | None, last: str) -> AsyncIterator[_Block]:
        path, params = target_of(READ_EVENTS, wanted, {})
        headers = {"Accept": EVENT_STREAM, **({LAST_EVENT_ID: last} if last else {})}
        lines = self.lines("GET", path, params=params, headers=headers, is_endless=True)
        block = _Block()
        async with contextlib.aclosing(lines):
            async for line in lines:
                name, _, value = line.decode(errors="replace").rstrip("\r").partition(":")
                value = value.removeprefix(" ")
                if not name and not value:
                    yield block
                    # An id stays in force for later blocks (HTML Living Standard 9.2.6).
                    block = _Block(id=block.id)
                elif name == "id":
                    block.id = value
                elif name == "event":
                    block.event = value
                elif name == "data":
                    block.data += value

    def _event_in(self, data: str) -> Mapping[str, Any]:
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = None
        if not isinstance(event, dict):
            raise BadAnswer(self.at(READ_EVENTS.path), "an event that is no JSON object")
        return event
