"""The pages of the console over a large catalog, one request after another.

The node has a hundred thousand entities, follows 59 catalogs that tell of links of their own, and
has subscriptions, and a comparison with a thousand findings. Of a kind of pages, each request asks
for another one, where there are several.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
import sys
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from benchmarks.bootstrap import seed, until
from benchmarks.figure import Aim, Figure, middle, percentile
from benchmarks.load import Connection, body_of, connected, get_request, send_request
from benchmarks.process import free_port, node_process, server
from benchmarks.processor import family_seconds, postmaster_of, processor_seconds
from benchmarks.sinks import addresses
from benchmarks.size import Size
from benchmarks.sources import authority_of
from benchmarks.subscribe import create_all
from catalog.client import Client
from catalog.operations.federation import READ_FEDERATION
from catalog.operations.links import NewLink
from catalog.operations.reconciliations import (
    MOST_FINDINGS,
    TELL_FINDINGS,
    TELL_RECONCILIATION,
    ComparedCatalog,
    ComparisonFinding,
    NewFindings,
    NewReconciliation,
)

_MESSAGES = 100
_SCHEMAS = 10
_PEERS = 59
_LINKS_OF_PEER = 3
_SUBSCRIPTIONS = 100
_FINDINGS = 1000
_GROUP = "/console/e/messagegroups/g{group}"
_MESSAGE = f"{_GROUP}/messages/m{{message}}"
_SCHEMA = "/console/e/schemagroups/stations/schemas/m{schema}"
_TABS = ("changes", "uses", "copies", "access", "raw")
_RUN = uuid.UUID("7a3c2e1e-2d0c-4d5f-8a3e-0c9f2f3b1a11")
# The words of real searches: of few entities, of some, and of all.
_SEARCHES = ("m{message}", "g{group}", "com.example.stations.m{message}", "measurement", "st")
_PAGES: Mapping[str, Sequence[str]] = {
    "start": ("/console",),
    "search": tuple(f"/console/search?q={words}" for words in _SEARCHES),
    "catalog": ("/console/e",),
    "collection": (
        "/console/e/messagegroups",
        f"{_GROUP}/messages",
        "/console/e/messagegroups?after=g{group}",
    ),
    "collection, by id": (
        "/console/e/messagegroups?id={group}",
        f"{_GROUP}/messages?id={{schema}}",
    ),
    "group": (_GROUP, *(f"{_GROUP}?tab={tab}" for tab in _TABS)),
    "message": (_MESSAGE, f"{_MESSAGE}?tab=schema", f"{_MESSAGE}?tab=versions"),
    "message, further tabs": tuple(f"{_MESSAGE}?tab={tab}" for tab in _TABS),
    "schema": (_SCHEMA, f"{_SCHEMA}?tab=schema", f"{_SCHEMA}?tab=versions"),
    "schema, used by each group": (f"{_SCHEMA}?tab=uses", f"{_SCHEMA}?tab=uses&through=others"),
    "forms of an entity": (
        "/console/edit/messagegroups/g{group}/messages/m{message}",
        "/console/new/entity?in=/messagegroups/g{group}/messages",
        "/console/delete/messagegroups/g{group}",
    ),
    "changes": (
        "/console/changes",
        "/console/changes?path=/messagegroups/g{group}",
        "/console/changes?since=day",
        "/console/changes?who=nobody",
    ),
    "change": ("/console/changes/{change}",),
    "audit": ("/console/audit", "/console/audit?path=/messagegroups/g{group}"),
    "federation": ("/console/federation",),
    "link": ("/console/federation/{link}",),
    "authority": ("/console/authority?of={own}", "/console/authority?of={authority}"),
    "subscriptions": ("/console/subscriptions",),
    "subscription": ("/console/subscriptions/{subscription}",),
    "dead letters": ("/console/subscriptions/{subscription}/deadletters",),
    "comparisons": ("/console/comparisons", "/console/comparisons?finding=stale&after={message}"),
    "finding": (f"/console/comparisons/{_RUN}/{{message}}",),
    "operation": ("/console/operation", "/console/operation?checks=here"),
    "operation, further tabs": tuple(
        f"/console/operation/{tab}" for tab in ("settings", "access", "authority")
    ),
    "check, live, forms": (
        "/console/check",
        "/console/live",
        "/console/new/link",
        "/console/new/subscription",
    ),
}
_STATIC = re.compile(rb'"(/console/static/[^"]+\.(?:css|js))"')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """A node, the process ids of the node and of its database, and a connection to the node."""

    url: str
    pid: int
    database: int
    connection: Connection

    async def get(self, path: str, headers: str = "") -> bytes:
        return body_of(await self.connection.request(get_request(self.url, path, headers)))

    @property
    def spent(self) -> float:
        """The seconds of a core that node and database have taken."""
        return processor_seconds(self.pid) + family_seconds(self.database)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """The times of requests for pages, and the processor time of one, in milliseconds."""

    times: Sequence[float]
    processor: float
    size: int


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure milliseconds for each kind of pages, and the bytes of scripts and style."""
    groups = size.schemas // (2 * _MESSAGES)
    async with _bench(directory, groups) as bench:
        named = await _names(bench)
        for paths in _PAGES.values():
            await _measure(bench, paths, named, groups, len(paths))
        found = {
            name: await _measure(bench, paths, named, groups, 10 * size.rounds * len(paths))
            for name, paths in _PAGES.items()
        }
        first = await _first_visit(bench)
    slowest = max(found, key=lambda name: middle(found[name].times))
    return [
        *(_figure(name, measured) for name, measured in found.items()),
        Figure(
            name="Console: median of the slowest pages",
            unit="ms",
            value=middle(found[slowest].times),
            aim=Aim(bound=100, is_most=True),
            note=slowest,
        ),
        Figure(
            name="Console: scripts and style of a first visit",
            unit="kB",
            value=first / 1000,
            aim=Aim(bound=60, is_most=True),
            note="compressed, of all pages",
        ),
    ]


