"""The part of the catalog that an answer shows: everything, or the part that a filter selects.

A filter shows its matches with everything below and above each match. Source: core/spec.md, "Filter
Flag".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from catalog.model.filter import EXCLUDE_ALL, Clause

# Characters that a query may hold unencoded (RFC 3986, 3.4), without `+` and `&`.
_PLAIN = "=,.*!:/'@~()"


@dataclass(slots=True, kw_only=True, eq=False)
class Visible:
    """The entities that an answer shows, at and below its target.

    Attributes:
        target: the xid of the entity that the request addresses, or of the collection's owner.
        depth: the number of segments of the paths that the filter's expressions begin at.
        is_everything: the answer has no filter.
        is_empty: the filter excludes the target itself. (A target that meets the filter, with no
            match below, is shown with empty collections.)
        roots: the xids of the filter's matches.
    """

    target: str
    depth: int
    is_everything: bool = False
    is_empty: bool = False
    roots: list[str] = field(default_factory=list)
    _roots: set[str] = field(default_factory=set)
    _children: dict[str, set[str]] = field(default_factory=dict)
    _reached: list[tuple[Clause, set[str]]] = field(default_factory=list)

    def add(self, clause: Clause, matches: Iterable[str]) -> None:
        """Show the matches of a clause."""
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
        """Whether an entity is a match, or above or below a match."""
        path = xid.removesuffix("/meta") or "/"
        if self._is_whole(path) or path == self.target:
            return not self.is_empty
        owner, _, id = path.rpartition("/")
        return id in self._children.get(owner, ())

    def ids(self, collection: str) -> set[str] | None:
        """The ids of the entities that are shown of a collection; `None` for all entities."""
        if self._is_whole(collection.rpartition("/")[0] or "/"):
            return None
        return self._children.get(collection, set())

    def count(self, collection: str) -> int | None:
        """The number of entities that are shown of a collection; `None` for all entities."""
        ids = self.ids(collection)
        return None if ids is None else len(ids)

    def query(self, collection: str, count: int) -> str:
        """The query with which a collection's URL shows the same `count` entities."""
        if self.is_everything:
            return ""
        texts = self.filter_of(collection) if count else [EXCLUDE_ALL]
        filters = "&".join(f"filter={quote(text, safe=_PLAIN)}" for text in texts)
        return f"?{filters}" if filters else ""

    def filter_of(self, collection: str) -> list[str]:
        """The values of `?filter` with which a collection's URL shows the same entities."""
        ids = self.ids(collection)
        if ids is None:
            return []
        if not ids:
            return [EXCLUDE_ALL]
        depth = (segments_of(collection) - self.depth + 1) // 2
        return [
            clause.text_below(depth) for clause, reached in self._reached if collection in reached
        ]

    def _is_whole(self, path: str) -> bool:
        """Whether an entity is shown with everything below."""
        if self.is_everything:
            return True
        # At most three steps up, however many matches there are.
        while path not in self._roots:
            if path == "/":
                return False
            path = path.rsplit("/", 2)[0] or "/"
        return True


EVERYTHING = Visible(target="/", depth=0, is_everything=True)


def _steps_up(xid: str, target: str) -> Iterator[tuple[str, str]]:
    """The collection and id of an entity and of each of its owners below a target."""
    while xid != target and xid != "/":
        collection, _, id = xid.rpartition("/")
        yield collection, id
        xid = collection.rpartition("/")[0] or "/"


def segments_of(path: str) -> int:
    """The number of segments of the path of an entity or of a collection."""
    return 0 if path == "/" else path.count("/")
