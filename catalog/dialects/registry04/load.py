"""Loads resources with their latest versions, pages of collections, and trees of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import orjson

from catalog.dialects.registry04.address import Types
from catalog.dialects.registry04.layout import Layout, latest_version
from catalog.dialects.registry04.names import Json
from catalog.http.responses import json_or_none
from catalog.model.entity import Entity
from catalog.model.errors import NotFound, TooLarge
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.reading.loaded import Loaded
from catalog.reading.tree import (
    Branch,
    Chunks,
    read_batches,
    read_between,
    read_matches,
    read_whole,
)
from catalog.store import entities as store
from catalog.store.database import Connection

# The most entities in an answer; larger collections have to be read page by page.
MOST_ENTITIES = 20_000
_PAGE_BY_PAGE = "Read its collections page by page instead."


@dataclass(slots=True, kw_only=True)
class LoadedPage:
    """Entities in the order of their ids.

    `following` is the cursor of the next page, the last id of the page, or empty on the last page
    of the collection; `total` is the size of the collection.
    """

    entities: Sequence[Entity]
    following: str = ""
    total: int = 0
    loaded: Loaded = field(default_factory=Loaded)


async def load_resource(connection: Connection, xid: Xid) -> tuple[Loaded, Entity]:
    """A resource with its versions; raises `NotFound`."""
    loaded = await entities.read_subtree(connection, xid.resource)
    return loaded, loaded.entities[str(xid.resource)]


async def load_version(connection: Connection, xid: Xid) -> tuple[Loaded, Entity]:
    """The version at a path, or the latest version of the resource; raises `NotFound`."""
    loaded, resource = await load_resource(connection, xid)
    if not xid.vid:
        return loaded, latest_version(loaded, resource)
    version = loaded.entities.get(str(xid))
    if version is None:
        raise NotFound(str(xid))
    return loaded, version


def latest_versions(loaded: Loaded, resources: Iterable[Entity]) -> list[Entity]:
    """The latest versions of resources; a resource without versions is left out."""
    return [
        latest_version(loaded, resource)
        for resource in resources
        if loaded.children(f"{resource.xid}/versions")
    ]


async def load_page(
    connection: Connection, model: Model, owner: Xid, plural: str, after: str, limit: int
) -> LoadedPage:
    """A page of a collection; resources come with their versions.

    Raises:
        NotFound: the owner of the collection does not exist.
        TooLarge: resources have too many versions.
    """
    loaded, xids, has_more = await entities.read_page(
        connection, model, owner, plural, after, limit
    )
    path = f"{str(owner).rstrip('/')}/{plural}"
    total = (await store.count_collections(connection, [path])).get(path, 0)
    if owner.gid and not owner.rid:
        loaded = Loaded.of(await entities.load_subtrees(connection, xids)) if xids else Loaded()
        await entities.follow(connection, loaded, versions=True)
    found = [loaded.entities[xid] for xid in xids if xid in loaded.entities]
    following = Xid.parse(xids[-1]).id if has_more else ""
    return LoadedPage(entities=found, following=following, total=total, loaded=loaded)


@dataclass(slots=True, kw_only=True)
class Inlining:
    """Shows entities with inlined content, within the limits of an answer."""

    connection: Connection
    layout: Layout
    room: int = field(default_factory=lambda: MOST_ENTITIES)
    bytes: int = entities.MOST_DOCUMENT_BYTES

    async def groups(self, types: Types, after: str = "", last: str = "") -> Json:
        """The groups of a type by id, or the groups between two ids, with their resources."""
        branch = _branch(types)
        if last:
            chunks = read_between(self.connection, branch, after, last)
        else:
            chunks = read_whole(self.connection, branch)
        groups, resources = await self._tree(types, branch, chunks)
        texts = {
            group.path.gid: json_or_none(
                group.xid, partial(self._with_resources, group, types, resources)
            )
            for group in groups
        }
        return {id: text for id, text in texts.items() if text is not None}

    async def group(self, types: Types, xid: Xid) -> Json:
        """A group with its resources; raises `NotFound` or `TooLarge`."""
        branch = _branch(types)
        chunks = read_matches(self.connection, branch, [str(xid)])
        groups, resources = await self._tree(types, branch, chunks)
        if not groups:
            raise NotFound(str(xid))
        return self._with_resources(groups[0], types, resources)

    def _with_resources(self, group: Entity, types: Types, resources: Mapping[str, Json]) -> Json:
        own = resources.get(group.xid, {})
        return self.layout.group(group, types, len(own)) | {types.resource.plural: own}

    async def _tree(
        self, types: Types, branch: Branch, chunks: Chunks
    ) -> tuple[list[Entity], dict[str, Json]]:
        """The groups of a branch, and the resources of each by id."""
        groups: list[Entity] = []
        resources: dict[str, Json] = {}
        counted = self._counted(chunks)
        async for heads, loaded in read_batches(self.connection, branch, counted, follows=True):
            groups += [head for head in heads if head.kind == "group"]
            found = [head for head in heads if head.kind == "resource"]
            for xid, shown in (await self.resources(types, loaded, found)).items():
                resources.setdefault(str(xid.group), {})[xid.rid] = shown
        return groups, resources

    async def resources(
        self, types: Types, loaded: Loaded, found: Sequence[Entity]
    ) -> dict[Xid, orjson.Fragment]:
        """Resources as their latest versions, with their documents."""
        shown = await self.versions(types, loaded, latest_versions(loaded, found))
        return {xid.resource: one for xid, one in shown.items()}

    async def versions(
        self, types: Types, loaded: Loaded, found: Sequence[Entity]
    ) -> dict[Xid, orjson.Fragment]:
        """Versions with documents as JSON text; a version that cannot be shown is left out.

        Raises:
            TooLarge
        """
        if types.has_document:
            await entities.load_documents(self.connection, loaded, found)
        shown: dict[Xid, orjson.Fragment] = {}
        for version in found:
            text = json_or_none(version.xid, partial(self._version, types, loaded, version))
            if text is not None:
                shown[version.path] = text
            if self.bytes < 0:
                raise TooLarge(version.xid, detail=_PAGE_BY_PAGE)
        return shown

    def _version(self, types: Types, loaded: Loaded, version: Entity) -> Json:
        document = loaded.document_of(version) if types.has_document else b""
        self.bytes -= len(document)
        # `json_or_none` would take an error here for a fault of the version: `versions` raises it.
        if self.bytes < 0:
            return {}
        return self.layout.version(version, types) | self.layout.content(version, types, document)

    async def _counted(self, chunks: Chunks) -> Chunks:
        async for chunk in chunks:
            self.room -= len(chunk)
            if self.room < 0:
                raise TooLarge(chunk[0].xid, detail=_PAGE_BY_PAGE)
            yield chunk


def _branch(types: Types) -> Branch:
    path, resources = f"/{types.group.native}", (types.resource.native,)
    return Branch(path=path, resources=resources, versions=True, defaults=False)
