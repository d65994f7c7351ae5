"""The demo of the wide topology: sources that reach a hub in different ways, and a consumer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog.client import Client, DigestRow, Refused
from catalog.commands.documentfile import DocumentFile, read_document
from catalog.commands.import_.importing import import_document
from catalog.demo.federation import Federation, free_ports
from catalog.demo.output import Screen, Unexpected, expect
from catalog.demo.staticserver import StaticServer, open_static_server
from catalog.demo.widelinks import (
    EDGE,
    HUB,
    SOURCES,
    WAYS,
    Joint,
    Source,
    follow_hub,
)

_CONVERGE_SECONDS = 180
_PAUSE_SECONDS = 0.1

Rows = Mapping[str, DigestRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAgreement:
    """The counts of a source's `expected` and `deleted` origins, and the `wrong` ones by node."""

    source: Source
    expected: int
    deleted: int
    wrong: Mapping[str, list[str]]


async def compare(
    federation: Federation, sources: Mapping[Source, StaticServer | None], *, verify: bool = False
) -> list[SourceAgreement]:
    """Compare the digests of hub and edge with the digests of the sources.

    A foreign server has no digests: the hub is compared with the server's paths, and the edge with
    the hub.

    Args:
        sources: the sources; a foreign source with its server, a node with `None`.
        verify: compute the digests anew from the content.
    """
    hub = await _held(federation.client(HUB), verify=verify)
    edge = await _held(federation.client(EDGE), verify=verify)
    found = []
    for source, server in sources.items():
        authority = source.authority if server is None else server.url
        here = {HUB: hub.get(authority, {}), EDGE: edge.get(authority, {})}
        if server is None:
            node = await _held(federation.client(source.name), verify=verify)
            there = node.get(authority, {})
            wrong = {name: _differences(there, rows) for name, rows in here.items()}
        else:
            there, paths = here[HUB], {*server.xids()}
            live = {origin for origin, row in there.items() if not row.is_deleted}
            wrong = {HUB: sorted(paths ^ live), EDGE: _differences(there, here[EDGE])}
        found.append(
            SourceAgreement(
                source=source,
                expected=len(there),
                deleted=sum(row.is_deleted for row in there.values()),
                wrong=wrong,
            )
        )
    return found


async def wait_until_equal(
    federation: Federation, sources: Mapping[Source, StaticServer | None]
) -> tuple[list[SourceAgreement], float]:
    """Wait until hub and edge hold exactly the entities that the sources control.

    Returns:
        the agreement with each source, and the seconds until hub and edge agreed.

    Raises:
        Unexpected: hub or edge differs for longer than three minutes.
    """
    began = time.monotonic()
    while True:
        found = await compare(federation, sources)
        wrong = [
            (each.source.name, name, origins)
            for each in found
            for name, origins in each.wrong.items()
            if origins
        ]
        took = time.monotonic() - began
        if not wrong:
            return found, took
        if took > _CONVERGE_SECONDS:
            source, name, origins = wrong[0]
            raise Unexpected(
                f"{name} to hold what {source} has",
                f"{len(origins)} origins differ, the first is {origins[0]}",
            )
        await asyncio.sleep(_PAUSE_SECONDS)


async def _held(client: Client, *, verify: bool) -> dict[str, dict[str, DigestRow]]:
    """The rows of a node by authority and origin."""
    found: dict[str, dict[str, DigestRow]] = {}
    for row in await client.digest_rows(verify=verify):
        # Every node has a registry entity of its own.
        if row.xid != "/":
            found.setdefault(row.authority, {})[row.origin] = row
    return found


def _differences(there: Rows, here: Rows) -> list[str]:
    origins = there.keys() | here.keys()
    return sorted(origin for origin in origins if there.get(origin) != here.get(origin))


STEPS = 7
_DATA = Path(__file__).parent / "data"
_ARRIVAL_SECONDS = 180
_HELD_BY = (HUB, EDGE)


def members(sources: tuple[Source, ...] = SOURCES) -> tuple[str, ...]:
    """The names of the nodes."""
    return (*(each.name for each in sources if not each.is_foreign), HUB, EDGE)


