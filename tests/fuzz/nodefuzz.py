"""Fuzzes a node: `python -m tests.fuzz.nodefuzz [--count 100000] [--seed 1]`.

Starts a node with a database of its own, sends it the requests of a seed, and tells each one that
was answered with an error of the server, or with something else than an error document.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import aiohttp
import orjson
import typer
import yarl
from rich.progress import track

from catalog.store.postgresaccount import temporary_directory
from tests.e2e.nodes import NodeProcess, node_at, running
from tests.fuzz.nodenames import NodeNames
from tests.fuzz.requests import FuzzedRequest, RequestGenerator, routes_of

_CLIENTS = 8
_PATIENCE_SECONDS = 45.0
_BUSY = "#server_busy"
_PROBLEM = {"type", "title"}
_RPC_ERROR = frozenset({"jsonrpc", "error"})


@dataclass(slots=True)
class FuzzResult:
    """The answers to the requests of one seed, and the requests that were answered wrongly.

    `done` counts the requests of each route that were done.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


async def fuzz(node: NodeProcess, numbers: Iterator[int], seed: int) -> FuzzResult:
    """Send requests through several clients at a time, and check every answer.

    Afterwards the whole catalog, the feed and the digests must still be readable.
    """
    result = FuzzResult()
    timeout = aiohttp.ClientTimeout(total=_PATIENCE_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        async with session.get(f"{node.url}/openapi.json") as described:
            routes = routes_of(await described.json())
        generator, names = RequestGenerator(routes, seed), NodeNames()

        async def send_some() -> None:
            for number in numbers:
                request = names.filled(generator.request(number))
                fault = await _fault_of(session, node.url, request, result, names)
                if fault:
                    told = f"request {number} of seed {seed}: {fault}\n{request.as_curl(node.url)}"
                    result.failures.append(told)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_CLIENTS):
                tasks.create_task(send_some())
        for path in ("/export", "/replication/snapshot", "/replication/digests?verify"):
            read = FuzzedRequest(method="GET", path=path)
            if fault := await _fault_of(session, node.url, read, FuzzResult(), names):
                result.failures.append(f"GET {path} afterwards: {fault}")
    result.failures += re.findall(r".*request failed.*", node.log.read_text())
    return result


async def _fault_of(
    session: aiohttp.ClientSession,
    url: str,
    request: FuzzedRequest,
    result: FuzzResult,
    names: NodeNames,
) -> str:
    """The fault of the answer to a request; empty if there is none."""
    target = yarl.URL(url + request.path, encoded=True)
    try:
        async with session.request(
            request.method,
            target,
            headers=request.headers,
            data=request.body or None,
            allow_redirects=False,
            skip_auto_headers=["Content-Type"],
        ) as response:
            body = await response.read()
    except ValueError:
        return ""  # The client itself refuses to send it.
    except (aiohttp.ClientError, TimeoutError) as error:
        return repr(error)
    result.statuses[response.status] += 1
    if response.status < 300:
        result.done[f"{request.method} {request.route}"] += 1
        names.learn(request, response.status, body)
    if response.status < 400 or request.method == "HEAD":
        return "" if response.status < 500 else f"status {response.status}"
    try:
        problem = orjson.loads(body)
    except orjson.JSONDecodeError:
        return f"status {response.status} without an error document: {body[:200]!r}"
    # The route for agents answers by JSON-RPC.
    if isinstance(problem, dict) and problem.keys() >= _RPC_ERROR:
        return ""
    if not isinstance(problem, dict) or not problem.keys() >= _PROBLEM:
        return f"status {response.status} with another document: {body[:200]!r}"
    is_busy = response.status == 503 and str(problem["type"]).endswith(_BUSY)
    return f"{body[:500]!r}" if response.status >= 500 and not is_busy else ""


def main(
    count: Annotated[int, typer.Option(help="Number of requests")] = 100_000,
    seed: Annotated[int, typer.Option(help="The same seed sends the same requests")] = 1,
    first: Annotated[int, typer.Option(help="Number of the first request")] = 0,
) -> None:
    """Fuzz every route of a node."""
    begun = time.monotonic()
    with temporary_directory("concord-fuzz-") as directory:
        node = node_at(directory)

        async def run() -> FuzzResult:
            async with running(node):
                numbers = track(range(first, first + count), description=f"seed {seed}")
                return await fuzz(node, iter(numbers), seed)

        result = asyncio.run(run())
    seconds = time.monotonic() - begun
    answers = ", ".join(f"{n} x {status}" for status, n in sorted(result.statuses.items()))
    print(f"{sum(result.statuses.values())} answers in {seconds:.0f} s: {answers}")
    for failure in result.failures[:50]:
        print(f"\n{failure}"[:3000], file=sys.stderr)
    if result.failures:
        print(f"\n{len(result.failures)} failures", file=sys.stderr)
        raise SystemExit(1)


if __name__ == "__main__":
    typer.run(main)
