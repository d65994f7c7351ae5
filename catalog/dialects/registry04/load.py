"""Loads resources, pages and trees of groups, and lays entities out as edition 0.4 has them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import orjson

from catalog.dialects.registry04.names import (
    EDITION,
    REGISTRY04_ROOT,
    Json,
    Kind,
    References,
    Types,
    path_of,
)
from catalog.dialects.registry04.translate import Fill, from_entity
from catalog.dialects.versionnumbers import latest_of, shown_number
from catalog.http.responses import json_or_none
from catalog.model.attributes import check_attributes
from catalog.model.entity import Entity
from catalog.model.errors import NotFound, TooLarge
from catalog.model.schema import Attribute, Model
from catalog.model.timestamps import format_time
from catalog.model.xid import Xid
from catalog.reading import entities, tree
from catalog.reading.entities import Loaded, check_readable
from catalog.reading.find import find_page
from catalog.store.database import Connection

# The most entities in an answer; larger collections have to be read page by page.
MOST_ENTITIES = 20_000
_PAGE_BY_PAGE = "Read its collections page by page instead."


class Layout:
    """Lays entities out for the clients of one registry.

    Args:
        base: the node's URL, without a trailing slash.
        authority: the authority of the node; an endpoint of a different authority shows `origin`.
        others: further URLs of the node.

    `references` translates references to the registry.
    """

    def __init__(
        self, model: Model, *, base: str, authority: str, others: Iterable[str] = ()
    ) -> None:
        self.model = model
        self.references = References((base, *others))
        self.root = base + REGISTRY04_ROOT
        self.authority = authority

    def registry(self, entity: Entity, types: list[Types], counts: Mapping[str, int]) -> Json:
        """The registry, with the size of each collection (`counts`, by native path)."""
        check_readable(entity)
        attributes = entity.attributes
        shown = {
            "id": attributes["registryid"],
            "name": attributes.get("name"),
            "description": attributes.get("description"),
            "specVersion": EDITION,
            "self": self.root,
            "tags": attributes.get("labels"),
            "docs": attributes.get("documentation"),
        }
        shown = {name: value for name, value in shown.items() if value is not None}
        for each in types:
            plural = each.group.plural
            shown[f"{plural}URL"] = f"{self.root}/{plural}"
            shown[f"{plural}Count"] = counts.get(f"/{each.group.native}", 0)
        return shown

    def group(self, entity: Entity, types: Types, count: int) -> Json:
        """A group, with the size of the group's collection."""
        fill = self.fill(types.group_type.own_attributes)
        shown = self._entity(entity, entity.path.gid, types.group.singular, fill)
        if types.group.singular == "endpoint" and entity.authority != self.authority:
            is_url = entity.authority.startswith(("http://", "https://"))
            shown["origin"] = entity.authority * is_url + entity.origin
        plural, url = types.resource.plural, self.url(entity)
        shown[f"{plural}URL"] = f"{url}/{plural}"
        shown[f"{plural}Count"] = count
        return shown

    def version(self, version: Entity, types: Types) -> Json:
        """The metadata of a version; the latest version also represents the resource."""
        fill = self.fill(types.resource_type.version_attributes)
        shown = self._entity(version, version.path.rid, types.resource.singular, fill)
        shown["version"] = shown_number(version.path.vid)
        url = version.attributes.get(f"{types.resource_type.singular}url")
        if types.has_document and url:
            shown[types.uri] = url
        return shown

    def content(self, version: Entity, types: Types, document: bytes) -> Json:
        """A version's document as an attribute; empty for a document elsewhere or without bytes."""
        singular, url = types.resource.singular, f"{types.resource_type.singular}url"
        if not types.has_document or not document or url in version.attributes:
            return {}
        try:
            return {singular: orjson.loads(document)}
        except orjson.JSONDecodeError:
            return {f"{singular}Base64": base64.b64encode(document).decode()}

    def url(self, entity: Entity) -> str:
        return self.root + path_of(entity.path)

    def fill(self, definitions: Mapping[str, Attribute]) -> Fill:
        """A function that adds the model's default values of absent attributes."""
        return lambda given: check_attributes(given, definitions, subject="/", model=self.model)[0]

    def _entity(self, entity: Entity, id: str, kind: Kind, fill: Fill) -> Json:
        check_readable(entity)
        own = from_entity(kind, entity.attributes, fill, self.references)
        return {
            "id": id,
            "name": own.pop("name", id),
            **own,
            "epoch": entity.epoch,
            "self": self.url(entity),
            "createdOn": format_time(entity.createdat),
            "modifiedOn": format_time(entity.modifiedat),
        }


