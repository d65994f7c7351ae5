"""A client whose server closes connections at chosen points, on real sockets."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp
import pytest

from catalog.client import ONCE, Backoff, Client, Refused, Retry, Unreachable

Point = Literal["unread", "read", "carried out", "answered"]
Request = Callable[[Client], Awaitable[object]]

AT_ONCE = Retry(backoff=Backoff(initial=0.001, factor=1, cap=0.001, jitter=0))
ENTITY = "/endpoints/e"
_WAIT_SECONDS = 30


@dataclass
class Server:
    """Keeps one entity, and closes connections at these points, one request after the other.

    `seen` are the methods of requests that it read, `carried_out` those that changed the entity.
    """

    listener: socket.socket
    points: list[Point]
    epoch: int = 1
    seen: list[str] = field(default_factory=list)
    carried_out: list[str] = field(default_factory=list)
    connections: int = 0
    closed: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def run(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                self.connections += 1
                with peer, suppress(ConnectionError):
                    peer.settimeout(_WAIT_SECONDS)
                    while self._serve(peer):
                        pass
                self.closed.release()

    def _serve(self, peer: socket.socket) -> bool:
        """Serve one request; return whether the connection stays."""
        if not peer.recv(1, socket.MSG_PEEK):
            return False
        point = self.points.pop(0) if self.points else None
        if point == "unread":
            return False
        method, headers = self._read(peer)
        self.seen.append(method)
        if point == "read":
            return False
        status = self._carry_out(method, headers)
        if point == "carried out":
            return False
        peer.sendall(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}" % status)
        return point != "answered"

    def _read(self, peer: socket.socket) -> tuple[str, str]:
        got = b""
        while b"\r\n\r\n" not in got:
            got += peer.recv(65536)
        head, _, body = got.partition(b"\r\n\r\n")
        text = head.decode()
        length = re.search(r"content-length: (\d+)", text, re.IGNORECASE)
        while length and len(body) < int(length[1]):
            body += peer.recv(65536)
        return text.partition(" ")[0], text

    def _carry_out(self, method: str, headers: str) -> int:
        if method == "GET":
            return 200
        guard = re.search(r'if-match: "(\d+)"', headers, re.IGNORECASE)
        if guard and int(guard[1]) != self.epoch:
            return 412
        if method == "DELETE" and self.epoch == 0:
            return 404
        self.epoch = 0 if method == "DELETE" else self.epoch + 1
        self.carried_out.append(method)
        return 200


@contextmanager
def serving(*points: Point) -> Iterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(listener, list(points))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        # A close alone does not end an accept.
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(_WAIT_SECONDS)


@asynccontextmanager
async def client_of(*points: Point, retry: Retry = ONCE) -> AsyncIterator[tuple[Server, Client]]:
    with serving(*points) as server:
        async with Client.open(server.url, retry=retry) as client:
            yield server, client


def guarded(method: str) -> Request:
    body: Any = None if method == "DELETE" else {}
    return lambda client: client.request(method, ENTITY, body=body, headers={"If-Match": '"1"'})


def unguarded(method: str) -> Request:
    body: Any = None if method == "DELETE" else {}
    return lambda client: client.request(method, ENTITY, body=body)


WRITES = [make(method) for make in (guarded, unguarded) for method in ("PUT", "DELETE", "PATCH")]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("point", ["unread", "read", "carried out"])
@pytest.mark.parametrize("is_reused", [False, True])
async def test_a_write_is_sent_once_where_nothing_is_to_be_repeated(
    write: Request, point: Point, is_reused: bool
) -> None:
    async with client_of(retry=ONCE) as (server, client):
        if is_reused:
            await client.get(ENTITY)
        server.points.append(point)
        with pytest.raises(Unreachable) as caught:
            await write(client)
    assert caught.value.is_doubtful
    writes = [method for method in server.seen if method != "GET"]
    assert len(writes) == (0 if point == "unread" else 1)
    assert len(server.carried_out) == (1 if point == "carried out" else 0)
    assert server.connections == 1


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_guarded_write_that_may_be_its_own_rival_is_told_to_be_doubtful(
    method: str,
) -> None:
    async with client_of("carried out", retry=AT_ONCE) as (server, client):
        with pytest.raises(Refused) as caught:
            await guarded(method)(client)
    assert (caught.value.problem.status, caught.value.is_doubtful) == (412, True)
    assert "read the entity" in caught.value.hint
    assert server.carried_out == [method]


@pytest.mark.parametrize("write", WRITES[:5])
@pytest.mark.parametrize("point", ["unread", "read"])
async def test_a_write_that_was_not_carried_out_is_repeated_where_that_does_no_harm(
    write: Request, point: Point
) -> None:
    async with client_of(point, retry=AT_ONCE) as (server, client):
        await write(client)
    assert len(server.carried_out) == 1


async def test_a_deletion_that_was_carried_out_succeeds() -> None:
    async with client_of("carried out", retry=AT_ONCE) as (server, client):
        await unguarded("DELETE")(client)
    assert (server.seen, server.carried_out) == (["DELETE", "DELETE"], ["DELETE"])


async def test_a_refusal_by_a_guard_at_the_first_attempt_is_not_doubtful() -> None:
    async with client_of(retry=AT_ONCE) as (server, client):
        server.epoch = 2
        with pytest.raises(Refused) as caught:
            await guarded("PUT")(client)
    assert (caught.value.problem.status, caught.value.is_doubtful) == (412, False)


async def test_a_read_does_not_show_that_its_connection_was_lost() -> None:
    async with client_of(retry=ONCE) as (server, client):
        await client.get(ENTITY)
        server.points.append("read")
        assert await client.get(ENTITY) == {}
    assert server.seen == ["GET", "GET", "GET"]


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_takes_no_connection_that_was_closed_while_it_was_idle(
    write: Request,
) -> None:
    """The program is busy meanwhile, so its event loop has not heard of it."""
    async with client_of("answered", retry=ONCE) as (server, client):
        await client.get(ENTITY)
        assert server.closed.acquire(timeout=_WAIT_SECONDS)
        await write(client)
    assert (len(server.seen), len(server.carried_out), server.connections) == (2, 1, 2)


async def test_a_session_of_the_caller_sends_no_write_twice() -> None:
    with serving("carried out") as server:
        async with aiohttp.ClientSession() as session:
            client = Client(server.url, session, retry=ONCE, timeout_seconds=_WAIT_SECONDS)
            with pytest.raises(Unreachable):
                await guarded("PUT")(client)
    assert server.seen == ["PUT"]
