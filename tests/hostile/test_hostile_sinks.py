"""Sinks that send without end, drip, or talk nonsense hurt neither the node nor other sinks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from tests.hostile.bystander import bystander
from tests.hostile.conftest import StartNode, memory_of

SINKS_OF_EACH_KIND = 25
MOST_GROWTH = 32 * 1024 * 1024
# What each kind sends first, what it repeats for ever, and the pause between.
KINDS: list[tuple[bytes, bytes, float]] = [
    (b"HTTP/1.1 204 No Content\r\n", b"X-Endless: " + b"a" * 4096 + b"\r\n", 0),
    (b"HTTP/1.1 204 No Content\r\nX: ", b"a" * 65536, 0),
    (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 100, 0),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n" * 5000, 0),
    (b"", b"\x00" * 65536, 0),
    (b"HTTP/1.1 200 OK\r\n", b"X: a\r\n", 0.1),
    (b"", b"", 1),
]


@pytest.fixture
async def hostile() -> AsyncIterator[list[str]]:
    """The URLs of sinks of every kind, each a host of its own."""
    async with contextlib.AsyncExitStack() as stack:
        urls = []
        for number, kind in enumerate(KINDS):
            server = await stack.enter_async_context(await _serve(*kind))
            port = server.sockets[0].getsockname()[1]
            hosts = (f"127.{10 + number}.0.{1 + each}" for each in range(SINKS_OF_EACH_KIND))
            urls += [f"http://{host}:{port}/" for host in hosts]
        yield urls


async def _serve(begin: bytes, rest: bytes, pause: float) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A handler that is cancelled when the loop ends closes its connection, too.
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(begin)
            while not (reader.at_eof() or writer.is_closing()):
                writer.write(rest)
                await writer.drain()
                await asyncio.sleep(pause)

    return await asyncio.start_server(answer, "0.0.0.0", 0, backlog=500)


async def test_whatever_sinks_send_a_healthy_one_gets_its_events_at_once(
    start_victim: StartNode, hostile: list[str]
) -> None:
    arrivals = asyncio.Queue[str]()

    async def accept(request: web.Request) -> web.Response:
        arrivals.put_nowait(request.headers["ce-subject"])
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/", accept)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with (
            start_victim(CONCORD_DELIVERY_TIMEOUT_SECONDS="30") as victim,
            aiohttp.ClientSession(victim.url) as session,
        ):

            async def subscribe(sink: str) -> None:
                # Without the writes of the bystander.
                filters = [{"prefix": {"subject": "/schemagroups/"}}]
                body = {"sink": sink, "protocol": "HTTP", "filters": filters}
                async with session.post("/subscriptions", json=body) as answer:
                    assert answer.status == 201, await answer.text()

            async def write(group: str) -> None:
                async with session.put(f"/schemagroups/{group}", json={}) as answer:
                    assert answer.status == 201, await answer.text()

            await subscribe(f"http://127.0.0.1:{runner.addresses[0][1]}/")
            await write("before")
            async with asyncio.timeout(20):
                while await arrivals.get() != "/schemagroups/before":
                    pass
            before = memory_of(victim)
            for first in range(0, len(hostile), 25):
                await asyncio.gather(*map(subscribe, hostile[first : first + 25]))
            clock = asyncio.get_running_loop().time
            delays = []
            async with bystander(victim.url) as seen:
                for number in range(10):
                    written = clock()
                    await write(f"g{number}")
                    async with asyncio.timeout(30):
                        while await arrivals.get() != f"/schemagroups/g{number}":
                            pass
                    delays.append(clock() - written)
            # The floods are busy in the test's process, where the events arrive, too.
            assert max(delays) < 10, "no event waits for a sink that takes its 30 seconds"
            assert memory_of(victim) - before < MOST_GROWTH
            seen.assert_served()
    finally:
        await runner.cleanup()
