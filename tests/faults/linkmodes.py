"""The ways in which one node brings the entities of another: a table, by the mode of the link.

A mode that is added here runs over every topology that suits it, and under faults.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from catalog.client import Client
from catalog.operations.links import CopyConflict, LinkAnswer, NewLink
from tests.faults.topologies import TOPOLOGIES, Follows, Topology

_PUBLISHING = "publishing"
_REST = timedelta(seconds=1)
# Topologies in which entities come to each node by one way.
_TREES = ("peers", "hub", "star", "chain")


class JoinedNode(Protocol):
    """A node, as a federation of tests sees it."""

    @property
    def authority(self) -> str: ...

    def client(self) -> AbstractAsyncContextManager[Client]:
        """A client whose way to the node has no faults."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkEnd:
    """A link or an acceptance at one of the two nodes that are joined; one that `rests` does not
    look for changes all the time."""

    node: JoinedNode
    id: str
    rests: bool = False

    async def shown(self) -> LinkAnswer:
        async with self.node.client() as client:
            return await client.link(self.id)

    async def hurry(self) -> None:
        """Have a link that rests look now, unless it has just done so."""
        if not self.rests:
            return
        async with self.node.client() as client:
            looked = (await client.link(self.id)).currentat
            # The node's clock may be wrong.
            if looked is None or abs(datetime.now(UTC) - looked) > _REST:
                await client.run_link(self.id)

    async def conflicts(self) -> list[CopyConflict]:
        async with self.node.client() as client:
            return await client.conflicts(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """Two nodes that are to be joined.

    Args:
        number_of_source, number_of_target: those that the topology gives them.
        source_url, target_url: where the other one finds each of them.
        relays: bring what others wrote, too.
        scope: the groups that the link brings; all if there are none.
        topic: the URL of the source's topic of Kafka.
    """

    source: JoinedNode
    target: JoinedNode
    number_of_source: int
    number_of_target: int
    source_url: str
    target_url: str
    relays: bool
    scope: Sequence[str] = ()
    topic: str = ""

    @property
    def incoming(self) -> str:
        """The id of what brings copies, at the target."""
        return f"from{self.number_of_source}"

    @property
    def outgoing(self) -> str:
        """The id of what sends copies, at the source."""
        return f"to{self.number_of_target}"

    @property
    def authorities(self) -> list[str]:
        return ["*"] if self.relays else []

    async def follow(self, mode: str, **more: Any) -> LinkEnd:
        """Let the target follow the source."""
        definition = {
            "id": self.incoming,
            "source": self.source_url,
            "mode": mode,
            "authority": self.source.authority,
            "authorities": self.authorities,
            "scope": self.scope,
        }
        async with self.target.client() as client:
            await client.add_link(NewLink(**definition | more), force=mode == "kafka")
        return LinkEnd(self.target, self.incoming, rests=mode == "walk")

    async def send(self, mode: str, **more: Any) -> LinkEnd:
        """Let the source send to the target."""
        definition = {
            "id": self.outgoing,
            "target": self.target_url,
            "mode": mode,
            "authorities": self.authorities,
            "scope": self.scope,
            **more,
        }
        async with self.source.client() as client:
            await client.add_link(NewLink(**definition))
        return LinkEnd(self.source, definition["id"], rests=mode == "write")


async def _pull(joint: Joint) -> list[LinkEnd]:
    return [await joint.follow("pull")]


async def _events(joint: Joint) -> list[LinkEnd]:
    return [await joint.follow("events")]


async def _push(joint: Joint) -> list[LinkEnd]:
    async with joint.target.client() as client:
        await client.add_link(
            NewLink(
                id=joint.incoming,
                mode="accept",
                authority=joint.source.authority,
                authorities=joint.authorities,
            )
        )
    return [LinkEnd(joint.target, joint.incoming), await joint.send("push")]


async def _kafka(joint: Joint) -> list[LinkEnd]:
    """All targets of a source read one topic, to which it publishes by one link."""
    async with joint.source.client() as client:
        is_published = any(link.id == _PUBLISHING for link in await client.links())
    incoming = await joint.follow("kafka", source=joint.topic)
    if is_published:
        return [incoming]
    return [incoming, await joint.send("publish", id=_PUBLISHING, target=joint.topic)]


async def _walk(joint: Joint) -> list[LinkEnd]:
    """What a node shows is walked, whoever wrote it, and is of the source from then on."""
    return [await joint.follow("walk", authorities=[])]


async def _write(joint: Joint) -> list[LinkEnd]:
    """What is written to a node is its own from then on; the source knows what it refused."""
    return [await joint.send("write")]


@dataclass(frozen=True, slots=True)
class LinkMode:
    """A way to join two nodes.

    Args:
        join: sets it up; returns its ends, that which tells of conflicts first.
        sends: the source connects to the target.
        is_standard: only the standard API is used. It tells neither whose entities are nor what
            was deleted, so contents are compared and no digests. Where entities come back to their
            own node, what it deleted comes back as another one's. So rings and meshes are left
            out, and links are told the groups that they bring where a way leads back.
    """

    join: Callable[[Joint], Awaitable[list[LinkEnd]]]
    sends: bool = False
    is_standard: bool = False

    @property
    def topologies(self) -> list[str]:
        """The names of those that the mode suits."""
        return [*_TREES] if self.is_standard else [*TOPOLOGIES]


MODES: Mapping[str, LinkMode] = {
    "pull": LinkMode(_pull),
    "events": LinkMode(_events),
    "push": LinkMode(_push, sends=True),
    "kafka": LinkMode(_kafka),
    "walk": LinkMode(_walk, is_standard=True),
    "write": LinkMode(_write, sends=True, is_standard=True),
}


def scope_of(
    topology: Topology, link: Follows, mode: str, groups: Sequence[frozenset[str]]
) -> list[str]:
    """The groups that a link is told to bring; none where it may bring all.

    Args:
        groups: those that are written at each node.
    """
    if not (MODES[mode].is_standard and topology.leads_back(link)):
        return []
    return sorted(path for author in topology.authors_by(link) for path in groups[author])
