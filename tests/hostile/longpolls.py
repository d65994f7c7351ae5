"""Readers that wait for changes, in a process of their own, from many addresses.

`python -m tests.hostile.longpolls URL NUMBER ADDRESSES` prints a line when all have asked once,
and JSON when its input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp

_WAIT_SECONDS = 30


@dataclass(slots=True)
class LongPolls:
    """The number of answers by status, and how many answers brought something."""

    statuses: dict[str, int] = field(default_factory=dict)
    brought: int = 0


@contextlib.asynccontextmanager
async def long_polls(url: str, number: int, *, addresses: int) -> AsyncIterator[LongPolls]:
    """Readers that wait for the time of a context; read what they got afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.hostile.longpolls", url, str(number), str(addresses)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    seen = LongPolls()
    try:
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"waiting\n"
        yield seen
        process.stdin.close()
        async with asyncio.timeout(60):
            told = json.loads(await process.stdout.readline())
        seen.statuses, seen.brought = told["statuses"], told["brought"]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _main(url: str, number: int, addresses: int) -> None:
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    seen = LongPolls()
    asked = asyncio.Semaphore(0)

    async def note_sent(*_: object) -> None:
        asked.release()

    sent = aiohttp.TraceConfig()
    sent.on_request_headers_sent.append(note_sent)
    async with contextlib.AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(_session(url, f"127.0.1.{1 + index}", sent))
            for index in range(addresses)
        ]
        async with sessions[0].get("/replication/digests?format=csv&to=0") as answer:
            cursor = answer.headers["Concord-Cursor"]
        async with asyncio.TaskGroup() as tasks:
            polls = [
                tasks.create_task(_poll(sessions[index % addresses], cursor, seen))
                for index in range(number)
            ]
            for _ in polls:
                await asked.acquire()
            print("waiting", flush=True)
            await ended
            for poll in polls:
                poll.cancel()
    print(json.dumps({"statuses": seen.statuses, "brought": seen.brought}), flush=True)


def _session(url: str, address: str, sent: aiohttp.TraceConfig) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0, local_addr=(address, 0))
    timeout = aiohttp.ClientTimeout(total=90)
    return aiohttp.ClientSession(url, connector=connector, timeout=timeout, trace_configs=[sent])


async def _poll(session: aiohttp.ClientSession, cursor: str, seen: LongPolls) -> None:
    while True:
        params = {"after": cursor, "wait": str(_WAIT_SECONDS)}
        try:
            async with session.get("/replication/changes", params=params) as answer:
                *copies, end = (await answer.read()).splitlines() or [b""]
                status = str(answer.status)
        except (aiohttp.ClientError, TimeoutError) as error:
            status = type(error).__name__
        seen.statuses[status] = seen.statuses.get(status, 0) + 1
        if status == "200":
            seen.brought += bool(copies)
            cursor = json.loads(end)["cursor"]
        else:
            await asyncio.sleep(1)  # as Retry-After says


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
