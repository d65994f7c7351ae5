"""Search by words as somebody types them, one request at a time.

The words are those of descriptions and ids of messages; each is searched for with each of its
beginnings.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from urllib.parse import urlencode

import orjson

from benchmarks.figure import Aim, Figure, middle, percentile
from benchmarks.load import Connection, connected, get_request, send_request
from benchmarks.process import node
from benchmarks.size import Size

_PER_GROUP = 500
_WORDS = 3000
_SEARCHES = 100
_SYLLABLES = (
    "or",
    "der",
    "pay",
    "ment",
    "stock",
    "ship",
    "cus",
    "tom",
    "er",
    "in",
    "voice",
    "cart",
)
_CREATED = ("Created", "Updated", "Deleted", "Paid", "Moved")


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure searches in milliseconds: the median, and the 95th percentile."""
    drawn = random.Random(1)
    words = ["".join(drawn.choices(_SYLLABLES, k=drawn.randint(1, 4))) for _ in range(_WORDS)]
    # A few words are much more frequent than the others, as in texts.
    weights = [1 / (place + 5) for place in range(_WORDS)]
    async with node(directory, "search-node") as url, connected(url, 1) as (connection,):
        for first in range(0, size.schemas, _PER_GROUP):
            body = orjson.dumps(_messages(drawn, words, weights))
            path = f"/messagegroups/g{first}/messages"
            await connection.request(send_request("POST", url, path, body))
        spent = [
            await _measure(connection, url, typed)
            for word in drawn.choices(words, weights, k=_SEARCHES)
            for typed in (word[:length] for length in range(1, len(word) + 1))
        ]
    note = f"of {size.schemas:,} messages, {len(spent)} searches"
    return [
        Figure(name="Search as typed, median", unit="ms", value=middle(spent), note=note),
        Figure(
            name="Search as typed, 95th percentile",
            unit="ms",
            value=percentile(spent, 95),
            aim=Aim(bound=300, is_most=True),
            note=note,
        ),
    ]


def _messages(
    drawn: random.Random, words: list[str], weights: list[float]
) -> dict[str, dict[str, str]]:
    def draw(number: int) -> list[str]:
        return drawn.choices(words, weights, k=number)

    return {
        f"com.{'.'.join(draw(2))}{drawn.choice(_CREATED)}{number}": {
            "name": " ".join(draw(3)),
            "description": " ".join(draw(12)),
        }
        for number in range(_PER_GROUP)
    }


async def _measure(connection: Connection, url: str, typed: str) -> float:
    """The time of a search, in milliseconds."""
    path = f"/-/search?{urlencode({'q': typed})}"
    started = time.perf_counter()
    await connection.request(get_request(url, path))
    return (time.perf_counter() - started) * 1000
