"""The policy for repeating requests, which only the client repeats.

aiohttp would repeat a PUT or DELETE after a lost connection at once, without telling the client:
the node would refuse the repetition of a successful write because of the epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from random import Random

import aiohttp

from catalog.client.errors import ClientError
from catalog.model.backoff import Backoff

# The first turn of the event loop reads the end of a connection, the second resumes the request.
_TURNS = 2


class ConnectionLost(aiohttp.ClientConnectionError):
    """A connection ended before the answer; the node may have carried out the request."""


async def send_once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send a request once, and never on a connection whose end has arrived already.

    A busy program may not have noticed yet that the server closed an idle connection.
    """
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    # aiohttp repeats requests after these two errors only.
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise ConnectionLost(str(error)) from error


_BACKOFF = Backoff(initial=0.1, factor=2, cap=10, jitter=0.5)
_NOW = partial(datetime.now, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The policy for repeating requests after transient failures.

    Args:
        attempts: the largest number of attempts for a request; with 1, no request is repeated.
        backoff: the waits between attempts. The header Retry-After of a node may lengthen a wait,
            up to the cap.
        clock: the clock with which a date in Retry-After is compared.
        sleep: waits for a number of seconds.
        random: the source of the jitter.
    """

    attempts: int = 4
    backoff: Backoff = _BACKOFF
    clock: Callable[[], datetime] = _NOW
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Random = field(default_factory=Random)

    def delay(self, failures: int, error: ClientError) -> float:
        """Seconds to wait after `failures` failures in a row, the last with `error`."""
        at_least = min(error.retry_after, self.backoff.cap)
        return self.backoff.delay(failures, self.random, at_least=at_least)


ONCE = Retry(attempts=1)
"""The policy that repeats no request."""
