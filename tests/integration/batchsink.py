"""An HTTP sink for tests that takes batches of events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

import orjson
from aiohttp import web
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from tests.integration.test_dispatcher import Sink

BatchAnswer = Callable[[Sequence[CloudEvent]], Awaitable[web.Response]]


class BatchSink(Sink):
    """A sink that keeps the events of each request, accepted or not, and the size of its body.

    `answer_batch` answers requests; it can be replaced.
    """

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[CloudEvent]] = []
        self.sizes: list[int] = []
        self.answer_batch: BatchAnswer = self._accept_batch

    @property
    def names(self) -> list[str]:
        """The groups in each request, as one word of their ids."""
        return ["".join(names_of(batch)) for batch in self.batches]

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        batch = _events_of(request, body)
        async with self.grown:
            self.requests.append(request)
            self.batches.append(batch)
            self.sizes.append(len(body))
            self.grown.notify_all()
        response = await self.answer_batch(batch)
        if response.status < 300:
            self.events += batch
        async with self.grown:
            self.grown.notify_all()
        return response

    async def _accept_batch(self, _: Sequence[CloudEvent]) -> web.Response:
        return web.Response(status=200)


def names_of(events: Sequence[CloudEvent]) -> list[str]:
    """The ids of the groups that events are about."""
    return [str(event.get_subject()).removeprefix("/gs/") for event in events]


def refusing_batches_with(names: Collection[str], status: int) -> BatchAnswer:
    """Refuse as a whole each batch that has an event of some group; `names` may change."""

    async def answer(batch: Sequence[CloudEvent]) -> web.Response:
        is_refused = any(name in names for name in names_of(batch))
        return web.Response(status=status if is_refused else 200)

    return answer


def _events_of(request: web.Request, body: bytes) -> list[CloudEvent]:
    if request.content_type == "application/cloudevents-batch+json":
        read = [JSONFormat().read(CloudEvent, orjson.dumps(each)) for each in orjson.loads(body)]
    else:
        headers = {name.lower(): value for name, value in request.headers.items()}
        read = [from_http(HTTPMessage(headers=headers, body=body), JSONFormat(), CloudEvent)]
    events = [each for each in read if isinstance(each, CloudEvent)]
    assert len(events) == len(read)
    return events
