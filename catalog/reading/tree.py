"""Reads subtrees of any size in batches of resources, each as a GET shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from catalog.model.entity import Entity
from catalog.model.errors import TooLarge
from catalog.model.xid import Kind, Xid
from catalog.reading.entities import MOST_DOCUMENT_BYTES, Loaded, follow
from catalog.store import entities as store
from catalog.store import subtrees
from catalog.store.database import Connection
from catalog.store.subtrees import Selection, tree_key

_DOCUMENT_BYTES_AT_ONCE = 8 * 1024 * 1024
_LISTED_AT_ONCE = 500

Chunks: TypeAlias = AsyncIterator[list[Entity]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """The part of a collection of groups or resources to read.

    Args:
        path: the path of the collection.
        resources: below groups, the plural names of the types to read.
        counted: below groups, the plural names of the types whose collections are only counted.
        versions: read all versions of resources, not just the default versions.
        defaults: show resources with their default versions.
        default_documents: the types whose default versions are read with documents.
        documents: the types of which every version is read with documents.
    """

    path: str
    resources: Sequence[str] = ()
    counted: Sequence[str] = ()
    versions: bool = False
    defaults: bool = True
    default_documents: frozenset[str] = frozenset()
    documents: frozenset[str] = frozenset()

    @property
    def is_flat(self) -> bool:
        """Whether only the collection's own entities are read."""
        return not self.versions and (self._has_resources or not self.resources)

    @property
    def selection(self) -> Selection:
        if self.is_flat:
            kinds: tuple[Kind, ...] = ("resource",) if self._has_resources else ("group",)
        else:
            kinds = ("group", "resource", "version") if self.versions else ("group", "resource")
        return Selection(kinds=kinds, resources=None if self._has_resources else self.resources)

    @property
    def _has_resources(self) -> bool:
        return self.path.count("/") == 3


def read_whole(connection: Connection, branch: Branch) -> Chunks:
    """Read a whole branch. Needs a transaction."""
    if branch.is_flat:
        return subtrees.read_collection(connection, branch.path)
    # Everything below a path has \x01 after the path's key, and nothing else has (`tree_key`).
    key = tree_key(branch.path)
    return subtrees.read_range(connection, f"{key}\x01", f"{key}\x02", branch.selection)


def read_between(connection: Connection, branch: Branch, after: str, last: str) -> Chunks:
    """Read the part of a branch after the id `after`, up to and including the id `last`."""
    # \x02 is behind an entity and everything below, and before the next sibling.
    key = tree_key(branch.path)
    begin = f"{key}\x01{after.lower()}\x02" if after else f"{key}\x01"
    end = f"{key}\x01{last.lower()}\x02"
    return subtrees.read_range(connection, begin, end, branch.selection)


def read_matches(connection: Connection, branch: Branch, roots: Iterable[str]) -> Chunks:
    """Read the roots in a branch with everything below and above each root."""
    inside = sorted((root for root in roots if root.startswith(f"{branch.path}/")), key=tree_key)
    # In the order of the tree a root comes right before the roots below it, which add nothing.
    whole: list[str] = []
    for root in inside:
        if not (whole and root.startswith(f"{whole[-1]}/")):
            whole.append(root)
    above = {parent for root in whole for parent in _above(root)}
    alone = [xid for xid in above if xid.startswith(f"{branch.path}/")]
    return subtrees.read_parts(connection, alone, whole, branch.selection)


async def read_listed(
    connection: Connection, branch: Branch, xids: Sequence[str], roots: Sequence[str] | None
) -> Chunks:
    """Read members of a branch's collection in the order of `xids`, with the entities below.

    `roots` are the matches to read below the members (`read_matches`); `None` for everything.
    """
    if branch.is_flat:
        for first in range(0, len(xids), _LISTED_AT_ONCE):
            part = xids[first : first + _LISTED_AT_ONCE]
            loaded = await store.load(connection, part)
            yield [loaded[xid] for xid in part if xid in loaded]
        return
    below = None if roots is None else _by_member(branch, roots)
    for xid in xids:
        matches = [xid] if below is None else below.get(xid, [])
        async for chunk in read_matches(connection, branch, matches):
            yield chunk


def _by_member(branch: Branch, roots: Iterable[str]) -> dict[str, list[str]]:
    """Group roots by the member of the branch's collection that each root is or lies below."""
    depth = branch.path.count("/") + 2
    found: dict[str, list[str]] = {}
    for root in roots:
        found.setdefault("/".join(root.split("/")[:depth]), []).append(root)
    return found


def _above(xid: str) -> list[str]:
    path = Xid.parse(xid)
    if path.vid:
        return [str(path.resource), str(path.group)]
    return [str(path.group)] if path.rid else []


