"""Asks the process of many sinks (see `benchmarks.sinks`) for what they have received."""

from __future__ import annotations

import asyncio
import time
from array import array

import orjson

from benchmarks.load import Connection, body_of, get_request, send_request
from benchmarks.messages import message

_ARRIVE_SECONDS = 60
_LOOK_SECONDS = 0.005


async def taken(counter: Connection, port: int) -> int:
    """The number of events that the sinks have received."""
    request = get_request(f"http://127.0.0.1:{port}", "/count")
    return int(body_of(await counter.request(request)))


async def change_once(
    connection: Connection, counter: Connection, url: str, port: int, xid: str, *, sinks: int
) -> list[float]:
    """Change a message; return the seconds from the request to its arrival at each of the sinks.

    Args:
        connection: leads to the node at `url`.
        counter: leads to the sinks, which listen on `port`.
        sinks: how many sinks the change is sent to.

    Raises:
        TimeoutError: it has not reached all of them in time.
    """
    arrivals = get_request(f"http://127.0.0.1:{port}", "/arrivals")
    await counter.request(arrivals)  # Forgets those of earlier changes.
    before, sent = await taken(counter, port), time.perf_counter()
    body = orjson.dumps(message(xid.rpartition("/")[2], f"Changed at {sent}."))
    await connection.request(send_request("PUT", url, xid, body))
    while await taken(counter, port) < before + sinks:
        if time.perf_counter() > sent + _ARRIVE_SECONDS:
            raise TimeoutError("a change did not reach every sink that it was sent to")
        await asyncio.sleep(_LOOK_SECONDS)
    arrived = array("d", bytes(body_of(await counter.request(arrivals))))
    return [each - sent for each in arrived]
