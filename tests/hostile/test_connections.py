"""Clients that hold connections, and sinks that never answer, take them from nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import resource
import socket
from collections.abc import AsyncIterator

import aiohttp
import psutil
import pytest
from aiohttp import web

from tests.e2e.nodes import NodeProcess, until
from tests.hostile.bystander import bystander
from tests.hostile.conftest import StartNode

MOST_OF_ADDRESS = 256
HALF_A_HEADER = b"GET / HTTP/1.1\r\nHost: "
UNFINISHED = b"PUT /messagegroups/g HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{"


class Attackers:
    """Connections to a node, from addresses of the loopback network."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self.writers: list[asyncio.StreamWriter] = []
        self._answers: list[asyncio.Task[bytes]] = []

    async def connect(self, count: int, sent: bytes = b"", address: str = "127.0.0.2") -> None:
        for _ in range(count):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self._node.port, local_addr=(address, 0)
            )
            writer.write(sent)
            self.writers.append(writer)
            self._answers.append(asyncio.create_task(_read(reader)))

    @property
    def answers(self) -> list[bytes]:
        """What was sent on each connection that the node has closed."""
        return [task.result() for task in self._answers if task.done()]

    async def is_answered_within(self, seconds: float) -> bool:
        """Whether the node closes one of the connections in so many seconds."""
        await asyncio.wait(self._answers, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(self.answers)

    def close(self) -> None:
        for writer, answer in zip(self.writers, self._answers, strict=True):
            writer.close()
            answer.cancel()


async def _read(reader: asyncio.StreamReader) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(4096):
            received += piece
    return received


@contextlib.asynccontextmanager
async def attacking(node: NodeProcess) -> AsyncIterator[Attackers]:
    attackers = Attackers(node)
    try:
        yield attackers
    finally:
        attackers.close()


async def test_connections_that_keep_still_are_closed_after_seconds(
    start_victim: StartNode,
) -> None:
    """Nothing is sent, or half a header, or a header that never ends, in small pieces."""
    async with (
        start_victim() as victim,
        bystander(victim.url) as seen,
        attacking(victim) as attackers,
    ):
        await attackers.connect(70)
        await attackers.connect(70, HALF_A_HEADER)
        begun = asyncio.get_running_loop().time()
        await attackers.connect(70, HALF_A_HEADER)
        while asyncio.get_running_loop().time() < begun + 11:
            for writer in attackers.writers[-70:]:
                writer.write(b"x")
            await asyncio.sleep(0.1)  # the pace of the small pieces
        await until(lambda: len(attackers.answers) == 210, seconds=10)
        assert not any(attackers.answers)
    seen.assert_served()


async def test_a_header_of_many_pieces_is_no_larger_than_the_limit(victim: NodeProcess) -> None:
    """64 KiB, where the parser would take 1 MiB."""
    async with attacking(victim) as attackers:
        await attackers.connect(1, HALF_A_HEADER + b"x\r\n")
        for number in range(40):
            attackers.writers[0].write(b"x-%d: " % number + b"y" * 2000 + b"\r\n")
            # Each piece is to arrive alone, and none after the answer, which it would reset.
            if await attackers.is_answered_within(0.01 if number < 31 else 1):
                break
        assert b"bytes in its header" in attackers.answers[0]


async def test_a_client_that_does_not_read_its_answer_loses_its_connection(
    start_victim: StartNode,
) -> None:
    """Requests for the model, one after the other, until the node can send no more."""
    address = ("127.0.0.2", 0)
    async with start_victim() as victim:
        with socket.create_connection(("127.0.0.1", victim.port), source_address=address) as client:
            client.sendall(b"GET /model HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2000)
            assert victim.process is not None
            process = psutil.Process(victim.process.pid)

            def is_connected() -> bool:
                peers = [each.raddr for each in process.net_connections("tcp") if each.raddr]
                return any(peer.ip == address[0] for peer in peers)

            await until(is_connected)
            await until(lambda: not is_connected(), seconds=40)


async def test_one_address_has_no_more_than_its_connections(victim: NodeProcess) -> None:
    """Those that are idle make room; where all are in use, the client is told."""
    async with bystander(victim.url) as seen, attacking(victim) as attackers:
        await attackers.connect(MOST_OF_ADDRESS + 44)
        await until(lambda: len(attackers.answers) == 44)
        await attackers.connect(MOST_OF_ADDRESS + 10, UNFINISHED)
        await until(lambda: len(attackers.answers) == 310, what="all idle ones and 10 more close")
        told = [answer for answer in attackers.answers if answer]
    assert [answer.partition(b" ")[2][:3] for answer in told] == [b"429"] * 10
    assert all(b"CONCORD_MAX_CONNECTIONS_PER_ADDRESS" in answer for answer in told)
    seen.assert_served()


async def test_few_descriptors_are_not_used_up_by_clients(start_victim: StartNode) -> None:
    """600 connections from 20 addresses to a node that may open 256 files."""
    async with (
        start_victim(descriptors=256) as victim,
        bystander(victim.url) as seen,
        attacking(victim) as attackers,
    ):
        for number in range(20):
            await attackers.connect(30, UNFINISHED, f"127.0.1.{number + 1}")
        await until(lambda: len(attackers.answers) > 500, what="connections are refused")
        assert any(b"CONCORD_MAX_CONNECTIONS" in answer for answer in attackers.answers)
        assert victim.process is not None
        assert psutil.Process(victim.process.pid).num_fds() < 220
    seen.assert_served()


@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="needs prlimit(2)")
async def test_a_lack_of_descriptors_is_logged_once_and_passes(victim: NodeProcess) -> None:
    assert victim.process is not None
    process = psutil.Process(victim.process.pid)
    before = process.rlimit(resource.RLIMIT_NOFILE)
    async with attacking(victim) as attackers:
        process.rlimit(resource.RLIMIT_NOFILE, (process.num_fds() + 5, before[1]))
        await attackers.connect(50)
        await until(lambda: "cannot be accepted" in victim.log.read_text())
        await asyncio.sleep(1)  # the time in which it could be logged again
        process.rlimit(resource.RLIMIT_NOFILE, before)
        async with victim.client() as client:
            assert await client.is_ready()
    assert victim.log.read_text().count("cannot be accepted") == 1


async def test_sinks_that_never_answer_leave_connections_to_others(
    start_victim: StartNode,
) -> None:
    """1,100 of them, each a host of its own, at a node that may open 1,024 files."""
    arrivals = asyncio.Queue[float]()
    clock = asyncio.get_running_loop().time

    async def accept(request: web.Request) -> web.Response:
        await request.read()
        arrivals.put_nowait(clock())
        return web.Response(status=204)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(4096):
                pass
        writer.close()

    app = web.Application()
    app.router.add_post("/", accept)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    hung = await asyncio.start_server(hang, "0.0.0.0", 0, backlog=2000)
    port = hung.sockets[0].getsockname()[1]
    try:
        async with (
            start_victim(descriptors=1024) as victim,
            aiohttp.ClientSession(victim.url) as session,
        ):

            async def subscribe(sink: str) -> None:
                async with session.post(
                    "/subscriptions", json={"sink": sink, "protocol": "HTTP"}
                ) as answer:
                    assert answer.status == 201, await answer.text()

            async def write() -> None:
                async with session.put("/schemagroups/g", json={}) as answer:
                    assert answer.status in (200, 201)

            await subscribe(f"http://127.0.0.1:{runner.addresses[0][1]}/")
            await write()
            async with asyncio.timeout(10):
                await arrivals.get()
            numbers = iter(range(1100))
            for batch in iter(lambda: list(itertools.islice(numbers, 50)), []):
                hosts = [f"127.1.{n // 250}.{1 + n % 250}:{port}" for n in batch]
                await asyncio.gather(*(subscribe(f"http://{host}/") for host in hosts))
            async with bystander(victim.url) as seen:
                for _ in range(30):
                    async with (
                        aiohttp.ClientSession(victim.url) as other,
                        other.get("/messagegroups") as answer,
                    ):
                        assert answer.status == 200
                while not arrivals.empty():
                    arrivals.get_nowait()
                written = clock()
                await write()
                async with asyncio.timeout(10):
                    delay = await arrivals.get() - written
            assert delay < 1, "a sink that accepts events gets them beside those that hang"
            assert victim.process is not None
            assert psutil.Process(victim.process.pid).num_fds() < 300
            # The bystander may come late on a busy machine.
            seen.assert_served(least=1)
    finally:
        hung.close()
        await runner.cleanup()
