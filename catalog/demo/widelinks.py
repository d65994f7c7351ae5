"""The table of the wide topology: the sources of the hub, and the ways to bring their entities."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from catalog.client import Client
from catalog.operations.links import NewLink

HUB, EDGE = "hub", "edge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A catalog whose entities reach the hub.

    Args:
        documents: files of the demo's data, without their suffix.
        way: a key of `WAYS`.
        is_foreign: the source is not a node, but a server with different software.
    """

    name: str
    documents: tuple[str, ...]
    way: str
    is_foreign: bool = False

    @property
    def authority(self) -> str:
        """The public URL of a source that is a node; no connection to the URL is possible."""
        return f"https://{self.name}.example"


SOURCES = (
    Source(name="eu", documents=("eu/dwd", "eu/autobahn"), way="push"),
    Source(name="nordic", documents=("eu/hsl-hfp", "eu/entsoe"), way="push"),
    Source(name="us", documents=("us/noaa", "us/nws-alerts", "us/bluesky"), way="kafka"),
    Source(name="agency", documents=("us/noaa-ndbc", "us/usgs-iv"), way="walk", is_foreign=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """A source and the hub before they are joined.

    Args:
        node: the client of the source, if the source is a node of the demo.
        source_url: the URL at which the hub can read the source; empty for a node.
        topic: the URL of a topic of Kafka.
    """

    source: Source
    hub: Client
    hub_url: str
    node: Client | None = None
    source_url: str = ""
    topic: str = ""


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
    join: Callable[[Joint], Awaitable[list[str]]]


async def _push(joint: Joint) -> list[str]:
    assert joint.node is not None
    name, authority = joint.source.name, joint.source.authority
    await joint.hub.add_link(NewLink(id=name, mode="accept", authority=authority))
    await joint.node.add_link(NewLink(id=HUB, target=joint.hub_url, mode="push"))
    return [
        f"at hub: concord accept add {authority}",
        f"at {name}: concord link add --push {joint.hub_url}",
    ]


async def _publish(joint: Joint) -> list[str]:
    assert joint.node is not None
    name, topic = joint.source.name, joint.topic
    await joint.node.add_link(NewLink(id=HUB, target=topic, mode="publish"))
    link = NewLink(id=name, source=topic, mode="kafka", authority=joint.source.authority)
    # Without `force`, the hub would read the topic first, which may still be empty.
    await joint.hub.add_link(link, force=True)
    return [
        f"at {name}: concord link add --kafka {topic} --publish",
        f"at hub: concord link add --kafka {topic} --pin {joint.source.authority} --force",
    ]


async def _walk(joint: Joint) -> list[str]:
    link = NewLink(id=joint.source.name, source=joint.source_url, mode="walk")
    await joint.hub.add_link(link)
    return [f"at hub: concord link add {joint.source_url} --mode walk"]


WAYS: Mapping[str, Way] = {
    "push": Way(label="push", connects="it connects to hub", join=_push),
    "kafka": Way(label="Kafka", connects="both to a topic", join=_publish),
    "walk": Way(label="walk", connects="hub connects to it", join=_walk),
}


async def follow_hub(edge: Client, hub_url: str, authorities: list[str]) -> str:
    """Let the edge pull from the hub; return the equivalent command."""
    await edge.add_link(NewLink(id=HUB, source=hub_url, mode="pull", authorities=authorities))
    return f"at edge: concord link add {hub_url} --mode pull --authority …"
