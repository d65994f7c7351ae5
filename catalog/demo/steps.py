"""The steps of a demo: start and link catalogs, import, compare, change, and lose the hub."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog.client import Client, DigestRow, Refused
from catalog.commands.documentfile import DocumentFile, read_document
from catalog.commands.events import event_line
from catalog.commands.import_.importing import import_document
from catalog.demo.eventsink import open_sink
from catalog.demo.screen import Unexpected, expect
from catalog.demo.topologies import EDGE, FOLLOWERS, HUB, WAYS, Demo, Source, follow_hub
from catalog.operations.subscriptions import NewSubscription

_DATA = Path(__file__).parent / "data"
_KINDS = ("endpoints", "messages", "schemas")
_SECONDS = 180
_PAUSE_SECONDS = 0.1

Rows = Mapping[str, DigestRow]


async def run_steps(demo: Demo) -> None:
    """Run the steps that all demos have.

    Raises:
        Unexpected: a step did not have the expected result.
    """
    await _start(demo)
    async with open_sink(demo.subscriber.receive) as sink:
        await _link(demo, sink)
        await _import(demo)
        await _converge(demo)
        await _show_arrivals(demo)
        await _survive_outage(demo)


async def _start(demo: Demo) -> None:
    demo.screen.step("Start the catalogs")
    demo.screen.say(
        f"{len(demo.sources)} sources, a hub that gathers from them, and an edge that reads the "
        "hub only. Each node is a process with its own database in one embedded PostgreSQL. An "
        "arrow shows where changes go, its label how:\n"
    )
    demo.screen.say(_picture(demo) + "\n")
    await demo.federation.start(*demo.federation.members)
    rows = [
        (
            source.name,
            "another" if source.is_foreign else "Concord",
            demo.authority_of(source),
            WAYS[source.way].connects,
        )
        for source in demo.sources
    ]
    rows.append((HUB, "Concord", demo.federation[HUB].url, "others connect to it"))
    rows.append((EDGE, "Concord", demo.federation[EDGE].url, "it connects to hub"))
    demo.screen.table("name", "software", "URL, its authority", "connections", rows=rows)
    names = [each.name for each in demo.sources if each.settings]
    if names:
        demo.screen.say(f"The URLs of {', '.join(names)} lead nowhere: nobody can connect there.")


def _picture(demo: Demo) -> str:
    width = max(len(source.name) for source in demo.sources)
    last = len(demo.sources) - 1
    lines = []
    for number, source in enumerate(demo.sources):
        joint = {0: "┐", last: "┘"}.get(number, "┤")
        if number == last // 2:
            joint = f"{'├' if number else '┬'}──▶ {HUB} ─── pull ──▶ {EDGE}"
        label = f" {WAYS[source.way].label} ".center(13, "─")
        lines.append(f"  {source.name:<{width}} ─{label}─{joint}")
    return "\n".join(lines)


async def _link(demo: Demo, sink: str) -> None:
    demo.screen.step("Link them, and subscribe")
    for source in demo.sources:
        for command in await WAYS[source.way].join(demo, source):
            demo.screen.say(f"  {command}")
    demo.screen.say(f"  {await follow_hub(demo)}")
    demo.screen.done("the hub takes nothing from anybody else, and relays all of it to edge")
    subscription = await demo.client(HUB).subscribe(
        NewSubscription(sink=sink, protocol="HTTP", protocolsettings={"contentmode": "structured"})
    )
    demo.screen.done(f"an ordinary subscriber listens to hub: {subscription.id}")


async def _import(demo: Demo) -> None:
    demo.screen.step("Import real definitions")
    rows = []
    for source in demo.sources:
        for document in documents_of(source):
            began, took = time.monotonic(), "there before"
            if not source.is_foreign:
                client = demo.client(source.name)
                imported = await import_document(client, document, keep_going=False)
                seen = "; ".join(violation.title for violation in imported.violations)
                expect(imported.is_imported, f"{document.path.name} to be imported", seen)
                took = f"{time.monotonic() - began:.2f} s"
            counts = (str(_count(document, kind)) for kind in _KINDS)
            rows.append((source.name, document.path.name.partition(".")[0], *counts, took))
    demo.screen.table("into", "document", *_KINDS, "took", rows=rows)


def _count(document: DocumentFile, kind: str) -> int:
    """The number of groups or resources of a kind in a document."""
    if kind in document.groups:
        return len(document.groups[kind])
    return sum(len(g.get(kind, ())) for groups in document.groups.values() for g in groups.values())


async def _converge(demo: Demo) -> None:
    demo.screen.step("Everything is everywhere")
    found, took = await wait_until_equal(demo)
    show_agreement(demo, found)
    demo.screen.done(f"hub and edge hold all of it, {took:.1f} s after the last import")
    held = await _held(demo.client(HUB))
    xids = {row.xid for rows in held.values() for row in rows.values()}
    count = await demo.subscriber.wait_for(xids)
    demo.screen.done(f"the subscriber received {count:,} events; the last of them:")
    for event in demo.subscriber.events[-3:]:
        demo.screen.say(f"  {event_line(event)}")


async def _show_arrivals(demo: Demo) -> None:
    demo.screen.step("A change takes each way")
    rows = []
    for source in demo.sources:
        measured = [
            await _measure_arrival(demo, source, f"Wording {number} at {source.name}.")
            for number in range(1 if source.is_foreign else 5)
        ]
        medians = (statistics.median(took[name] for took in measured) for name in FOLLOWERS)
        way = WAYS[source.way].label
        rows.append((source.name, way, *(f"{seconds * 1000:,.0f} ms" for seconds in medians)))
    demo.screen.table("changed at", "way", "readable at hub", "at edge", rows=rows)
    demo.screen.say("Each time is the median of five changes; what is walked tells of no changes.")


async def _measure_arrival(demo: Demo, source: Source, text: str) -> dict[str, float]:
    """Change a message; return the seconds until each node shows the change."""
    began, xid = time.monotonic(), _message_of(source)
    await _describe(demo, source, xid, text)
    took: dict[str, float] = {}
    while len(took) < len(FOLLOWERS):
        for name in FOLLOWERS:
            shown = await demo.client(name).entity(xid)
            if name not in took and shown.get("description") == text:
                took[name] = time.monotonic() - began
        if time.monotonic() - began > _SECONDS:
            lacking = ", ".join(name for name in FOLLOWERS if name not in took)
            raise Unexpected(f"a change of {xid} at {lacking} in {_SECONDS} s", "the old state")
        await asyncio.sleep(0.002)
    return took


async def _describe(demo: Demo, source: Source, xid: str, text: str) -> None:
    server = demo.sources[source]
    if server is None:
        await demo.client(source.name).update(xid, {"description": text})
    else:
        server.describe(xid, text)


async def _survive_outage(demo: Demo) -> None:
    demo.screen.step("The hub dies, the sources go on")
    received, before = len(demo.subscriber.events), await _held(demo.client(EDGE))
    await demo.federation.kill(HUB)
    demo.screen.say(
        "The hub's process was killed (SIGKILL). Meanwhile, each source changed a message and "
        "deleted another one, and each node added a group."
    )
    for source, server in demo.sources.items():
        await _describe(demo, source, _message_of(source), f"{source.name} changed it meanwhile.")
        if server is None:
            client = demo.client(source.name)
            await client.delete(_last_message_of(source))
            message = {"description": "Tells of high tide.", "envelope": "CloudEvents/1.0"}
            await client.create(_new_group_of(source), {"messages": {"HighTide": message}})
        else:
            server.delete(_last_message_of(source))
    expect(await _held(demo.client(EDGE)) == before, "edge to go on serving", "other entities")
    demo.screen.done("edge goes on serving all that it had, without updates")
    await demo.federation.start(HUB)
    _, took = await wait_until_equal(demo)
    demo.screen.done(f"{took:.1f} s after the hub is back on the same port, all agree again")
    for name in FOLLOWERS:
        for source in demo.sources:
            await _expect_changes(demo, name, source)
    demo.screen.done("every change and every deletion is at hub and edge")
    after = await _held(demo.client(EDGE))
    changed = {
        row.xid
        for authority, rows in after.items()
        for origin, row in rows.items()
        if before[authority].get(origin) != row
    }
    count = await demo.subscriber.wait_for(changed, after=received)
    demo.screen.done(f"the subscriber missed nothing: {count} more events for what changed")


async def _expect_changes(demo: Demo, name: str, source: Source) -> None:
    """Expect what a source changed meanwhile at a node."""
    client, gone = demo.client(name), _last_message_of(source)
    shown = await client.entity(_message_of(source))
    text = str(shown.get("description"))
    expect(text.endswith("meanwhile."), f"{name} to show the change of {source.name}", text)
    owner, seen = demo.authority_of(source), str(shown.get("authority"))
    expect(seen == owner, f"{name} to say that {owner} controls the message", seen)
    if not source.is_foreign:
        await client.entity(_new_group_of(source))
    try:
        await client.entity(gone)
    except Refused as refused:
        if refused.problem.status == 404:
            return
        raise
    raise Unexpected(f"{gone} to be gone from {name}", "it is there")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAgreement:
    """The counts of a source's `expected` and `deleted` origins, and the `wrong` ones by node."""

    source: Source
    expected: int
    deleted: int
    wrong: Mapping[str, list[str]]


