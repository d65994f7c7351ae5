"""Joined nodes, and what is asked of them from outside: whether they agree and are done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catalog.client import ClientError, DigestRow
from tests.faults.contents import Contents, among, read_contents
from tests.faults.linkmodes import MODES, JoinedNode, LinkEnd
from tests.faults.topologies import Follows, Topology

LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """Nodes, with the ends of each link between them; that which tells of conflicts first.

    Args:
        modes: that of each link.
        groups: those that are written at each node.
    """

    topology: Topology
    nodes: Sequence[JoinedNode]
    ends: Mapping[Follows, Sequence[LinkEnd]]
    modes: Mapping[Follows, str]
    groups: Sequence[frozenset[str]]

    def incoming(self, link: Follows) -> LinkEnd:
        """The end of a link that tells of conflicts."""
        return self.ends[link][0]

    @property
    def all_ends(self) -> list[LinkEnd]:
        return [end for ends in self.ends.values() for end in ends]

    @property
    def replicated(self) -> set[tuple[int, int]]:
        """The pairs of a node and another one whose entities it holds as replicas of that one."""
        links = [link for link in self.topology.links if not MODES[self.modes[link]].is_standard]
        return self.topology.only(links).carried()

    @property
    def shown(self) -> set[tuple[int, int]]:
        """The pairs of a node and another one whose entities come by the standard API."""
        return self.topology.carried() - self.replicated

    async def held(self) -> list[list[DigestRow]]:
        """What each node holds."""
        found = []
        for node in self.nodes:
            async with node.client() as client:
                found.append(await client.digest_rows())
        return found

    async def contents(self) -> dict[int, Contents]:
        """The contents of the nodes that are compared by them."""
        found = {}
        for number in sorted({number for pair in self.shown for number in pair}):
            async with self.nodes[number].client() as client:
                found[number] = await read_contents(client)
        return found

    async def agree(self, *, but: frozenset[str] = frozenset()) -> bool:
        """Whether each node holds what its links carry there; links that rest look now if not.

        Args:
            but: groups that are left out.
        """
        if await self._replicas_agree(but) and not await self.differences(but=but):
            return True
        await self.hurry()
        return False

    async def _replicas_agree(self, but: frozenset[str]) -> bool:
        held = [_by_authority(rows, but) for rows in await self.held()]
        names = [node.authority for node in self.nodes]
        return all(
            held[target].get(names[author], set()) == held[author].get(names[author], set())
            for target, author in self.replicated
        )

    async def differences(self, *, but: frozenset[str] = frozenset()) -> dict[str, str]:
        """The differences between nodes that should show the same, by nodes and group."""
        contents = await self.contents()
        found = {}
        for target, author in sorted(self.shown):
            groups = self.groups[author] - but
            here, there = among(contents[target], groups), among(contents[author], groups)
            for path in sorted(groups):
                if here.get(path) != there.get(path):
                    key = f"node {target} of the entities of {author}, {path}"
                    found[key] = f"{here.get(path)}, not {there.get(path)}"
        return found

    async def hurry(self) -> None:
        """Have every link that rests look now."""
        for end in self.all_ends:
            await end.hurry()

    async def agrees(self, target: int, author: int) -> bool:
        """Whether a node holds what another one controls."""
        held, name = await self.held(), self.nodes[author].authority
        ours, theirs = (_by_authority(held[n]).get(name, set()) for n in (target, author))
        return ours == theirs

    async def are_current(self) -> bool:
        """Whether every link is current, and none has a conflict."""
        shown = [await end.shown() for end in self.all_ends]
        are = all(each.state == "current" and not each.conflicts for each in shown)
        if not are:
            await self.hurry()
        return are

    async def states(self) -> str:
        """What each link says of itself, in words."""
        told = []
        for link, ends in self.ends.items():
            for end in ends:
                try:
                    shown = await end.shown()
                except ClientError as error:
                    told.append(f"{link}: {error}")
                    continue
                rest = f"{shown.conflicts} conflicts, current at {shown.currentat}"
                told.append(f"{link} {end.id}: {shown.state}, {rest}, {shown.error or 'no error'}")
        return "; ".join(told)

    async def have_all_looked(self) -> bool:
        """Wait until each link has looked since the call, and found that there is nothing new."""
        ends = self.all_ends
        first = {end: (await end.shown()).currentat for end in ends}
        # One look may be told late, and another may have begun before the call.
        for _ in range(3):
            waiting = set(ends)
            await self.hurry()
            while waiting:
                for end in list(waiting):
                    shown = await end.shown()
                    if shown.state == "current" and shown.currentat != first[end]:
                        first[end] = shown.currentat
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