def _figure(name: str, measured: _Measured) -> Figure:
    return Figure(
        name=f"Console: {name}, p95",
        unit="ms",
        value=percentile(measured.times, 95),
        aim=Aim(bound=200 if name == "federation" else 300, is_most=True),
        note=f"p50 {middle(measured.times):.0f}, processor {measured.processor:.0f}; "
        f"{measured.size / 1000:.0f} kB",
    )


@contextlib.asynccontextmanager
async def _bench(directory: Path, groups: int) -> AsyncIterator[_Bench]:
    name, hosts = "console", addresses(_PEERS)
    command = [sys.executable, "-m", "benchmarks.sources"]
    command += ["--silent", str(free_port()), "--links", str(_LINKS_OF_PEER)]
    async with (
        node_process(directory, name) as (url, pid),
        server(command, directory, f"{name}-sources") as (_, port),
        Client.open(url) as client,
    ):
        await _fill(url, client, groups)
        for host in hosts:
            link = {"id": host, "source": f"http://{host}:{port}", "mode": "pull"}
            await client.add_link(NewLink(**link))
        await until(lambda: _has_gathered(client))
        database = postmaster_of(directory / name)
        async with connected(url, 1) as (connection,):
            yield _Bench(url=url, pid=pid, database=database, connection=connection)


async def _fill(url: str, client: Client, groups: int) -> None:
    async with connected(url, 1) as (connection,):
        await connection.request(send_request("POST", url, "/", orjson.dumps(_schemas())))
    await seed(url, groups, _MESSAGES)
    await create_all(url, [_subscription(number) for number in range(_SUBSCRIPTIONS)])
    await _compare(client, groups)


