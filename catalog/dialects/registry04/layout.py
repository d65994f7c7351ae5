"""The layout of entities in edition 0.4."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping

import orjson

from catalog.dialects.registry04.address import Types
from catalog.dialects.registry04.entityreferences import References
from catalog.dialects.registry04.names import EDITION, REGISTRY04_ROOT, Json, Kind, path_of
from catalog.dialects.registry04.translate import Fill, from_entity
from catalog.dialects.versionnumbers import latest_of, shown_number
from catalog.model.attributes import check_attributes
from catalog.model.entity import Entity
from catalog.model.errors import NotFound
from catalog.model.schema import Attribute, Model
from catalog.model.timestamps import format_time
from catalog.reading.loaded import Loaded, check_readable


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
