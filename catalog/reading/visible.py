"""What a filter shows: what it matches, with all that is below and above.

Source: core/spec.md, "Filter Flag".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from catalog.model.filter import EXCLUDE_ALL, Clause, text_below


@dataclass(slots=True, kw_only=True)
class Visible:
    """What a filter shows of an entity or a collection and of what is below.

    `roots` are the xids of what it matches. `is_empty` says that there is nothing to show at
    all: an entity that was asked for does not meet what is asked of itself. (One below which
    nothing matches is there, with empty collections.) `depth` is the number of segments of the
    paths that the filter's expressions begin at.
    """

    target: str
    depth: int
    is_empty: bool = False
    roots: list[str] = field(default_factory=list)
    _roots: set[str] = field(default_factory=set)
    _children: dict[str, set[str]] = field(default_factory=dict)
    _reached: list[tuple[Clause, set[str]]] = field(default_factory=list)

    def add(self, clause: Clause, matches: Iterable[str]) -> None:
        """Show what a clause matches."""
        reached: set[str] = set()
        for match in matches:
            if match not in self._roots:
                self._roots.add(match)
                self.roots.append(match)
            for collection, id in _steps_up(match, self.target):
                reached.add(collection)
                self._children.setdefault(collection, set()).add(id)
        self._reached.append((clause, reached))

    def shows(self, xid: str) -> bool:
        """Whether an entity is a match, or above or below one."""
        path = xid.removesuffix("/meta") or "/"
        if self._is_whole(path) or path == self.target:
            return not self.is_empty
        owner, _, id = path.rpartition("/")
        return id in self._children.get(owner, ())

    def within(self, collection: str) -> set[str] | None:
        """The ids of what is shown of a collection; `None` stands for all of it."""
        if self._is_whole(collection.rpartition("/")[0] or "/"):
            return None
        return self._children.get(collection, set())

    def filter_of(self, collection: str) -> list[str]:
        """The values of `?filter` with which a collection's URL shows the same of it."""
        shown = self.within(collection)
        if shown is None:
            return []
        if not shown:
            return [EXCLUDE_ALL]
        depth = (segments_of(collection) - self.depth + 1) // 2
        return [
            text_below(clause, depth) for clause, reached in self._reached if collection in reached
        ]

    def _is_whole(self, path: str) -> bool:
        """Whether an entity is a match or below one."""
        while path not in self._roots:
            if path == "/":
                return False
            path = path.rsplit("/", 2)[0] or "/"
        return True


def _steps_up(xid: str, target: str) -> Iterator[tuple[str, str]]:
    """An entity and its owners up to a target: the collection and the id of each."""
    while xid != target and xid != "/":
        collection, _, id = xid.rpartition("/")
        yield collection, id
        xid = collection.rpartition("/")[0] or "/"


def segments_of(path: str) -> int:
    """How many segments the path of an entity or of a collection has."""
    return 0 if path == "/" else path.count("/")
