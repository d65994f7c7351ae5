"""The route of events to a client of one delivery protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.subscriptions.sinks.outgoing import OutgoingEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A server whose reader notes the subjects of events, and two who can send there.

    Args:
        subscription: the body that has a node send its changes there.
        send: sends an event with a client of the protocol, in binary content mode, and returns
            when the server has acknowledged it.
        note: says how both send it.
    """

    subscription: Mapping[str, Any]
    send: Callable[[OutgoingEvent], Awaitable[None]]
    note: str


@contextlib.asynccontextmanager
async def reading(read: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Read while the context is open, which ends if reading fails."""
    async with asyncio.TaskGroup() as group:
        reader = group.create_task(read)
        yield
        reader.cancel()
