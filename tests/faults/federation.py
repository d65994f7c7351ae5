"""Joined nodes, and what is asked of them from outside: whether they agree and are done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catalog.client import DigestRow
from tests.faults.linkmodes import JoinedNode, LinkEnd
from tests.faults.topologies import Follows, Topology

LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """Nodes, with the ends of each link between them; that at the link's target first."""

    topology: Topology
    nodes: Sequence[JoinedNode]
    ends: Mapping[Follows, Sequence[LinkEnd]]

    def incoming(self, link: Follows) -> LinkEnd:
        """The end at the target of a link."""
        return self.ends[link][0]

    @property
    def all_ends(self) -> list[LinkEnd]:
        return [end for ends in self.ends.values() for end in ends]

    async def held(self) -> list[list[DigestRow]]:
        """What each node holds."""
        found = []
        for node in self.nodes:
            async with node.client() as client:
                found.append(await client.digest_rows())
        return found

    async def agree(self, *, but: frozenset[str] = frozenset()) -> bool:
        """Whether each node holds what its links carry there.

        Args:
            but: groups that are left out.
        """
        held = [_by_authority(rows, but) for rows in await self.held()]
        names = [node.authority for node in self.nodes]
        return all(
            held[target].get(names[author], set()) == held[author].get(names[author], set())
            for target, author in self.topology.carried()
        )

    async def agrees(self, target: int, author: int) -> bool:
        """Whether a node holds what another one controls."""
        held, name = await self.held(), self.nodes[author].authority
        ours, theirs = (_by_authority(held[n]).get(name, set()) for n in (target, author))
        return ours == theirs

    async def are_current(self) -> bool:
        """Whether every link is current, and none has a conflict."""
        shown = [await end.shown() for end in self.all_ends]
        return all(each["state"] == "current" and not each["conflicts"] for each in shown)

    async def have_all_looked(self) -> bool:
        """Wait until each link has found twice that there is nothing new."""
        ends = self.all_ends
        first = {end: (await end.shown())["currentat"] for end in ends}
        for _ in range(2):
            waiting = set(ends)
            while waiting:
                for end in list(waiting):
                    shown = await end.shown()
                    if shown["state"] == "current" and shown["currentat"] != first[end]:
                        first[end] = shown["currentat"]
                        waiting.discard(end)
                await asyncio.sleep(LOOK_SECONDS)  # between two looks
        return True


def _by_authority(
    rows: list[DigestRow], but: frozenset[str] = frozenset()
) -> dict[str, set[DigestRow]]:
    found: dict[str, set[DigestRow]] = {}
    for row in rows:
        if row.xid != "/" and "/".join(row.xid.split("/")[:3]) not in but:
            found.setdefault(row.authority, set()).add(row)
    return found
