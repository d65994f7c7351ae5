"""Filters of a caller who may see 1,000 groups by one rule, against one who may see everything.

The groups are all that there are, so both get the same answers. None comes from the cache.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import orjson

from benchmarks.figure import Aim, Figure, middle
from benchmarks.load import Connection, connected, get_request, send_request
from benchmarks.process import node
from benchmarks.size import Size
from catalog.access.owntokens import make_token
from catalog.model.roles import Grant
from catalog.node.noderuntime import open_database
from catalog.settings import Settings
from catalog.store.accessrules import AccessRule, add_rule

_GROUPS = 1000
_SCHEMAS = 10
_AT_ONCE = 50
_ANEW = "Cache-Control: no-cache\r\n"
_NAME = "restricted-node"

Made = Callable[[int], str]
_PATHS: dict[str, tuple[Made, float]] = {
    "Equality filter across groups, restricted": (
        lambda number: f"/schemagroups?filter=schemas.labels.team=t{number * 37 % 500}",
        1.2,
    ),
    "Wildcard filter across groups, restricted": (
        lambda number: f"/schemagroups?filter=schemas.name=*{number % 10}7&limit=20",
        1.2,
    ),
}


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure each filter in milliseconds, one request at a time."""
    whole, restricted = await _make_tokens(directory / _NAME)
    spent: dict[str, dict[str, list[float]]] = {
        name: {whole: [], restricted: []} for name in _PATHS
    }
    async with (
        node(directory, _NAME, OPEN="false") as url,
        connected(url, 1) as (connection,),
    ):
        await _write(connection, url, whole)
        numbers = itertools.count()
        for turn in range(size.rounds + 1):
            for name, (path, _) in _PATHS.items():
                taken = spent[name] if turn else {whole: [], restricted: []}
                await _measure(connection, url, path, taken, numbers, 2 * size.round_seconds)
    return [
        Figure(
            name=name,
            unit="ms",
            value=middle(spent[name][restricted]),
            baseline=middle(spent[name][whole]),
            aim=Aim(bound=most, of_ratio=True, is_most=True),
            note=f"{_GROUPS * _SCHEMAS:,} schemas in {_GROUPS:,} groups, all granted by one rule",
        )
        for name, (_, most) in _PATHS.items()
    ]


async def _make_tokens(data: Path) -> tuple[str, str]:
    """The headers of a caller who may see and write everything, and of one who may see groups."""
    paths = [f"/schemagroups/g{number}" for number in range(_GROUPS)]
    now = datetime.now(UTC)
    async with (
        open_database(Settings(data_dir=data)) as database,
        database.transaction() as connection,
    ):
        _, whole = await make_token(connection, name="", grants=(Grant("writer"),), expiresat=None)
        made, restricted = await make_token(connection, name="", grants=(), expiresat=None)
        rule = AccessRule(
            id="all", who=f"token={made.id}", role="reader", createdat=now, createdby=""
        )
        await add_rule(connection, rule, paths)
    return (f"Authorization: Bearer {whole}\r\n", f"Authorization: Bearer {restricted}\r\n")


async def _write(connection: Connection, url: str, token: str) -> None:
    for first in range(0, _GROUPS, _AT_ONCE):
        groups = {f"g{group}": _group(group) for group in range(first, first + _AT_ONCE)}
        body = orjson.dumps(groups)
        await connection.request(send_request("POST", url, "/schemagroups", body, token))


def _group(number: int) -> dict[str, object]:
    return {
        "schemas": {
            f"s{schema}": {
                "name": f"Schema {number * _SCHEMAS + schema:05d}",
                "format": "Text/1.0",
                "labels": {"team": f"t{(number * _SCHEMAS + schema) % 500}"},
                "contenttype": "text/plain",
                "schema": f"A value that station {number} reports.",
            }
            for schema in range(_SCHEMAS)
        }
    }


async def _measure(
    connection: Connection,
    url: str,
    path: Made,
    spent: Mapping[str, list[float]],
    numbers: Iterator[int],
    seconds: float,
) -> None:
    """Add the milliseconds of requests of each caller, in turn: what else runs disturbs both."""
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        asked = path(next(numbers))
        for token, taken in spent.items():
            began = time.perf_counter()
            await connection.request(get_request(url, asked, _ANEW + token))
            taken.append((time.perf_counter() - began) * 1000)
