"""Writes subtrees as JSON text while reading the entities: depth first, in the order of ids."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from catalog.api.entityjson import EntityRenderer
from catalog.api.requestflags import Inline, inlines
from catalog.http.responses import shown_or_none, to_json
from catalog.model.entity import Entity
from catalog.model.schema import Model, ResourceType
from catalog.reading.tree import Branch, Chunks, read_batches, read_listed, read_matches, read_whole
from catalog.store import entities as store
from catalog.store.database import Connection

_PIECE = 64 * 1024


class JsonText:
    """A JSON text, written piece by piece, so that memory never holds a whole answer."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._needs_comma = False
        self.size = 0

    def open(self, id: str = "") -> None:
        """Begin an object; `id` is the name in the enclosing object, and needs no escaping."""
        self._add(b'"%b":{' % id.encode() if id else b"{")
        self._needs_comma = False

    def close(self) -> None:
        self._parts.append(b"}")
        self._needs_comma = True

    def member(self, id: str, value: Any) -> None:
        """Write one member, whose name needs no escaping."""
        self._add(b'"%b":%b' % (id.encode(), to_json(value)))

    def members(self, shown: Mapping[str, Any]) -> None:
        """Write the members of an object, without the braces."""
        self.members_of(to_json(shown))

    def members_of(self, text: bytes) -> None:
        """Write the members of an object that is JSON text already, without the braces."""
        if text != b"{}":
            self._add(text[1:-1])

    def take(self) -> bytes:
        """Return the text written since the last call."""
        taken = b"".join(self._parts)
        self._parts.clear()
        self.size = 0
        return taken

    def _add(self, part: bytes) -> None:
        if self._needs_comma:
            self._parts.append(b",")
        self._parts.append(part)
        self.size += len(part)
        self._needs_comma = True


def branch_of(model: Model, path: str, inline: Inline, *, is_doc: bool) -> Branch:
    """The branch to read for inlining a tree in a collection of groups or resources."""
    names = path.split("/")[1::2]
    types = model.groups[names[0]].resources
    if len(names) == 2:
        below: Mapping[str, Inline] = {names[1]: inline}
    else:
        found = {plural: inlines(inline, plural) for plural in types}
        below = {plural: inner for plural, inner in found.items() if inner is not None}
    versions = {plural: inlines(inner, "versions") for plural, inner in below.items()}
    return Branch(
        path=path,
        resources=tuple(below) if len(names) == 1 else (),
        counted=tuple(plural for plural in types if plural not in below),
        versions=any(inner is not None for inner in versions.values()),
        defaults=not is_doc,
        default_documents=_with_document(types, below),
        documents=_with_document(types, versions),
    )


def _with_document(
    types: Mapping[str, ResourceType], inline: Mapping[str, Inline | None]
) -> frozenset[str]:
    return frozenset(
        plural
        for plural, inner in inline.items()
        if inner is not None
        and types[plural].hasdocument
        and inlines(inner, types[plural].singular) is not None
    )


