"""The ways in which one node brings the entities of another: a table, by the mode of the link.

A mode that is added here runs over every topology, and under faults.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from catalog.client import Client


class JoinedNode(Protocol):
    """A node, as a federation of tests sees it."""

    @property
    def authority(self) -> str: ...

    def client(self) -> AbstractAsyncContextManager[Client]:
        """A client whose way to the node has no faults."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkEnd:
    """A link or an acceptance at one of the two nodes that are joined."""

    node: JoinedNode
    id: str

    async def shown(self) -> dict[str, Any]:
        async with self.node.client() as client:
            return await client.link(self.id)

    async def conflicts(self) -> list[dict[str, Any]]:
        async with self.node.client() as client:
            return await client.conflicts(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """Two nodes that are to be joined.

    Args:
        number_of_source, number_of_target: those that the topology gives them.
        source_url, target_url: where the other one finds each of them.
        relays: bring what others wrote, too.
    """

    source: JoinedNode
    target: JoinedNode
    number_of_source: int
    number_of_target: int
    source_url: str
    target_url: str
    relays: bool

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

    async def follow(self, mode: str) -> list[LinkEnd]:
        """Let the target follow the source."""
        async with self.target.client() as client:
            await client.add_link(
                {
                    "id": self.incoming,
                    "source": self.source_url,
                    "mode": mode,
                    "authority": self.source.authority,
                    "authorities": self.authorities,
                }
            )
        return [LinkEnd(self.target, self.incoming)]


async def _pull(joint: Joint) -> list[LinkEnd]:
    return await joint.follow("pull")


async def _events(joint: Joint) -> list[LinkEnd]:
    return await joint.follow("events")


async def _push(joint: Joint) -> list[LinkEnd]:
    async with joint.target.client() as client:
        await client.accept(
            {
                "id": joint.incoming,
                "authority": joint.source.authority,
                "relays": joint.authorities,
            }
        )
    async with joint.source.client() as client:
        await client.add_link(
            {
                "id": joint.outgoing,
                "target": joint.target_url,
                "mode": "push",
                "authorities": joint.authorities,
            }
        )
    return [LinkEnd(joint.target, joint.incoming), LinkEnd(joint.source, joint.outgoing)]


@dataclass(frozen=True, slots=True)
class LinkMode:
    """A way to join two nodes.

    Args:
        join: sets it up; returns its ends, that at the target first.
        sends: the source connects to the target.
    """

    join: Callable[[Joint], Awaitable[list[LinkEnd]]]
    sends: bool = False


MODES: Mapping[str, LinkMode] = {
    "pull": LinkMode(_pull),
    "events": LinkMode(_events),
    "push": LinkMode(_push, sends=True),
}
