"""The Confluent API: reads, registrations and lists, against the native API and a small catalog.

Serializers register a known schema at every start, and consumers read schemas by id.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import orjson

from benchmarks.confluent_schemas import fill, guid, text
from benchmarks.figure import Aim, Figure, middle, spread
from benchmarks.load import (
    Connection,
    body_of,
    connected,
    get_request,
    requesting,
    run_load,
    send_request,
)
from benchmarks.process import node
from benchmarks.size import Size

_KNOWN = 96
_FEW = 1000
_SHARE = 10
_ANEW = "Cache-Control: no-cache\r\n"
_SCHEMAS = "/schemagroups/native/schemas"
_numbers = itertools.count(_KNOWN)

Streams = Callable[[str, int, int], Iterator[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Requests of the Confluent API, and their native counterparts."""

    name: str
    requests: Streams
    native: Streams
    connections: int
    least: float | None = None
    note: str


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure requests against native ones, then look-ups and lists in catalogs of two sizes."""
    async with node(directory, "confluent-node") as url:
        ids = await _write_known(url)
        figures = [await _compare(case, size, url) for case in _cases(size, ids)]
    few, many = {"all": _FEW}, {"all": size.schemas, "tenth": size.schemas // _SHARE}
    await fill(directory / "confluent-few", few)
    await fill(directory / "confluent-many", many)
    async with (
        node(directory, "confluent-few") as few_url,
        node(directory, "confluent-many") as many_url,
        connected(few_url, 1) as (to_few,),
        connected(many_url, 1) as (to_many,),
    ):
        sides = _Side(few_url, to_few, _FEW), _Side(many_url, to_many, size.schemas)
        for name, path in (("id", _path_of_id), ("GUID", _path_of_guid)):
            figures.append(await _look_up(f"Confluent: look-up by {name}", size, sides, path))
        figures.append(await _list(size, many_url, to_many))
    return figures


def _cases(size: Size, ids: list[int]) -> list[Case]:
    def by_id(url: str, first: int, step: int) -> Iterator[bytes]:
        paths = [f"/confluent/schemas/ids/{id}" for id in ids[first::step]]
        return itertools.cycle([get_request(url, path) for path in paths])

    reading = {"connections": size.connections}
    cases = [
        Case(
            name="Confluent: GET by id, remembered",
            requests=by_id,
            native=_natives(""),
            least=0.8,
            note="the baseline is a remembered GET of a schema's metadata",
            **reading,
        ),
        Case(
            name="Confluent: known schema, remembered",
            requests=_known(""),
            native=_natives(""),
            least=0.5,
            note="POST of a schema that the subject has; the same baseline",
            **reading,
        ),
        Case(
            name="Confluent: known schema, from the database",
            requests=_known(_ANEW),
            native=_natives(_ANEW),
            note="the baseline is a GET from the database; no aim",
            **reading,
        ),
    ]
    return cases + [
        Case(
            name=f"Confluent: new schema, {connections} at a time",
            requests=_registrations,
            native=_creations,
            connections=connections,
            least=0.7,
            note="all in one group; the baseline is a PUT of a new schema with a document",
        )
        for connections in (1, size.connections)
    ]


def _registration(url: str, number: int, headers: str = "") -> bytes:
    path = f"/confluent/subjects/s{number}/versions"
    body = orjson.dumps({"schema": text(number)})
    return send_request("POST", url, path, body, headers)


def _creation(url: str, number: int) -> bytes:
    schema = orjson.loads(text(number))
    body = {"format": "Avro", "contenttype": "application/json", "schema": schema}
    return send_request("PUT", url, f"{_SCHEMAS}/s{number}$details", orjson.dumps(body))


def _registrations(url: str, first: int, step: int) -> Iterator[bytes]:
    del first, step
    return (_registration(url, number) for number in _numbers)


def _creations(url: str, first: int, step: int) -> Iterator[bytes]:
    del first, step
    return (_creation(url, number) for number in _numbers)


def _known(headers: str) -> Streams:
    return lambda url, first, step: itertools.cycle(
        [_registration(url, number, headers) for number in range(first, _KNOWN, step)]
    )


def _natives(headers: str) -> Streams:
    return lambda url, first, step: itertools.cycle(
        [
            get_request(url, f"{_SCHEMAS}/s{number}$details", headers)
            for number in range(first, _KNOWN, step)
        ]
    )


async def _write_known(url: str) -> list[int]:
    """Write the known schemas in both APIs; return their ids."""
    ids = []
    async with requesting(url, 1) as request:
        for number in range(_KNOWN):
            ids.append(orjson.loads(body_of(await request(_registration(url, number))))["id"])
            await request(_creation(url, number))
    return ids


async def _compare(case: Case, size: Size, url: str) -> Figure:
    made = {
        streams: [streams(url, first, case.connections) for first in range(case.connections)]
        for streams in (case.requests, case.native)
    }
    rates: dict[Streams, list[float]] = {streams: [] for streams in made}
    for turn in range(size.rounds + 1):
        for streams, found in rates.items():
            done = await run_load(url, made[streams], size.round_seconds)
            if turn:
                found.append(done.rate)
    own, native = rates.values()
    return Figure(
        name=case.name,
        unit="requests/s",
        value=middle(own),
        baseline=middle(native),
        aim=Aim(bound=case.least, of_ratio=True) if case.least else None,
        note=f"{case.note}; {spread(own, native)}",
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """A catalog of one of the two sizes."""

    url: str
    connection: Connection
    schemas: int


def _path_of_id(number: int) -> str:
    return f"/confluent/contexts/.all/schemas/ids/{number + 1}"


def _path_of_guid(number: int) -> str:
    return f"/confluent/schemas/guids/{guid(number)}"


async def _look_up(
    name: str, size: Size, sides: tuple[_Side, _Side], path: Callable[[int], str]
) -> Figure:
    """Compare the median times of single requests, in turn: what else runs disturbs both."""
    spent: dict[_Side, list[float]] = {side: [] for side in sides}
    deadline = time.perf_counter() + size.rounds * size.round_seconds
    for turn in itertools.count():
        if time.perf_counter() > deadline:
            break
        for side in sides[:: -1 if turn % 2 else 1]:
            request = get_request(side.url, path(turn * 7919 % side.schemas), _ANEW)
            began = time.perf_counter()
            await side.connection.request(request)
            spent[side].append((time.perf_counter() - began) * 1000)
    few, many = sides
    return Figure(
        name=name,
        unit="ms",
        value=median(spent[many]),
        baseline=median(spent[few]),
        aim=Aim(bound=1.3, of_ratio=True, is_most=True),
        note=f"from the database, in a catalog of {many.schemas:,} schemas; the baseline is the "
        f"same in one of {few.schemas:,}",
    )


async def _list(size: Size, url: str, connection: Connection) -> Figure:
    counts = {"all": size.schemas, "tenth": size.schemas // _SHARE}
    spent: dict[str, list[float]] = {name: [] for name in counts}
    for turn in range(size.rounds + 1):
        for name, count in counts.items():
            began = time.perf_counter()
            request = get_request(url, f"/confluent/subjects?subjectPrefix=:.{name}:", _ANEW)
            response = await connection.request(request)
            seconds = time.perf_counter() - began
            assert len(orjson.loads(body_of(response))) == count, "the list is whole"
            if turn:
                spent[name].append(seconds / count * 1e6)
    return Figure(
        name="Confluent: list of subjects, each",
        unit="µs",
        value=middle(spent["all"]),
        baseline=middle(spent["tenth"]),
        aim=Aim(bound=1.3, of_ratio=True, is_most=True),
        note=f"of {counts['all']:,} in {middle(spent['all']) * counts['all'] / 1e6:.1f} s; the "
        f"baseline is a list of {counts['tenth']:,}",
    )