class SubtreeWriter:
    """Writes the inlined entities of one answer.

    The attributes of an entity come first, then the collections. A resource is written after its
    inlined parts were read.
    """

    def __init__(self, connection: Connection, renderer: EntityRenderer) -> None:
        self._connection = connection
        self._renderer = renderer
        self._text = JsonText()
        self._group: Entity | None = None
        self._is_left_out = False
        self._plural = ""
        self._tally: dict[str, int] = {}
        self.has_cross_references = False

    async def owner(
        self, entity: Entity, inline: Inline, *, with_own: bool = True
    ) -> AsyncGenerator[bytes]:
        """Write the registry or a group.

        Args:
            with_own: show the attributes of the entity beside the collections.
        """
        text, renderer, groups = self._text, self._renderer, self._renderer.model.groups
        if entity.kind == "group":
            own, plurals = renderer.group_alone(entity), [*groups[entity.path.groups].resources]
        else:
            own, plurals = renderer.registry_alone(entity, inline), [*groups]
        text.open()
        if with_own:
            text.members(own)
        for plural in plurals:
            path = f"{entity.xid.rstrip('/')}/{plural}"
            inner = inlines(inline, plural)
            if inner is None:
                count = await self._count(path)
            else:
                text.open(plural)
                branch = self._branch(path, inner)
                if (roots := self._roots(branch)) is None:
                    chunks = read_whole(self._connection, branch)
                else:
                    chunks = read_matches(self._connection, branch, roots)
                async for piece in self._members(branch, inner, chunks):
                    yield piece
                text.close()
                count = self._tally[path]
            if with_own:
                is_shown = inner is not None
                text.members(renderer.collection_links(path, plural, count, is_shown=is_shown))
        text.close()
        yield text.take()

    async def collection(
        self, path: str, inline: Inline, chunks: Callable[[Branch], Chunks]
    ) -> AsyncGenerator[bytes]:
        """Write a collection of groups or resources.

        Args:
            chunks: reads the visible part of a branch.
        """
        branch = self._branch(path, inline)
        self._text.open()
        async for piece in self._members(branch, inline, chunks(branch)):
            yield piece
        self._text.close()
        yield self._text.take()

    async def listed(
        self, root: str, collections: Mapping[str, Sequence[str]], inline: Inline
    ) -> AsyncGenerator[bytes]:
        """Write members of collections by id, or by type and id if `root` is their owner."""
        self._text.open()
        for path, xids in collections.items():
            plural = path.rpartition("/")[2]
            inner = inline if path == root else inlines(inline, plural) or {}
            branch = self._branch(path, inner)
            if path != root:
                self._text.open(plural)
            chunks = read_listed(self._connection, branch, xids, self._roots(branch))
            async for piece in self._members(branch, inner, chunks):
                yield piece
            if path != root:
                self._text.close()
        self._text.close()
        yield self._text.take()

    def _branch(self, path: str, inline: Inline) -> Branch:
        is_doc = self._renderer.root is not None
        return branch_of(self._renderer.model, path, inline, is_doc=is_doc)

    def _roots(self, branch: Branch) -> Sequence[str] | None:
        """The matches of the filter; `None` if the filter shows the whole branch."""
        visible = self._renderer.visible
        return None if visible.ids(branch.path) is None else visible.roots

    async def _count(self, path: str) -> int:
        count = self._renderer.visible.count(path)
        if count is not None:
            return count
        return (await store.count_collections(self._connection, [path])).get(path, 0)

    async def _members(
        self, branch: Branch, inline: Inline, chunks: Chunks
    ) -> AsyncGenerator[bytes]:
        text, renderer = self._text, self._renderer
        self._tally = {branch.path: 0}
        batches = read_batches(self._connection, branch, chunks, follows=renderer.root is None)
        async for heads, loaded in batches:
            self._renderer = renderer = replace(renderer, loaded=loaded)
            self.has_cross_references |= loaded.has_cross_references
            for head in heads:
                if head.kind == "group":
                    self._end_group(inline)
                    self._begin_group(head, inline)
                else:
                    self._resource(head, inline)
                if text.size > _PIECE:
                    yield text.take()
        self._end_group(inline)

    def _begin_group(self, group: Entity, inline: Inline) -> None:
        text, renderer = self._text, self._renderer
        collection, _, id = group.xid.rpartition("/")
        own = shown_or_none(group.xid, lambda: to_json(renderer.group_alone(group)))
        self._group, self._is_left_out = group, own is None
        if own is None:
            return
        self._tally = {collection: self._tally[collection] + 1}
        text.open(id)
        text.members_of(own)
        for plural in renderer.model.groups[group.path.groups].resources:
            if inlines(inline, plural) is None:
                path = f"{group.xid}/{plural}"
                count = renderer.count(path)
                text.members(renderer.collection_links(path, plural, count, is_shown=False))

    def _resource(self, resource: Entity, inline: Inline) -> None:
        collection, _, id = resource.xid.rpartition("/")
        if self._group is not None:
            if self._is_left_out:
                return
            plural = collection.rpartition("/")[2]
            inline = inlines(inline, plural) or {}
            if plural != self._plural:
                self._end_plural()
                self._text.open(plural)
                self._plural = plural
        shown = self._renderer.text(resource, inline)
        if shown is not None:
            self._tally[collection] = self._tally.get(collection, 0) + 1
            self._text.member(id, shown)

    def _end_plural(self) -> None:
        if self._plural:
            self._text.close()
            self._plural = ""

    def _end_group(self, inline: Inline) -> None:
        """Write the URLs and counts of the collections of a group, after the last members.

        The counts are final only after the last member, since unreadable members are left out.
        """
        if self._group is None or self._is_left_out:
            self._group, self._is_left_out = None, False
            return
        text, renderer = self._text, self._renderer
        self._end_plural()
        for plural in renderer.model.groups[self._group.path.groups].resources:
            if inlines(inline, plural) is not None:
                path = f"{self._group.xid}/{plural}"
                count = self._tally.get(path, 0)
                if not count:
                    text.member(plural, {})
                text.members(renderer.collection_links(path, plural, count, is_shown=True))
        text.close()
        self._group = None
