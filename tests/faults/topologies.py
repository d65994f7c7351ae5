"""The shapes of federations: who follows whom, and who has to hold whose entities in the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Follows:
    """A link: the node `target` follows `source`; `relays` brings what others wrote, too."""

    target: int
    source: int
    relays: bool

    def __str__(self) -> str:
        return f"{self.target}<-{self.source}"


@dataclass(frozen=True, slots=True)
class Topology:
    """A number of nodes and the links between them."""

    name: str
    nodes: int
    links: tuple[Follows, ...]

    def carried(self) -> set[tuple[int, int]]:
        """The pairs of a node and another one whose entities it has to hold in the end."""
        found = {(link.target, link.source) for link in self.links}
        while True:
            more = {
                (link.target, author)
                for link in self.links
                if link.relays
                for carrier, author in found
                if carrier == link.source and author != link.target
            }
            if more <= found:
                return found
            found |= more

    def authors_by(self, link: Follows) -> set[int]:
        """The nodes whose entities a link brings, but those that came to its source by its
        target."""
        others = [each for each in self.links if link.target not in (each.source, each.target)]
        carried = self.only(others).carried() if link.relays else ()
        return {link.source, *(author for carrier, author in carried if carrier == link.source)}

    def leads_back(self, link: Follows) -> bool:
        """Whether what a link brings may come to its source again."""
        return (link.source, link.target) in self.carried()

    def only(self, links: Iterable[Follows]) -> Topology:
        """The same nodes with some of the links."""
        return replace(self, links=tuple(links))

    def outwards(self, author: int) -> list[list[Follows]]:
        """The links that bring an author's entities, those nearest to it first."""
        reached, waves = {author}, []
        while True:
            wave = [
                link
                for link in self.links
                if link.target not in reached
                and link.source in reached
                and (link.relays or link.source == author)
            ]
            if not wave:
                return waves
            # One link brings them to a node that several would bring them to.
            nearest = {link.target: link for link in reversed(wave)}
            waves.append(list(nearest.values()))
            reached |= nearest.keys()


def _topology(name: str, nodes: int, *links: tuple[int, int, bool]) -> Topology:
    return Topology(name, nodes, tuple(Follows(*link) for link in links))


TOPOLOGIES = {
    topology.name: topology
    for topology in (
        _topology("peers", 2, (0, 1, False), (1, 0, False)),
        _topology("hub", 4, (0, 1, False), (0, 2, False), (3, 0, True)),
        _topology(
            "star", 4, *((0, n, True) for n in (1, 2, 3)), *((n, 0, True) for n in (1, 2, 3))
        ),
        _topology("chain", 4, (1, 0, True), (2, 1, True), (3, 2, True)),
        _topology("ring", 4, *((n, (n - 1) % 4, True) for n in range(4))),
        _topology("mesh", 3, *((t, s, True) for t in range(3) for s in range(3) if t != s)),
    )
}

WIDE = _topology(
    "wide",
    7,
    *((0, region, False) for region in (1, 2, 3, 4)),
    (5, 0, True),
    (6, 5, True),
)
"""A hub of four regions, a consumer of the hub, and a last one that gets what the consumer has."""
