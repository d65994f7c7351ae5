"""A middleware that keeps aiohttp from sending a write twice after a lost connection.

aiohttp repeats a PUT or DELETE at once, without telling the client: the node would refuse the
repetition of a successful write because of the epoch. Only the policy of the client repeats writes.
"""

from __future__ import annotations

import asyncio

import aiohttp

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
