"""The time of a request, and of a stream that is read."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.test_utils import make_mocked_request

from catalog.http.stream import DEADLINE, Deadline
from catalog.model.concorderrors import ReadTooSlowly
from catalog.settings import Settings


async def test_a_stream_ends_after_the_longest_time_however_quickly_it_is_read() -> None:
    request = make_mocked_request("GET", "/export")
    settings = Settings(request_timeout_seconds=0.1, stream_least_rate=1)
    loop = asyncio.get_running_loop()

    async def read() -> None:
        async with asyncio.timeout(10), Deadline(request, settings, longest_seconds=0.3):
            while True:
                request[DEADLINE].postpone(1000)
                await asyncio.sleep(0.01)  # the reader takes a piece

    begun = loop.time()
    with pytest.raises(ReadTooSlowly):
        await read()
    assert loop.time() - begun >= 0.3
