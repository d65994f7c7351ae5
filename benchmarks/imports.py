"""Import of a document through `POST /`, against parsing it and copying its rows."""

from __future__ import annotations

import time
from pathlib import Path

import orjson

from benchmarks.figure import Aim, Figure, middle
from benchmarks.load import connected, send_request
from benchmarks.messages import IMPORTED_PER_GROUP, document, entities_in
from benchmarks.process import bare, node
from benchmarks.size import Size
from catalog.client import Client


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure entities and messages per second; each round imports new groups."""
    data = directory / "import-bare"
    async with (
        node(directory, "import-node") as url,
        bare(directory, "import-bare", "--directory", str(data)) as bare_url,
    ):
        seconds: dict[str, list[float]] = {url: [], bare_url: []}
        for number in range(size.import_rounds):
            body = orjson.dumps(document(f"r{number}g", size.import_groups, IMPORTED_PER_GROUP))
            for target, found in seconds.items():
                found.append(await _import_seconds(target, body))
        await _check(url, size)
    return _figures(size, middle(seconds[url]), middle(seconds[bare_url]), len(body))


async def _import_seconds(url: str, body: bytes) -> float:
    """Return the seconds that one `POST /` takes, until the end of its response."""
    async with connected(url, 1) as (connection,):
        started = time.perf_counter()
        await connection.request(send_request("POST", url, "/", body))
        return time.perf_counter() - started


async def _check(url: str, size: Size) -> None:
    """Raise `ValueError` unless all imported messages are there."""
    async with Client.open(url) as client:
        groups = [group async for _, group in client.items("/messagegroups")]
    counts = [group["messagescount"] for group in groups if "authority" not in group]
    if counts != [IMPORTED_PER_GROUP] * (size.import_groups * size.import_rounds):
        raise ValueError(f"{sum(counts)} messages in {len(counts)} groups were imported")


def _figures(size: Size, seconds: float, bare_seconds: float, length: int) -> list[Figure]:
    groups = size.import_groups
    messages = groups * IMPORTED_PER_GROUP
    entities = entities_in(groups, IMPORTED_PER_GROUP)
    return [
        Figure(
            name="Import through POST /",
            unit="entities/s",
            value=entities / seconds,
            baseline=entities / bare_seconds,
            aim=Aim(bound=3000),
            note=f"{groups:,} groups + {messages:,} messages + {messages:,} versions, "
            f"{length / 1e6:.1f} MB in {seconds:.1f} s",
        ),
        Figure(
            name="Import, messages alone",
            unit="messages/s",
            value=messages / seconds,
            baseline=messages / bare_seconds,
            note="the same runs, counted without groups and versions",
        ),
    ]
