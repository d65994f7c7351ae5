"""The longest wait of a PUT while a request writes thousands of entities, and how long it takes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from benchmarks.figure import Aim, Figure
from benchmarks.load import Connection, connected, send_request
from benchmarks.messages import document, message
from benchmarks.process import node
from benchmarks.size import Size

_SHARE = 5_000
_PAUSE_SECONDS = 0.005
_BOUND_MILLISECONDS = 250


@dataclass(slots=True)
class _Waits:
    """The longest wait of PUTs to another group and to the written one, in seconds."""

    longest: dict[str, float] = field(default_factory=dict)

    def note(self, name: str, seconds: float) -> None:
        self.longest[name] = max(self.longest.get(name, 0.0), seconds)


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure PUTs during a POST of messages into a group, imports, and the group's DELETE."""
    figures: list[Figure] = []
    async with node(directory, "long-writes") as url, connected(url, 1) as (connection,):
        for group in ("other", "written"):
            body = orjson.dumps(document(group, 1, 1))
            await connection.request(send_request("POST", url, "/", body))
        for name, request in _requests(url, size):
            waits = _Waits()
            started = time.perf_counter()
            async with _putting(url, waits):
                await connection.request(request)
            figures += _figures(name, time.perf_counter() - started, waits)
    return figures


def _requests(url: str, size: Size) -> Iterator[tuple[str, bytes]]:
    into = "/messagegroups/written0/messages"
    for first, count in ((0, 1_000), (1_000, 5_000)):
        yield (
            f"POST of {count:,} messages",
            send_request("POST", url, into, _messages(first, count)),
        )
    for name, groups in (("1 MB", 17), ("12 MB", 200)):
        body = orjson.dumps(document(name[:2].strip(), groups, 100))
        yield f"Import of {name}", send_request("POST", url, "/", body)
    many = size.deleted_messages
    for first in range(10_000, 10_000 + many, _SHARE):
        count = min(_SHARE, 10_000 + many - first)
        yield "", send_request("POST", url, into, _messages(first, count))
    yield f"DELETE of a group of {many:,}", send_request("DELETE", url, into[:-9], b"")


def _messages(first: int, count: int) -> bytes:
    names = [f"m{number}" for number in range(first, first + count)]
    return orjson.dumps({name: message(name) for name in names})


@contextlib.asynccontextmanager
async def _putting(url: str, waits: _Waits) -> AsyncIterator[None]:
    """Send PUTs of messages in the meantime."""
    async with connected(url, 2) as made, asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(_put(url, waits, connection, group))
            for connection, group in zip(made, ("other0", "written0"), strict=True)
        ]
        await asyncio.sleep(0.1)
        try:
            yield
        finally:
            for task in running:
                task.cancel()


async def _put(url: str, waits: _Waits, connection: Connection, group: str) -> None:
    for turn in itertools.count():
        body = orjson.dumps(message("m0", f"Revision {turn}."))
        path = f"/messagegroups/{group}/messages/m0"
        started = time.perf_counter()
        try:
            await connection.request(send_request("PUT", url, path, body))
        finally:
            waits.note(group, time.perf_counter() - started)
        await asyncio.sleep(_PAUSE_SECONDS)


def _figures(name: str, seconds: float, waits: _Waits) -> Iterator[Figure]:
    if not name:
        return
    for group, words in (("other0", "another group"), ("written0", "the same group")):
        yield Figure(
            name=f"PUT to {words} during: {name}",
            unit="ms",
            value=waits.longest[group] * 1000,
            aim=Aim(bound=_BOUND_MILLISECONDS, is_most=True) if group == "other0" else None,
            note=f"the longest wait; the request took {seconds:.1f} s",
        )
