"""The first steps of the demo: four catalogs start, are linked, filled, and agree."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from catalog.client import DigestRow
from catalog.commands.documentfile import read_document
from catalog.commands.import_.importing import import_document
from catalog.commands.subscriptions import event_line
from catalog.demo.convergence import Holdings, holdings, measure_arrival, wait_until_equal
from catalog.demo.federation import NAMES, Federation
from catalog.demo.screen import Screen, expect
from catalog.demo.subscriber import Subscriber

FOLLOWERS = ("hub", "edge")
ALERT = "/messagegroups/DE.DWD.Weather/messages/DE.DWD.Weather.Alert"
ENDPOINT = "/endpoints/NWS.Alerts.Kafka"
NOAA = "/messagegroups/Microsoft.OpenData.US.NOAA"
WATER_LEVEL = f"{NOAA}/messages/Microsoft.OpenData.US.NOAA.WaterLevel"
SCHEMA = "/schemagroups/DE.DWD.CDC.jstruct/schemas/DE.DWD.CDC.StationMetadata"

_DATA = Path(__file__).parent / "data"
_REGIONS = ("eu", "us")
_KINDS = ("endpoints", "messages", "schemas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """What the steps share: the nodes, the screen, and the subscriber."""

    federation: Federation
    screen: Screen
    report: Path
    subscriber: Subscriber = field(default_factory=Subscriber)


async def start_nodes(demo: Demo) -> None:
    demo.screen.step("Start four catalogs")
    demo.screen.say(
        "eu and us are regional catalogs, hub gathers both, edge is a consumer that talks to "
        "the hub only. Each is a process with its own database in one embedded PostgreSQL."
    )
    await demo.federation.start(*NAMES)
    rows = []
    for name in NAMES:
        shake = await demo.federation.client(name).handshake()
        url = demo.federation[name].url
        expect(shake["authority"] == url, f"{name} to be the authority {url}", shake["authority"])
        rows.append((name, url, shake["instance"]))
    demo.screen.table("node", "URL, which is its authority", "instance", rows=rows)


async def link_nodes(demo: Demo, sink: str) -> None:
    demo.screen.step("Link them, and subscribe")
    hub, edge = demo.federation.client("hub"), demo.federation.client("edge")
    for name in _REGIONS:
        source = demo.federation[name].url
        await hub.add_link({"id": name, "source": source, "mode": "events"})
        demo.screen.done(f"hub follows {name}, woken by its events")
    await edge.add_link(
        {
            "id": "hub",
            "source": demo.federation["hub"].url,
            "mode": "events",
            "authorities": ["*"],
        }
    )
    demo.screen.done("edge follows hub, which relays for eu and us")
    subscription = await hub.subscribe(
        {"sink": sink, "protocol": "HTTP", "protocolsettings": {"contentmode": "structured"}}
    )
    demo.screen.done(f"an ordinary subscriber listens to hub: {subscription['id']}")


async def import_documents(demo: Demo) -> None:
    demo.screen.step("Import real definitions")
    rows = []
    for name in _REGIONS:
        for path in sorted((_DATA / name).glob("*.json")):
            began = time.monotonic()
            document = read_document(path, migrate=True)
            client = demo.federation.client(name)
            imported = await import_document(client, document, keep_going=False)
            seen = "; ".join(violation.title for violation in imported.violations)
            expect(imported.is_imported, f"{path.name} to be imported", seen)
            took = f"{time.monotonic() - began:.2f} s"
            held = (str(imported.counts.get(kind, 0)) for kind in _KINDS)
            rows.append((name, path.name.partition(".")[0], *held, took))
    demo.screen.table("into", "document", *_KINDS, "took", rows=rows)
    demo.screen.done(f"{len(rows)} documents of public data feeds are in, through the public API")


async def show_convergence(demo: Demo) -> None:
    demo.screen.step("Everything is everywhere")
    held, took = await wait_until_equal(demo.federation, *FOLLOWERS)
    demo.screen.done(
        f"hub and edge hold all of it, {took:.1f} s after the last import: the same epoch and "
        f"digest for each of {len(held):,} entities"
    )
    await show_counts(demo)
    await _show_some(demo)
    await _show_arrival(demo)
    await _show_events(demo, held)


async def show_counts(demo: Demo) -> None:
    """What each node holds, as its own API counts it."""
    rows = []
    for name in NAMES:
        root = await demo.federation.client(name).entity("/")
        held = (await holdings(demo.federation.client(name))).values()
        live = Counter(row.authority for row in held if not row.is_deleted)
        owners = (str(live[demo.federation[region].url]) for region in _REGIONS)
        groups = sum(count for key, count in root.items() if key.endswith("count"))
        deleted = sum(row.is_deleted for row in held)
        rows.append((name, str(groups), str(live.total()), *owners, str(deleted)))
    demo.screen.table(
        "node", "groups", "live entities", "of eu's", "of us's", "deleted ones remembered",
        rows=rows,
    )  # fmt: skip


async def _show_some(demo: Demo) -> None:
    names = {demo.federation[name].url: name for name in NAMES}
    hub, edge = [await holdings(demo.federation.client(name)) for name in FOLLOWERS]
    rows = []
    for xid in (ALERT, ENDPOINT, SCHEMA, WATER_LEVEL):
        mine = next(row for row in hub.values() if row.xid == xid)
        theirs = edge[mine.authority, mine.origin]
        replica = await demo.federation.client("edge").entity(xid)
        expect(
            replica.get("authority") == mine.authority,
            f"edge to say that {names[mine.authority]} controls {xid}",
            str(replica.get("authority")),
        )
        rows.append((_named(xid), names[mine.authority], _short(mine), _short(theirs)))
    demo.screen.say("Some of them, as hub and edge show them:")
    demo.screen.table("entity", "of", "epoch, digest at hub", "at edge", rows=rows)


def _named(xid: str) -> str:
    """An entity's collection and the end of its id, which fit on a line."""
    collection, id = xid.split("/")[-2:]
    return f"{collection}/{id if len(id) < 22 else '…' + id[-21:]}"


def _short(row: DigestRow) -> str:
    return f"{row.epoch}, {row.digest[:12]}"


async def _show_arrival(demo: Demo) -> None:
    took = [
        await measure_arrival(demo.federation, ALERT, f"A weather warning, wording {number}.")
        for number in range(1, 6)
    ]
    demo.screen.done(
        f"a change at eu was readable at edge, two links away, in {took[-1] * 1000:.0f} ms "
        f"(median of five: {statistics.median(took) * 1000:.0f} ms)"
    )


async def _show_events(demo: Demo, held: Holdings) -> None:
    """Every entity that came to the hub must have been an event at the subscriber."""
    count = await demo.subscriber.wait_for({row.xid for row in held.values()})
    demo.screen.done(f"the subscriber received {count:,} events; the last of them:")
    for event in demo.subscriber.events[-3:]:
        demo.screen.say(f"  {event_line(event)}")
