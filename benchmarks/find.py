"""Filtered and sorted pages of a collection, against a GET of one entity of the same node.

Requests bypass the cache of answers, so all answers come from the database. Only the size of a
whole collection is cached; without writes, each page validates it and need not count again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from benchmarks.figure import Aim, Figure, middle
from benchmarks.load import Connection, connected, get_request, send_request
from benchmarks.process import node
from benchmarks.size import Size

_SCHEMAS = 10_000
_AT_ONCE = 500
_COLLECTION = "/schemagroups/g/schemas"
_ANEW = "Cache-Control: no-cache\r\n"

Made = Callable[[int], str]


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure each kind of page in milliseconds, one request at a time."""
    async with node(directory, "find-node") as url, connected(url, 1) as (connection,):
        await _write(connection, url)
        found = {"one": _one, **{name: path for name, (path, _) in _PAGES.items()}}
        spent: dict[str, list[float]] = {name: [] for name in found}
        numbers = itertools.count()
        for turn in range(size.rounds + 1):
            for name, path in found.items():
                taken = await _measure(connection, url, path, numbers, size.round_seconds)
                if turn:
                    spent[name].append(taken)
    baseline = middle(spent["one"])
    return [
        Figure(
            name=name,
            unit="ms",
            value=middle(spent[name]),
            baseline=baseline,
            aim=Aim(bound=most, of_ratio=True, is_most=True),
            note=f"of {_SCHEMAS:,} schemas; the baseline is a GET of one of them",
        )
        for name, (_, most) in _PAGES.items()
    ]


def _one(number: int) -> str:
    return f"{_COLLECTION}/s{number * 37 % _SCHEMAS}$details"


def _filtered(number: int) -> str:
    return f"{_COLLECTION}?filter=labels.team=t{number * 37 % _SCHEMAS}"


def _sorted(number: int) -> str:
    return f"{_COLLECTION}?sort=name{'=desc' if number % 2 else ''}&limit=100"


_PAGES: dict[str, tuple[Made, float]] = {
    "Equality filter": (_filtered, 3),
    "Sorted page of 100": (_sorted, 10),
}


async def _write(connection: Connection, url: str) -> None:
    for first in range(0, _SCHEMAS, _AT_ONCE):
        schemas = {f"s{n}": _schema(n) for n in range(first, first + _AT_ONCE)}
        await connection.request(send_request("POST", url, _COLLECTION, orjson.dumps(schemas)))


def _schema(number: int) -> dict[str, object]:
    return {
        "name": f"Schema {number * 7919 % _SCHEMAS:05d}",
        "format": "Text/1.0",
        "labels": {"team": f"t{number}", "stage": "prod" if number % 3 else "dev"},
        "contenttype": "text/plain",
        "schema": f"A value that station {number} reports.",
    }


async def _measure(
    connection: Connection, url: str, path: Made, numbers: Iterator[int], seconds: float
) -> float:
    """The mean time of a request, in milliseconds."""
    deadline, done = time.perf_counter() + seconds, 0
    started = time.perf_counter()
    while time.perf_counter() < deadline:
        await connection.request(get_request(url, path(next(numbers)), _ANEW))
        done += 1
    return (time.perf_counter() - started) / done * 1000
