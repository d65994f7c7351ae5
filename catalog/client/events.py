"""The events of a node as they happen, read from its stream of server-sent events."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from catalog.client.errors import BadAnswer, ClientError, Unreachable
from catalog.client.operationcalls import OperationCalls, target_of
from catalog.operations.events import END, EVENT_STREAM, LAST_EVENT_ID, READ_EVENTS, EventsQuery


@dataclass(slots=True)
class _Block:
    """The fields of a block of a stream, and the last id of the stream."""

    id: str = ""
    event: str = ""
    data: str = ""


class EventCalls(OperationCalls):
    """The calls for streams of events."""

    async def events(self, wanted: EventsQuery | None = None) -> AsyncGenerator[Mapping[str, Any]]:
        """The CloudEvents of changes as they happen, without end.

        After a loss of the connection, the stream resumes where it broke off: an event may come
        twice, with the same `id`, and none is missed. Once events have come, the node is tried
        again until it answers.

        Args:
            wanted: the events, and where the stream begins; by default every event from now on.

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
                    last, failures = block.id or last, 0
                    if block.event == END:
                        break
                    if block.data:
                        yield self._event_in(block.data)
            except ClientError as error:
                lost = error
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
