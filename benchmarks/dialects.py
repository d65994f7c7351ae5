"""The cost of the translation between a dialect and the native model, against a native request.

Each translation is timed as a pure function. The whole request through the dialect is timed,
too, because it may read or lock more than the native one.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks.figure import Aim, Figure, middle
from benchmarks.load import Connection, connected, get_request, send_request
from benchmarks.messages import message
from benchmarks.process import node
from benchmarks.size import Size
from catalog.dialects.discovery.events import StoredService
from catalog.dialects.discovery.translate import from_entities, to_entities
from catalog.dialects.messagecatalog.translate import show_version, version_to_entity
from catalog.dialects.registry04.translate import from_entity, to_entity
from catalog.model.entity import Entity
from catalog.model.timestamps import parse_time

_ENTITIES = 100
_EVENTS = 5
_TRANSLATIONS = 200
_ANEW = "Cache-Control: no-cache\r\n"
_AUTHORITY = "https://stations.example.com"
_GROUP, _PLURAL = "/messagegroups/g", "messages"
_ALL_EVENTS = {f"e{n}": message(f"e{n}") for n in range(_EVENTS)}

Request = Callable[[str, int], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A native request, its equivalent through a dialect, and the translation alone."""

    name: str
    native: Request
    whole: Request
    translate: Callable[[], object]


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure each translation in microseconds; the baseline is the native request."""
    async with node(directory, "dialect-node") as url, connected(url, 1) as (connection,):
        await _write(connection, url)
        cases = _cases()
        spent: dict[tuple[str, str], list[float]] = {}
        numbers = itertools.count()
        for turn in range(size.rounds + 1):
            for case in cases:
                taken = {
                    "native": await _measure(connection, url, case.native, numbers, size),
                    "whole": await _measure(connection, url, case.whole, numbers, size),
                    "translation": _time(case.translate),
                }
                for what, seconds in taken.items():
                    if turn:
                        spent.setdefault((case.name, what), []).append(seconds * 1e6)
    return [_figure(case.name, spent) for case in cases]


def _figure(name: str, spent: Mapping[tuple[str, str], list[float]]) -> Figure:
    native, whole = middle(spent[name, "native"]), middle(spent[name, "whole"])
    return Figure(
        name=name,
        unit="µs",
        value=middle(spent[name, "translation"]),
        baseline=native,
        aim=Aim(bound=0.2, of_ratio=True, is_most=True),
        note=f"the whole request through the dialect takes {whole / native:.1f} of the native one",
    )


def _cases() -> list[Case]:
    version, resource = _stored()
    held = StoredService(id="e0", attributes=_endpoint(0), messages=_ALL_EVENTS)
    service = from_entities(held, _AUTHORITY)
    definition = show_version(version, resource, _AUTHORITY)
    older = from_entity("definition", version.attributes)
    return [
        Case(
            name="Message Catalog, read",
            native=_getting(lambda n: f"{_GROUP}/{_PLURAL}/m{n}"),
            whole=_getting(lambda n: f"/messagecatalog/g/messagedefinitions/m{n}"),
            translate=lambda: show_version(version, resource, _AUTHORITY),
        ),
        Case(
            name="Message Catalog, write",
            native=_sending("POST", lambda n: f"{_GROUP}/{_PLURAL}/m{n}", _message),
            whole=_sending(
                "POST", lambda n: "/messagecatalog/g/messagedefinitions", _definition(definition)
            ),
            translate=lambda: version_to_entity("m0", definition, "CloudEvents", "/"),
        ),
        Case(
            name="CloudEvents Registry 0.4, read",
            native=_getting(lambda n: f"{_GROUP}/{_PLURAL}/m{n}"),
            whole=_getting(lambda n: f"/registry/0.4/definitionGroups/g/definitions/m{n}"),
            translate=lambda: from_entity("definition", version.attributes),
        ),
        Case(
            name="CloudEvents Registry 0.4, write",
            native=_sending("PUT", lambda n: f"{_GROUP}/{_PLURAL}/m{n}", _message),
            whole=_sending(
                "PUT",
                lambda n: f"/registry/0.4/definitionGroups/g/definitions/m{n}",
                lambda n: older,
            ),
            translate=lambda: to_entity("definition", older),
        ),
        Case(
            name="Discovery, read",
            native=_getting(lambda n: f"/endpoints/{_id(n)}?inline=messages"),
            whole=_getting(lambda n: f"/services/{_id(n)}"),
            translate=lambda: from_entities(held, _AUTHORITY),
        ),
        Case(
            name="Discovery, write",
            native=_sending("PATCH", lambda n: f"/endpoints/{_id(n)}", _with_events),
            whole=_sending("PUT", lambda n: f"/services/{_id(n)}", _named(service)),
            translate=lambda: to_entities({**service, "name": "new"}, held, _AUTHORITY),
        ),
    ]


def _stored() -> tuple[Entity, Entity]:
    """A version and its message, as the store has them."""
    at = parse_time("2026-01-01T00:00:00Z")
    common: dict[str, Any] = {
        "authority": _AUTHORITY,
        "epoch": 1,
        "createdat": at,
        "modifiedat": at,
    }
    xid = f"{_GROUP}/{_PLURAL}/m0"
    version = Entity(
        xid=f"{xid}/versions/1",
        origin=f"{xid}/versions/1",
        kind="version",
        attributes=_message(0),
        **common,
    ).sealed()
    meta = {"defaultversionid": "1"}
    resource = Entity(xid=xid, origin=xid, kind="resource", attributes=meta, **common).sealed()
    return version, resource


def _message(number: int) -> dict[str, Any]:
    name = f"m{number % _ENTITIES}"
    shown = message(name, f"Revision {number}.")
    shown["envelopemetadata"]["type"]["value"] = name
    return shown


def _id(number: int) -> str:
    return str(uuid.UUID(int=number % _ENTITIES + 2**80))


def _endpoint(number: int) -> dict[str, Any]:
    return {
        "name": f"Service {number}",
        "usage": ["subscriber"],
        "envelope": "CloudEvents/1.0",
        "protocol": "HTTP",
    }


def _with_events(number: int) -> dict[str, Any]:
    name = f"Service {number % _ENTITIES} in revision {number}"
    return {**_endpoint(number), "name": name, "messages": _ALL_EVENTS}


def _definition(shown: Mapping[str, Any]) -> Callable[[int], dict[str, Any]]:
    served = ("version", "createdtimeutc", "updatedtimeutc", "authority")
    given = {name: value for name, value in shown.items() if name not in served}
    attributes = given["definition"]["attributes"]

    def body(number: int) -> dict[str, Any]:
        name = f"m{number % _ENTITIES}"
        named = {**attributes, "type": {"value": name}}
        return {**given, "id": name, "definition": {**given["definition"], "attributes": named}}

    return body


def _named(service: Mapping[str, Any]) -> Callable[[int], dict[str, Any]]:
    def body(number: int) -> dict[str, Any]:
        return {**service, "id": _id(number), "name": f"Service {number % _ENTITIES} of {number}"}

    return body


async def _write(connection: Connection, url: str) -> None:
    messages = {f"m{n}": _message(n) for n in range(_ENTITIES)}
    groups = {
        "messagegroups": {"g": {"envelope": "CloudEvents/1.0", "messages": messages}},
        "endpoints": {_id(n): {**_endpoint(n), "messages": _ALL_EVENTS} for n in range(_ENTITIES)},
    }
    await connection.request(send_request("POST", url, "/", orjson.dumps(groups)))


def _getting(path: Callable[[int], str]) -> Request:
    return lambda url, number: get_request(url, path(number % _ENTITIES), _ANEW)


def _sending(method: str, path: Callable[[int], str], body: Callable[[int], Any]) -> Request:
    return lambda url, number: send_request(
        method, url, path(number % _ENTITIES), orjson.dumps(body(number))
    )


async def _measure(
    connection: Connection, url: str, made: Request, numbers: Iterator[int], size: Size
) -> float:
    """The mean time of a request, in seconds."""
    deadline, done = time.perf_counter() + size.round_seconds, 0
    started = time.perf_counter()
    while time.perf_counter() < deadline:
        await connection.request(made(url, next(numbers)))
        done += 1
    return (time.perf_counter() - started) / done


def _time(translate: Callable[[], object]) -> float:
    """The mean time of a translation, in seconds."""
    started = time.perf_counter()
    for _ in range(_TRANSLATIONS):
        translate()
    return (time.perf_counter() - started) / _TRANSLATIONS
