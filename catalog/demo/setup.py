"""The first three steps of the demo: start four catalogs, link the catalogs, import documents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from catalog.client.subscriptions import Event
from catalog.commands.documentfile import read_document
from catalog.commands.import_.importing import import_document
from catalog.demo.federation import NAMES, Federation
from catalog.demo.output import Screen, Unexpected, expect
from catalog.operations.links import NewLink
from catalog.operations.subscriptions import NewSubscription

FOLLOWERS = ("hub", "edge")
ALERT = "/messagegroups/DE.DWD.Weather/messages/DE.DWD.Weather.Alert"
ENDPOINT = "/endpoints/NWS.Alerts.Kafka"
NOAA = "/messagegroups/Microsoft.OpenData.US.NOAA"
WATER_LEVEL = f"{NOAA}/messages/Microsoft.OpenData.US.NOAA.WaterLevel"
SCHEMA = "/schemagroups/DE.DWD.CDC.jstruct/schemas/DE.DWD.CDC.StationMetadata"

_DATA = Path(__file__).parent / "data"
REGIONS = ("eu", "us")
_WAIT_SECONDS = 60
_KINDS = ("endpoints", "messages", "schemas")


@dataclass(slots=True)
class Subscriber:
    """Keeps received events in the order of arrival."""

    events: list[Event] = field(default_factory=list)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def receive(self, event: Event) -> None:
        self.events.append(event)
        self._arrived.set()

    async def wait_for(self, subjects: Collection[str], *, after: int = 0) -> int:
        """Wait until an event about each of `subjects` has arrived.

        Args:
            subjects: the xids of entities.
            after: the number of events at the start of `events` that do not count.

        Returns:
            the number of events that count.

        Raises:
            Unexpected: an event has not arrived within a minute.
        """
        lacking = set(subjects)
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while lacking := lacking - {e.get("subject") for e in self.events[after:]}:
                    # No `await` stands between the check and this line, so no event is missed.
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise Unexpected(
                f"an event at the subscriber for each of {len(subjects)} entities",
                f"none for {len(lacking)} of them, such as {min(lacking)}",
            ) from None
        return len(self.events) - after


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The nodes, the screen and the subscriber, shared by the steps."""

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
        expect(shake.authority == url, f"{name} to be the authority {url}", shake.authority)
        rows.append((name, url, str(shake.instance)))
    demo.screen.table("node", "URL, which is its authority", "instance", rows=rows)


async def link_nodes(demo: Demo, sink: str) -> None:
    demo.screen.step("Link them, and subscribe")
    hub, edge = demo.federation.client("hub"), demo.federation.client("edge")
    for name in REGIONS:
        source = demo.federation[name].url
        await hub.add_link(NewLink(id=name, source=source, mode="events"))
        demo.screen.done(f"hub follows {name}, woken by its events")
    authorities = [demo.federation[name].url for name in REGIONS]
    source = demo.federation["hub"].url
    await edge.add_link(NewLink(id="hub", source=source, mode="events", authorities=authorities))
    demo.screen.done("edge follows hub, which relays for eu and us")
    subscription = await hub.subscribe(
        NewSubscription(sink=sink, protocol="HTTP", protocolsettings={"contentmode": "structured"})
    )
    demo.screen.done(f"an ordinary subscriber listens to hub: {subscription.id}")


async def import_documents(demo: Demo) -> None:
    demo.screen.step("Import real definitions")
    rows = []
    for name in REGIONS:
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
