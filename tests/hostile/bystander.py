"""A client that reads and writes all the time, and tells how it was served.

It runs in a process of its own, so that an attack that is busy in the test's process does not
count as slowness of the node: `python -m tests.hostile.bystander URL` prints JSON when its input
ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp

_PATIENCE_SECONDS = 60.0
_GROUP = "/messagegroups/bystander"


@dataclass(slots=True)
class Served:
    """The seconds that each request of one method took, and what went wrong with others."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def p50(self) -> float:
        return self._quantile(0.5)

    @property
    def p99(self) -> float:
        return self._quantile(0.99)

    @property
    def longest(self) -> float:
        return self._quantile(1)

    def _quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[round((len(ordered) - 1) * share)] if ordered else float("inf")

    def __str__(self) -> str:
        return (
            f"{len(self.seconds)} served, p50 {self.p50 * 1000:.0f} ms, p99 {self.p99 * 1000:.0f}"
            f" ms, longest {self.longest * 1000:.0f} ms, {len(self.failures)} failed"
        )


@dataclass(slots=True)
class Bystander:
    """The answers to a client that did nothing unusual."""

    gets: Served = field(default_factory=Served)
    puts: Served = field(default_factory=Served)

    def assert_served(self, *, seconds: float = 1.0, least: int = 2) -> None:
        """Nothing failed, and 99 of 100 requests of each kind took less than `seconds`.

        The bound leaves room for a machine that is busy with other tests.
        """
        for name, served in (("GET", self.gets), ("PUT", self.puts)):
            assert not served.failures, f"{name}: {served}: {served.failures[:3]}"
            assert len(served.seconds) >= least, f"{name}: {served}"
            assert served.p99 < seconds, f"{name}: {served}"


@contextlib.asynccontextmanager
async def bystander(url: str) -> AsyncIterator[Bystander]:
    """A client that uses the node for the time of a context; read what it saw afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.hostile.bystander", url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    seen = Bystander()
    try:
        assert await process.stdout.readline() == b"served\n"
        yield seen
        process.stdin.close()
        async with asyncio.timeout(_PATIENCE_SECONDS + 10):
            told = json.loads(await process.stdout.readline())
        seen.gets, seen.puts = Served(**told["gets"]), Served(**told["puts"])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _main(url: str) -> None:
    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.read)
    seen = Bystander()
    timeout = aiohttp.ClientTimeout(total=_PATIENCE_SECONDS)
    async with aiohttp.ClientSession(url, timeout=timeout) as session:
        await _send(session, "PUT", _GROUP, Served())
        print("served", flush=True)
        while not ended.done():
            # A new answer, not a remembered one.
            await _send(session, "GET", _GROUP, seen.gets)
            await _send(session, "GET", "/messagegroups?limit=5", seen.gets)
            await _send(session, "PUT", f"{_GROUP}/messages/m", seen.puts)
            await asyncio.sleep(0.05)  # the pace of this client
    report = {
        name: {"seconds": served.seconds, "failures": served.failures}
        for name, served in (("gets", seen.gets), ("puts", seen.puts))
    }
    print(json.dumps(report), flush=True)


async def _send(session: aiohttp.ClientSession, method: str, path: str, served: Served) -> None:
    begun = time.perf_counter()
    body = {"description": f"{begun}"} if method == "PUT" else None
    headers = {"Cache-Control": "no-cache"}
    try:
        async with session.request(method, path, json=body, headers=headers) as response:
            await response.read()
            if response.status not in (200, 201):
                served.failures.append(f"{method} {path}: {response.status}")
                return
    except (aiohttp.ClientError, TimeoutError) as error:
        served.failures.append(f"{method} {path}: {error!r}")
        return
    served.seconds.append(time.perf_counter() - begun)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