def latest_version(loaded: Loaded, resource: Entity) -> Entity:
    """The latest version of a resource, which represents the resource.

    Raises:
        NotFound: the resource has no version yet, as is possible for a replica.
    """
    versions = {v.path.vid: v for v in loaded.children(f"{resource.xid}/versions")}
    if not versions:
        raise NotFound(resource.xid, detail="None of its versions is here.")
    return versions[latest_of(versions)]


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
    page = await find_page(connection, owner, plural, after=after, limit=limit)
    if owner.gid and not owner.rid:
        rows = await entities.load_subtrees(connection, page.xids) if page.xids else []
        loaded = Loaded.of(rows)
        await entities.follow(connection, loaded, versions=True)
    else:
        loaded = await entities.read_members(connection, model, owner, page.xids)
    found = [loaded.entities[xid] for xid in page.xids if xid in loaded.entities]
    return LoadedPage(entities=found, following=page.following, total=page.total, loaded=loaded)


def shown_each(
    found: Iterable[Entity], show: Callable[[Entity], Json]
) -> dict[Xid, orjson.Fragment]:
    """Entities as JSON text, by xid; an entity that cannot be shown is left out."""
    texts = ((one.path, json_or_none(one.xid, partial(show, one))) for one in found)
    return {xid: text for xid, text in texts if text is not None}


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
            chunks = tree.read_between(self.connection, branch, after, last)
        else:
            chunks = tree.read_whole(self.connection, branch)
        groups, resources = await self._tree(types, branch, chunks)
        shown = shown_each(groups, lambda group: self._with_resources(group, types, resources))
        return {xid.gid: one for xid, one in shown.items()}

    async def group(self, types: Types, xid: Xid) -> Json:
        """A group with its resources; raises `NotFound` or `TooLarge`."""
        branch = _branch(types)
        chunks = tree.read_matches(self.connection, branch, [str(xid)])
        groups, resources = await self._tree(types, branch, chunks)
        if not groups:
            raise NotFound(str(xid))
        return self._with_resources(groups[0], types, resources)

    def _with_resources(self, group: Entity, types: Types, resources: Mapping[str, Json]) -> Json:
        own = resources.get(group.xid, {})
        return self.layout.group(group, types, len(own)) | {types.resource.plural: own}

    async def _tree(
        self, types: Types, branch: tree.Branch, chunks: tree.Chunks
    ) -> tuple[list[Entity], dict[str, Json]]:
        """The groups of a branch, and the resources of each by id."""
        groups: list[Entity] = []
        resources: dict[str, Json] = {}
        counted = self._counted(chunks)
        async for heads, loaded in tree.read_batches(
            self.connection, branch, counted, follows=True
        ):
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
            shown |= shown_each([version], partial(self._version, types, loaded))
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

    async def _counted(self, chunks: tree.Chunks) -> tree.Chunks:
        async for chunk in chunks:
            self.room -= len(chunk)
            if self.room < 0:
                raise TooLarge(chunk[0].xid, detail=_PAGE_BY_PAGE)
            yield chunk


def _branch(types: Types) -> tree.Branch:
    path, resources = f"/{types.group.native}", (types.resource.native,)
    return tree.Branch(path=path, resources=resources, versions=True, defaults=False)