def _schemas() -> dict[str, Any]:
    """The schemas that messages refer to: each of the messages with a number has the same."""

    def version(fields: int) -> dict[str, Any]:
        names = {f"field{n}": {"type": "string", "description": "A value."} for n in range(fields)}
        return {"format": "JsonSchema/draft-07", "schema": {"type": "object", "properties": names}}

    versions = {str(number): version(30 + number) for number in range(1, 4)}
    schemas = {f"m{number}": {"versions": versions} for number in range(_SCHEMAS)}
    return {"schemagroups": {"stations": {"schemas": schemas}}}


def _subscription(number: int) -> dict[str, Any]:
    """A subscription to a group, whose sink refuses connections."""
    wanted = [{"prefix": {"subject": f"/messagegroups/g{number}/"}}]
    return {"sink": "http://127.0.0.1:9/hook", "protocol": "HTTP", "filters": wanted}


async def _compare(client: Client, groups: int) -> None:
    """Report a comparison with findings."""
    own, now = (await client.handshake()).authority, datetime.now(UTC)
    found = NewReconciliation(
        run=_RUN,
        startedat=now,
        endedat=now,
        outcome="different",
        name="here",
        catalogs=["here", "there"],
        findings={"stale": _FINDINGS},
    )
    await client.call(TELL_RECONCILIATION, found)
    compared = [
        ComparedCatalog(name="here", authority=own, findings={"stale": _FINDINGS}),
        ComparedCatalog(name="there", authority="urn:there"),
    ]
    findings = [
        ComparisonFinding(
            finding="stale",
            catalog="here",
            authority="urn:there",
            origin=f"/messagegroups/g{number % groups}/messages/m{number % _MESSAGES}",
            xid=f"/messagegroups/g{number % groups}/messages/m{number % _MESSAGES}",
            epoch=1,
            reference="there",
            referenceepoch=2,
        )
        for number in range(_FINDINGS)
    ]
    for first in range(0, _FINDINGS, MOST_FINDINGS):
        part = findings[first : first + MOST_FINDINGS]
        told = NewFindings(compared=compared, first=first, findings=part)
        await client.call(TELL_FINDINGS, told, run=str(_RUN))


async def _has_gathered(client: Client) -> bool:
    await asyncio.sleep(1)
    catalogs = (await client.call(READ_FEDERATION)).catalogs
    return len(catalogs) > _PEERS and all(each.links for each in catalogs)


async def _names(bench: _Bench) -> dict[str, str]:
    """What paths of pages name beside numbers."""
    host = addresses(1)[0]
    changes = orjson.loads(await bench.get("/-/changes?limit=1"))["changes"]
    subscriptions = orjson.loads(await bench.get("/subscriptions"))
    return {
        "change": changes[0]["sequence"],
        "subscription": subscriptions[0]["id"],
        "link": host,
        "authority": authority_of(host),
        "own": orjson.loads(await bench.get("/replication"))["authority"],
    }


async def _measure(
    bench: _Bench, paths: Sequence[str], named: Mapping[str, str], groups: int, count: int
) -> _Measured:
    times, bytes_, spent = [], 0, bench.spent
    for number in range(count):
        # Each request is for a page that no request before was for.
        numbers = {"group": number * 7 % groups, "message": number % _MESSAGES}
        path = paths[number % len(paths)].format(**numbers, schema=number % _SCHEMAS, **named)
        started = time.perf_counter()
        bytes_ += len(await bench.get(path))
        times.append((time.perf_counter() - started) * 1000)
    processor = (bench.spent - spent) / count * 1000
    return _Measured(times=times, processor=processor, size=bytes_ // count)


async def _first_visit(bench: _Bench) -> int:
    """The bytes of the scripts and the style of all pages, compressed as the node sends them."""
    pages = [await bench.get(path) for path in ("/console", "/console/check", "/console/live")]
    named = {path.decode() for page in pages for path in _STATIC.findall(page)}
    bodies = [await bench.get(path, "Accept-Encoding: gzip\r\n") for path in sorted(named)]
    assert all(gzip.decompress(body) for body in bodies), "they are compressed"
    return sum(map(len, bodies))
