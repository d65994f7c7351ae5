"""Subscriptions, and an HTTP sink on this machine that takes the events of one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote, unquote

import orjson
from aiohttp import web

from catalog.client.connection import Connection, JsonObject
from catalog.client.errors import BadAnswer, ClientError

Event = Mapping[str, Any]

_QUEUE_SIZE = 1000


class Events:
    """The endless events of one subscription, in the order of their arrival.

    Delivery is at least once: an event may come twice, with the same `id`. The node waits while
    a thousand events are not taken yet.
    """

    def __init__(self) -> None:
        self.subscription: JsonObject = {}
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(_QUEUE_SIZE)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await self._waiting.get()

    async def put(self, event: Event) -> None:
        await self._waiting.put(event)


class SubscriptionCalls(Connection):
    """The CloudEvents Subscriptions API."""

    async def subscriptions(self) -> list[JsonObject]:
        return [each async for page in self.pages("/subscriptions") for each in page]

    async def subscription(self, id: str) -> JsonObject:
        return await self.get(_path(id))

    async def subscribe(self, definition: Mapping[str, Any]) -> JsonObject:
        """Create a subscription to all changes from now on; the answer has its id."""
        return await self.post("/subscriptions", definition)

    async def unsubscribe(self, id: str) -> None:
        await self.request("DELETE", _path(id))

    async def pause_subscription(self, id: str, reason: str | None = None) -> JsonObject:
        """Deliver nothing until the subscription is resumed; it keeps its place."""
        body = {} if reason is None else {"reason": reason}
        return await self._json("POST", _path(id, "pause"), body=body, is_repeatable=True)

    async def resume_subscription(self, id: str) -> JsonObject:
        """Deliver again; if it waits after a failure, try again at once."""
        return await self._json("POST", _path(id, "resume"), is_repeatable=True)

    async def replay_subscription(self, id: str, start: str) -> JsonObject:
        """Deliver again from `earliest`, the sequence of an event, or a time; or from `now` on."""
        return await self._json("POST", _path(id, "replay"), body={"from": start})

    async def test_subscription(self, id: str) -> JsonObject:
        """Send an example event now; the answer has the `outcome` and the sink's `answer`."""
        return await self._json("POST", _path(id, "test"))

    async def delivery_attempts(self, id: str, most: int | None = None) -> list[JsonObject]:
        """The last attempts to deliver, the newest first; no more than `most`."""
        return await self._first(_path(id, "attempts"), most)

    async def dead_letters(self, id: str, most: int | None = None) -> list[JsonObject]:
        """The events that were not delivered, the oldest first; no more than `most`."""
        return await self._first(_path(id, "deadletters"), most)

    async def dead_letter(self, id: str, number: int) -> JsonObject:
        """One of them, with its `event`."""
        return await self.get(_path(id, "deadletters", number))

    async def redeliver(
        self, id: str, number: int | None = None, *, since: str | None = None
    ) -> JsonObject:
        """Deliver again one of them, those since a time, or all; and those that wait for them.

        The answer, which does not wait for the delivery, has the number of events `accepted`.
        """
        one = () if number is None else (number,)
        body = {} if since is None else {"since": since}
        path = _path(id, "deadletters", *one, "redeliver")
        return await self._json("POST", path, body=body, is_repeatable=True)

    async def remove_dead_letter(self, id: str, number: int) -> None:
        await self.request("DELETE", _path(id, "deadletters", number))

    async def remove_dead_letters(self, id: str) -> int:
        """Delete all of them; return how many."""
        return int((await self._json("DELETE", _path(id, "deadletters")))["deleted"])

    async def signing_keys(self, id: str) -> list[JsonObject]:
        """The keys that sign its deliveries, the current one first, without secrets."""
        path = _path(id, "signingkeys")
        found = self._decoded(path, await self.request("GET", path))
        if not isinstance(found, list):
            raise BadAnswer(self.at(path), "JSON that is not an array")
        return found

    async def exchange_signing_key(self, id: str, overlap: int | None = None) -> JsonObject:
        """Make a new key, whose secret only this answer has.

        Args:
            overlap: so many seconds the old key signs beside it; `None` stands for a day.
        """
        body = {} if overlap is None else {"overlapseconds": overlap}
        return await self.post(_path(id, "signingkeys"), body)

    async def end_signing_key(self, id: str, key: str) -> None:
        """Let an old key sign no more."""
        await self.request("DELETE", _path(id, "signingkeys", key))

    async def _first(self, path: str, most: int | None) -> list[JsonObject]:
        found: list[JsonObject] = []
        async for page in self.pages(path, {} if most is None else {"limit": str(most)}):
            found += page
            if most is not None and len(found) >= most:
                return found[:most]
        return found

    @contextlib.asynccontextmanager
    async def listen(
        self,
        *,
        types: Sequence[str] = (),
        filters: Sequence[Mapping[str, Any]] = (),
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> AsyncIterator[Events]:
        """Subscribe to all changes from now on, until the context ends.

        A web server of this process takes the events, so the node has to reach this machine. The
        subscription ends with the context; it is left behind if the process is killed.

        Args:
            types: only events of these types.
            filters: only events that match all of these (subscriptions-spec.md 3.2.4).
            host: the address to listen on, at which the node reaches this process.
            port: any free one if 0.

        Raises:
            OSError: the port cannot be used.
        """
        events = Events()
        async with open_sink(events.put, host=host, port=port) as sink:
            definition: JsonObject = {
                "sink": sink,
                "protocol": "HTTP",
                "protocolsettings": {"contentmode": "structured"},
            }
            if types:
                definition["types"] = list(types)
            if filters:
                definition["filters"] = list(filters)
            events.subscription = await self.subscribe(definition)
            try:
                yield events
            finally:
                with contextlib.suppress(ClientError):
                    await self.unsubscribe(events.subscription["id"])


def _path(id: str, *below: object) -> str:
    return "/".join(["/subscriptions", quote(id, safe=""), *map(str, below)])


@contextlib.asynccontextmanager
async def open_sink(
    receive: Callable[[Event], Awaitable[None] | None], *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[str]:
    """Listen, and pass every event to `receive`, in both content modes of HTTP.

    The value is the sink's URL. Validation requests are granted (http-webhook.md 4). The sender of
    an event waits as long as `receive` does.

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