async def compare(demo: Demo, *, verify: bool = False) -> list[SourceAgreement]:
    """Compare the digests of hub and edge with the digests of the sources.

    A foreign server has no digests: the hub is compared with the server's paths, and the edge with
    the hub.

    Args:
        verify: compute the digests anew from the content.
    """
    held = {name: await _held(demo.client(name), verify=verify) for name in FOLLOWERS}
    found = []
    for source, server in demo.sources.items():
        authority = demo.authority_of(source)
        here = {name: rows.get(authority, {}) for name, rows in held.items()}
        there: Rows = here[HUB]
        if server is None:
            there = (await _held(demo.client(source.name), verify=verify)).get(authority, {})
        wrong = {name: _differences(there, rows) for name, rows in here.items()}
        if server is not None:
            live = {origin for origin, row in there.items() if not row.is_deleted}
            wrong[HUB] = sorted({*server.xids()} ^ live)
        found.append(
            SourceAgreement(
                source=source,
                expected=len(there),
                deleted=sum(row.is_deleted for row in there.values()),
                wrong=wrong,
            )
        )
    return found


async def wait_until_equal(demo: Demo) -> tuple[list[SourceAgreement], float]:
    """Wait until hub and edge hold exactly the entities that the sources control.

    Returns:
        the agreement with each source, and the seconds until hub and edge agreed.

    Raises:
        Unexpected: hub or edge differs for longer than three minutes.
    """
    began = time.monotonic()
    while wrong := wrong_in(found := await compare(demo)):
        if time.monotonic() - began > _SECONDS:
            raise Unexpected("hub and edge to hold what the sources have", wrong)
        await asyncio.sleep(_PAUSE_SECONDS)
    return found, time.monotonic() - began