async def read_batches(
    connection: Connection, branch: Branch, chunks: Chunks, *, follows: bool
) -> AsyncIterator[tuple[list[Entity], Loaded]]:
    """Complete groups and resources, in order, with everything that each shows.

    Raises `TooLarge` if the documents of a single resource are too large to hold at once.
    """
    held: list[Entity] = []
    async for chunk in chunks:
        rows = held + chunk
        # A chunk may end amid the versions of a resource, which waits for the next chunk.
        cut = _end_of_complete(rows) if branch.versions else len(rows)
        held = rows[cut:]
        async for batch in _with_documents(connection, branch, rows[:cut], follows):
            yield batch
    async for batch in _with_documents(connection, branch, held, follows):
        yield batch


def _end_of_complete(rows: Sequence[Entity]) -> int:
    """The end of the rows whose resources are complete with all versions."""
    for position in range(len(rows) - 1, -1, -1):
        if rows[position].kind == "group":
            return len(rows)
        if rows[position].kind == "resource":
            return position
    return 0


async def _complete(
    connection: Connection, branch: Branch, rows: Sequence[Entity], follows: bool
) -> tuple[list[Entity], Loaded]:
    loaded = Loaded(entities={row.xid: row for row in rows})
    groups = [row for row in rows if row.kind == "group"]
    resources = [row for row in rows if row.kind == "resource"]
    if branch.versions:
        _add_versions(loaded, rows, resources)
    collections = [f"{group.xid}/{plural}" for group in groups for plural in branch.counted]
    if not branch.versions:
        collections += [f"{resource.xid}/versions" for resource in resources]
    if collections:
        loaded.counts |= await store.count_collections(connection, collections)
    if follows:
        await follow(connection, loaded, versions=branch.versions)
    if branch.defaults:
        await _add_defaults(connection, loaded, resources)
    return [loaded.entities[row.xid] for row in rows if row.kind != "version"], loaded


def _add_versions(loaded: Loaded, rows: Sequence[Entity], resources: Sequence[Entity]) -> None:
    versions: dict[str, list[Entity]] = {f"{resource.xid}/versions": [] for resource in resources}
    for row in rows:
        # A version whose resource was deleted is not shown.
        if row.kind == "version" and (collection := row.xid.rpartition("/")[0]) in versions:
            versions[collection].append(row)
    for collection, children in versions.items():
        loaded.add_children(collection, children)


async def _add_defaults(
    connection: Connection, loaded: Loaded, resources: Sequence[Entity]
) -> None:
    wanted = [
        f"{resource.xid}/versions/{resource.attributes['defaultversionid']}"
        for resource in resources
        if "defaultversionid" in resource.attributes
    ]
    if missing := [xid for xid in wanted if xid not in loaded.entities]:
        loaded.entities |= await store.load(connection, missing)


async def _with_documents(
    connection: Connection, branch: Branch, rows: Sequence[Entity], follows: bool
) -> AsyncIterator[tuple[list[Entity], Loaded]]:
    """Split rows into batches; a `Loaded` has the documents of a single batch at a time."""
    if not rows:
        return
    heads, loaded = await _complete(connection, branch, rows, follows)
    if not (branch.documents or branch.default_documents):
        yield heads, loaded
        return
    needed = {head.xid: _documents_of(branch, head, loaded) for head in heads}
    every = [xid for xids in needed.values() for xid in xids]
    sizes = await subtrees.load_sizes(connection, every)
    batch, shown, size = list[Entity](), set[str](), 0
    for head in heads:
        own = sum(sizes.get(xid, 0) for xid in needed[head.xid])
        if own > MOST_DOCUMENT_BYTES:
            raise TooLarge(head.xid, detail="Ask for its documents one by one.")
        if batch and size + own > _DOCUMENT_BYTES_AT_ONCE:
            loaded.documents = await store.load_documents(connection, shown)
            yield batch, loaded
            batch, shown, size = [], set(), 0
        batch.append(head)
        shown.update(needed[head.xid])
        size += own
    loaded.documents = await store.load_documents(connection, shown)
    yield batch, loaded


def _documents_of(branch: Branch, head: Entity, loaded: Loaded) -> list[str]:
    """The xids under which the documents that `head` shows are stored."""
    if head.kind != "resource":
        return []
    plural = head.path.resources
    versions: list[Entity | None] = []
    if plural in branch.documents:
        versions += loaded.children(f"{head.xid}/versions")
    if plural in branch.default_documents and branch.defaults:
        versions.append(loaded.default_of(head))
    return [
        loaded.stored.get(version.xid, version.xid)
        for version in versions
        if version is not None and version.document_sha256 is not None
    ]
