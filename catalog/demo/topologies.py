"""The topologies of the demos: sources, the ways that bring their entities to a hub, and an edge.

The edge follows the hub alone, which relays for the sources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from catalog.client import Client
from catalog.demo.eventsink import Event
from catalog.demo.federation import Federation
from catalog.demo.screen import Screen, Unexpected
from catalog.demo.staticserver import StaticServer
from catalog.operations.links import NewLink

HUB, EDGE = "hub", "edge"
FOLLOWERS = (HUB, EDGE)
_WAIT_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A catalog whose entities reach the hub.

    Args:
        documents: files of the demo's data, without their suffix.
        way: a key of `WAYS`.
    """

    name: str
    documents: tuple[str, ...]
    way: str

    @property
    def is_foreign(self) -> bool:
        """Whether the source is a server with different software, and not a node."""
        return self.way == "walk"

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of a source that is a node, besides those of every node."""
        if self.way in ("follow", "walk"):
            return {}
        return {
            # No connection to this URL is possible.
            "CONCORD_PUBLIC_URL": f"https://{self.name}.example",
            # A node with a public name refuses private addresses by default; the hub has one.
            "CONCORD_ALLOW_PRIVATE_ADDRESSES": "true",
        }


REGIONS = (
    Source(name="eu", documents=("eu/dwd", "eu/hsl-hfp", "eu/entsoe", "eu/autobahn"), way="follow"),
    Source(
        name="us",
        documents=("us/noaa", "us/noaa-ndbc", "us/nws-alerts", "us/usgs-iv", "us/bluesky"),
        way="follow",
    ),
)
WIDE = (
    Source(name="eu", documents=("eu/dwd", "eu/autobahn"), way="push"),
    Source(name="nordic", documents=("eu/hsl-hfp", "eu/entsoe"), way="push"),
    Source(name="us", documents=("us/noaa", "us/nws-alerts", "us/bluesky"), way="kafka"),
    Source(name="agency", documents=("us/noaa-ndbc", "us/usgs-iv"), way="walk"),
)
WIDE_WITHOUT_KAFKA = tuple(
    replace(source, way="push") if source.way == "kafka" else source for source in WIDE
)


def settings_of(sources: tuple[Source, ...]) -> dict[str, Mapping[str, str]]:
    """The nodes of a topology, with the settings of each."""
    nodes = {each.name: each.settings for each in sources if not each.is_foreign}
    # Foreign servers announce no changes, so the hub reads them at short intervals.
    return {**nodes, HUB: {"CONCORD_PULL_INTERVAL_SECONDS": "2"}, EDGE: {}}


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
    """What the steps of a demo share.

    Args:
        sources: the sources; a foreign source with its server, a node with `None`.
        topic: the URL of a topic of Kafka; empty without a broker.
        subscriber: an ordinary subscriber, which listens to the hub.
    """

    federation: Federation
    screen: Screen
    sources: Mapping[Source, StaticServer | None]
    topic: str = ""
    subscriber: Subscriber = field(default_factory=Subscriber)

    def client(self, name: str) -> Client:
        return self.federation[name].client

    def url_of(self, source: Source) -> str:
        """The URL at which the hub can read a source."""
        server = self.sources[source]
        return self.federation[source.name].url if server is None else server.url

    def authority_of(self, source: Source) -> str:
        return source.settings.get("CONCORD_PUBLIC_URL") or self.url_of(source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way in which entities reach the hub.

    Args:
        label: the name of the way in the picture.
        connects: the direction of the connections.
        join: a function that sets up the way, and returns the equivalent commands.
    """

    label: str
    connects: str
    join: Callable[[Demo, Source], Awaitable[list[str]]]


async def _follow(demo: Demo, source: Source) -> list[str]:
    url = demo.url_of(source)
    await demo.client(HUB).add_link(NewLink(id=source.name, source=url, mode="events"))
    return [f"at hub: concord link add {url}"]


async def _push(demo: Demo, source: Source) -> list[str]:
    name, authority, hub = source.name, demo.authority_of(source), demo.federation[HUB]
    await hub.client.add_link(NewLink(id=name, mode="accept", authority=authority))
    await demo.client(name).add_link(NewLink(id=HUB, target=hub.url, mode="push"))
    return [
        f"at hub: concord link accept {authority}",
        f"at {name}: concord link add --push {hub.url}",
    ]


async def _publish(demo: Demo, source: Source) -> list[str]:
    name, authority = source.name, demo.authority_of(source)
    await demo.client(name).add_link(NewLink(id=HUB, target=demo.topic, mode="publish"))
    link = NewLink(id=name, source=demo.topic, mode="kafka", authority=authority)
    # Without `force`, the hub would read the topic first, which may still be empty.
    await demo.client(HUB).add_link(link, force=True)
    return [
        f"at {name}: concord link add --kafka {demo.topic} --publish",
        f"at hub: concord link add --kafka {demo.topic} --pin {authority} --force",
    ]


async def _walk(demo: Demo, source: Source) -> list[str]:
    url = demo.url_of(source)
    await demo.client(HUB).add_link(NewLink(id=source.name, source=url, mode="walk"))
    return [f"at hub: concord link add {url} --mode walk"]


WAYS: Mapping[str, Way] = {
    "follow": Way(label="events", connects="hub connects to it, woken by its events", join=_follow),
    "push": Way(label="push", connects="it connects to hub", join=_push),
    "kafka": Way(label="Kafka", connects="both to a topic", join=_publish),
    "walk": Way(label="walk", connects="hub connects to it", join=_walk),
}


async def follow_hub(demo: Demo) -> str:
    """Let the edge follow the hub; return the equivalent command."""
    url, authorities = demo.federation[HUB].url, [*map(demo.authority_of, demo.sources)]
    link = NewLink(id=HUB, source=url, mode="pull", authorities=authorities)
    await demo.client(EDGE).add_link(link)
    return f"at edge: concord link add {url} --mode pull --authority …"