def wrong_in(found: list[SourceAgreement]) -> str:
    """What differs, in words; empty for nothing."""
    return "; ".join(
        f"{len(origins)} origins of {each.source.name} differ at {name}, the first is {origins[0]}"
        for each in found
        for name, origins in each.wrong.items()
        if origins
    )


def show_agreement(demo: Demo, found: list[SourceAgreement]) -> None:
    rows = [
        (
            each.source.name,
            f"{each.expected:,}",
            str(each.deleted),
            *(f"{len(each.wrong[n])} differ" if each.wrong[n] else "equal" for n in FOLLOWERS),
        )
        for each in found
    ]
    demo.screen.table("entities of", "there", "of them deleted", *FOLLOWERS, rows=rows)


async def _held(client: Client, *, verify: bool = False) -> dict[str, dict[str, DigestRow]]:
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


def documents_of(source: Source) -> list[DocumentFile]:
    return [read_document(_DATA / f"{each}.xreg.json", migrate=True) for each in source.documents]


def merged(documents: list[DocumentFile]) -> dict[str, dict[str, Any]]:
    """The groups of documents without common groups."""
    found: dict[str, dict[str, Any]] = {}
    for document in documents:
        for plural, groups in document.groups.items():
            found.setdefault(plural, {}).update(groups)
    return found


def _message_of(source: Source) -> str:
    """The first message of a source's first document."""
    [gid, group], *_ = merged(documents_of(source)[:1])["messagegroups"].items()
    return f"/messagegroups/{gid}/messages/{next(iter(group['messages']))}"


def _last_message_of(source: Source) -> str:
    """The last message in a source's last document."""
    *_, (gid, group) = merged(documents_of(source)[-1:])["messagegroups"].items()
    *_, mid = group["messages"]
    return f"/messagegroups/{gid}/messages/{mid}"


def _new_group_of(source: Source) -> str:
    return f"/messagegroups/Example.Tides.{source.name}"
