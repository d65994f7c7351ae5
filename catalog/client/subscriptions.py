"""Subscriptions, and a local HTTP sink that takes the events of a subscription."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar
from urllib.parse import unquote

import orjson
from aiohttp import web

from catalog.client.errors import ClientError
from catalog.client.operationcalls import OperationCalls
from catalog.operations import deliveries
from catalog.operations import subscriptions as operations
from catalog.operations.deliveries import (
    CauseQuery,
    DeadLetterAnswer,
    DeadLetterCause,
    DeadLetterQuery,
    DeliveryAttempt,
    ExampleAnswer,
    NumberQuery,
    Redelivered,
    Redelivery,
    SubscriptionChanges,
    WholeDeadLetter,
)
from catalog.operations.subscriptions import (
    KeyExchange,
    NewSubscription,
    NewSubscriptionQuery,
    SigningKeyAnswer,
    SubscriptionAnswer,
    SubscriptionsQuery,
    TriedSubscription,
)

Event = Mapping[str, Any]
Item = TypeVar("Item")

_QUEUE_SIZE = 1000


class Events:
    """The endless events of one subscription, in order of arrival.

    Delivery is at least once: an event may come twice, with the same `id`. The node waits while
    the reader has yet to take a thousand events.
    """

    def __init__(self) -> None:
        self.subscription: SubscriptionAnswer | None = None
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(_QUEUE_SIZE)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await self._waiting.get()

    async def put(self, event: Event) -> None:
        await self._waiting.put(event)


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

    async def try_subscription(self, wanted: NewSubscription) -> TriedSubscription:
        """Report the events of the latest changes that a new subscription would have been sent."""
        query = NewSubscriptionQuery(dryrun=True)
        return await self.call(operations.TRY_SUBSCRIPTION, wanted, query=query)

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

    async def dead_letter_causes(self, id: str) -> list[DeadLetterCause]:
        """The dead letters counted by reason, the most frequent first."""
        return (await self.call(deliveries.LIST_CAUSES, id=id)).causes

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

    @contextlib.asynccontextmanager
    async def listen(
        self,
        *,
        types: Sequence[str] = (),
        filters: Sequence[Mapping[str, Any]] = (),
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> AsyncIterator[Events]:
        """Subscribe to later changes, until the context ends.

        A web server of the process takes the events, so the node has to reach the machine. The
        subscription ends with the context, but stays if the process is killed.

        Args:
            types: the types of events to deliver; every type if empty.
            filters: the filters that an event has to match together (subscriptions-spec.md 3.2.4).
            host: the address to listen on, at which the node reaches the process.
            port: the port to listen on; 0 stands for a free port.

        Raises:
            OSError: the port cannot be used.
        """
        events = Events()
        async with open_sink(events.put, host=host, port=port) as sink:
            made = await self.subscribe(
                NewSubscription(
                    sink=sink,
                    protocol="HTTP",
                    protocolsettings={"contentmode": "structured"},
                    types=list(types),
                    filters=[dict(each) for each in filters],
                )
            )
            events.subscription = made
            try:
                yield events
            finally:
                with contextlib.suppress(ClientError):
                    await self.unsubscribe(made.id)


async def _first(pages: AsyncIterator[list[Item]], most: int | None) -> list[Item]:
    found: list[Item] = []
    async for page in pages:
        found += page
        if most is not None and len(found) >= most:
            return found[:most]
    return found


@contextlib.asynccontextmanager
async def open_sink(
    receive: Callable[[Event], Awaitable[None] | None], *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[str]:
    """Listen, and pass every event to `receive`, in both content modes of HTTP.

    The value is the URL of the sink. The sink grants validation requests (http-webhook.md 4). The
    sender of an event waits until `receive` returns.

    Raises:
        OSError: the port is in use.
    """
    app = web.Application()

    async def take(request: web.Request) -> web.Response:
        received = receive(event_of(request.headers, await request.read()))
        if received is not None:
            await received
        return web.Response(status=204)

    app.add_routes([web.post("/", take), web.options("/", _grant)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield f"http://{host}:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def _grant(request: web.Request) -> web.Response:
    return web.Response(
        headers={"Allow": "POST", "WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "*"}
    )


def event_of(headers: Mapping[str, str], body: bytes) -> Event:
    """Read an event in structured or binary content mode (http-protocol-binding.md 3)."""
    if headers.get("Content-Type", "").startswith("application/cloudevents+json"):
        event: Event = orjson.loads(body)
        return event
    attributes: dict[str, Any] = {
        name.lower().removeprefix("ce-"): unquote(value)
        for name, value in headers.items()
        if name.lower().startswith("ce-")
    }
    if body:
        attributes["data"] = orjson.loads(body)
    return attributes
