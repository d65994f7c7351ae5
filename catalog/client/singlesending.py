"""A middleware that keeps aiohttp from sending a write twice when its connection is lost.

aiohttp repeats a PUT or DELETE at once, and tells nobody: a write that was carried out would be
refused for its own epoch. The policy of the client is the only one that repeats writes.
"""

from __future__ import annotations

import asyncio

import aiohttp

# The first turn of the event loop reads the end of a connection, the second one goes on here.
_TURNS = 2


class ConnectionLost(aiohttp.ClientConnectionError):
    """A connection ended before the answer; the request may have been carried out."""


async def send_once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send a request once, and not on a connection whose end has arrived here.

    A program that was busy has not noticed yet that the server closed an idle connection.
    """
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise ConnectionLost(str(error)) from error