def member_settings(sources: tuple[Source, ...] = SOURCES) -> dict[str, dict[str, str]]:
    """The settings by node. No connection to the public URLs of the sources is possible."""
    found = {
        each.name: {
            "CONCORD_PUBLIC_URL": each.authority,
            # A node with a public name refuses private addresses by default; the hub has one.
            "CONCORD_ALLOW_PRIVATE_ADDRESSES": "true",
        }
        for each in sources
        if not each.is_foreign
    }
    # Foreign servers announce no changes, so the hub reads them at short intervals.
    return {**found, HUB: {"CONCORD_PULL_INTERVAL_SECONDS": "2"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class WideDemo:
    """The nodes, the screen, the sources with foreign servers, and the URL of a topic."""

    federation: Federation
    screen: Screen
    sources: Mapping[Source, StaticServer | None]
    topic: str

    def authority_of(self, source: Source) -> str:
        server = self.sources[source]
        return source.authority if server is None else server.url


@contextlib.asynccontextmanager
async def open_sources(
    sources: tuple[Source, ...] = SOURCES,
) -> AsyncIterator[dict[Source, StaticServer | None]]:
    """The sources; a foreign source with its running server."""
    found: dict[Source, StaticServer | None] = {}
    async with contextlib.AsyncExitStack() as stack:
        for source in sources:
            found[source] = None
            if source.is_foreign:
                groups = _merged(_documents_of(source))
                [port] = free_ports(1)
                found[source] = await stack.enter_async_context(
                    open_static_server(source.name, groups, port)
                )
        yield found


async def run_wide_steps(demo: WideDemo) -> None:
    """Run the steps of the demo.

    Raises:
        Unexpected: a step did not have the expected result.
    """
    await _start(demo)
    await _link(demo)
    await _import(demo)
    await _converge(demo)
    await _show_arrivals(demo)
    await _survive_outage(demo)
    await _conclude(demo)


async def _start(demo: WideDemo) -> None:
    demo.screen.step("Start the catalogs")
    demo.screen.say(
        f"{len(demo.sources)} sources, a hub that gathers from them, and an edge that reads the "
        "hub only. An arrow shows where changes go, its label how:\n"
    )
    demo.screen.say(_picture(demo) + "\n")
    await demo.federation.start(*demo.federation.members)
    rows = []
    for source, server in demo.sources.items():
        software = "Concord" if server is None else "another"
        connects = WAYS[source.way].connects
        rows.append((source.name, software, demo.authority_of(source), connects))
    for name, connects in ((HUB, "others connect to it"), (EDGE, "it connects to hub")):
        rows.append((name, "Concord", demo.federation[name].url, connects))
    demo.screen.table("name", "software", "URL, its authority", "connections", rows=rows)
    names = ", ".join(each.name for each, server in demo.sources.items() if server is None)
    demo.screen.say(f"The URLs of {names} lead nowhere: nobody can connect to these catalogs.")


def _picture(demo: WideDemo) -> str:
    width = max(len(source.name) for source in demo.sources)
    middle = (len(demo.sources) - 1) // 2
    lines = []
    for number, source in enumerate(demo.sources):
        label = f" {WAYS[source.way].label} ".center(13, "─")
        corner = {0: "┐", len(demo.sources) - 1: "┘"}.get(number, "┤")
        onward = f"├──▶ {HUB} ─── pull ──▶ {EDGE}" if number == middle else corner
        if number == middle and len(demo.sources) <= 2:
            onward = f"┬──▶ {HUB} ─── pull ──▶ {EDGE}"
        lines.append(f"  {source.name:<{width}} ─{label}─{onward}")
    return "\n".join(lines)


async def _link(demo: WideDemo) -> None:
    demo.screen.step("Link them")
    federation = demo.federation
    for source, server in demo.sources.items():
        joint = Joint(
            source=source,
            hub=federation.client(HUB),
            hub_url=federation[HUB].url,
            node=federation.client(source.name) if server is None else None,
            source_url="" if server is None else server.url,
            topic=demo.topic,
        )
        for command in await WAYS[source.way].join(joint):
            demo.screen.say(f"  {command}")
    authorities = [demo.authority_of(source) for source in demo.sources]
    edge, hub_url = federation.client(EDGE), federation[HUB].url
    demo.screen.say(f"  {await follow_hub(edge, hub_url, authorities)}")
    demo.screen.done("the hub takes nothing from anybody else, and relays all of it to edge")


async def _import(demo: WideDemo) -> None:
    demo.screen.step("Import real definitions")
    rows = []
    for source, server in demo.sources.items():
        for document in _documents_of(source):
            began = time.monotonic()
            if server is None:
                client = demo.federation.client(source.name)
                imported = await import_document(client, document)
                seen = "; ".join(violation.title for violation in imported.violations)
                expect(imported.is_imported, f"{document.path.name} to be imported", seen)
                took = f"{time.monotonic() - began:.2f} s"
            else:
                took = "there before"
            counts = (str(_count(document, kind)) for kind in ("endpoints", "messages", "schemas"))
            rows.append((source.name, document.path.name.partition(".")[0], *counts, took))
    demo.screen.table("into", "document", "endpoints", "messages", "schemas", "took", rows=rows)


def _count(document: DocumentFile, kind: str) -> int:
    """The number of groups or resources of a kind in a document."""
    if kind in document.groups:
        return len(document.groups[kind])
    return sum(len(g.get(kind, ())) for groups in document.groups.values() for g in groups.values())


async def _converge(demo: WideDemo) -> None:
    demo.screen.step("Everything is everywhere")
    found, took = await wait_until_equal(demo.federation, demo.sources)
    _show(demo, found)
    demo.screen.done(f"hub and edge hold all of it, {took:.1f} s after the last import")


async def _show_arrivals(demo: WideDemo) -> None:
    demo.screen.step("A change takes each way")
    rows = []
    for source in demo.sources:
        xid = _message_of(source)
        took = await _measure_arrival(demo, source, xid, f"Changed at {source.name}.")
        way = WAYS[source.way].label
        rows.append((source.name, way, *(f"{took[name] * 1000:,.0f} ms" for name in _HELD_BY)))
    demo.screen.table("changed at", "way", "readable at hub", "at edge", rows=rows)
    demo.screen.say("What is walked tells of no changes; it is read for a tenth of the time.")


async def _survive_outage(demo: WideDemo) -> None:
    demo.screen.step("The hub dies, the sources go on")
    await demo.federation.kill(HUB)
    deleted = []
    for source, server in demo.sources.items():
        xid = _message_of(source)
        text, gone = f"Changed at {source.name} while the hub was away.", _last_message_of(source)
        if server is None:
            client = demo.federation.client(source.name)
            await client.update(xid, {"description": text})
            await client.delete(gone)
        else:
            server.describe(xid, text)
            server.delete(gone)
        deleted.append(gone)
    demo.screen.say(
        "The hub's process was killed (SIGKILL). Meanwhile, each source changed a message and "
        "deleted another one."
    )
    await demo.federation.start(HUB)
    _, took = await wait_until_equal(demo.federation, demo.sources)
    demo.screen.done(f"{took:.1f} s after the hub is back, all agree again")
    for name in _HELD_BY:
        for gone in deleted:
            await _expect_gone(demo, name, gone)
        for source in demo.sources:
            shown = await demo.federation.client(name).entity(_message_of(source))
            text = str(shown.get("description"))
            expect(text.endswith("was away."), f"{name} to show the change of {source.name}", text)
    demo.screen.done("every change and every deletion is at hub and edge")


async def _conclude(demo: WideDemo) -> None:
    demo.screen.step("Proof")
    for name in _HELD_BY:
        for link in await demo.federation.client(name).links():
            expect(link.conflicts == 0, f"no conflict of {link.id} at {name}", str(link))
    found = await compare(demo.federation, demo.sources, verify=True)
    _show(demo, found)
    wrong = [
        f"{each.source.name} at {name}"
        for each in found
        for name, origins in each.wrong.items()
        if origins
    ]
    expect(not wrong, "equal digests everywhere", ", ".join(wrong))
    total = sum(each.expected for each in found)
    demo.screen.done(
        f"digests computed from the content agree on {total:,} origins, after "
        f"{demo.screen.elapsed_seconds:.0f} s"
    )


def _show(demo: WideDemo, found: list[SourceAgreement]) -> None:
    demo.screen.table(
        "entities of", "there", "of them deleted", "hub", "edge",
        rows=[
            (
                each.source.name,
                f"{each.expected:,}",
                str(each.deleted),
                *(f"{len(each.wrong[n])} differ" if each.wrong[n] else "equal" for n in _HELD_BY),
            )
            for each in found
        ],
    )  # fmt: skip


async def _measure_arrival(demo: WideDemo, source: Source, xid: str, text: str) -> dict[str, float]:
    """Change a message; return the seconds until each node shows the change.

    Raises:
        Unexpected: a node does not show the change within three minutes.
    """
    server, began = demo.sources[source], time.monotonic()
    if server is None:
        await demo.federation.client(source.name).update(xid, {"description": text})
    else:
        server.describe(xid, text)
    took: dict[str, float] = {}
    while len(took) < len(_HELD_BY):
        for name in _HELD_BY:
            shown = (await demo.federation.client(name).entity(xid)).get("description")
            if name not in took and shown == text:
                took[name] = time.monotonic() - began
        if time.monotonic() - began > _ARRIVAL_SECONDS:
            lacking = ", ".join(name for name in _HELD_BY if name not in took)
            raise Unexpected(
                f"a change of {xid} at {lacking} within three minutes", "the old state"
            )
        await asyncio.sleep(0.002)
    return took


async def _expect_gone(demo: WideDemo, name: str, xid: str) -> None:
    try:
        await demo.federation.client(name).entity(xid)
    except Refused as refused:
        if refused.problem.status == 404:
            return
        raise
    raise Unexpected(f"{xid} to be gone from {name}", "it is there")


def _documents_of(source: Source) -> list[DocumentFile]:
    return [read_document(_DATA / f"{each}.xreg.json", migrate=True) for each in source.documents]


def _merged(documents: list[DocumentFile]) -> dict[str, dict[str, Any]]:
    """The groups of documents without common groups."""
    found: dict[str, dict[str, Any]] = {}
    for document in documents:
        for plural, groups in document.groups.items():
            found.setdefault(plural, {}).update(groups)
    return found


def _message_of(source: Source) -> str:
    """The first message of a source's first document."""
    [gid, group], *_ = _merged(_documents_of(source)[:1])["messagegroups"].items()
    return f"/messagegroups/{gid}/messages/{next(iter(group['messages']))}"


def _last_message_of(source: Source) -> str:
    """The last message in a source's last document."""
    *_, (gid, group) = _merged(_documents_of(source)[-1:])["messagegroups"].items()
    *_, mid = group["messages"]
    return f"/messagegroups/{gid}/messages/{mid}"
