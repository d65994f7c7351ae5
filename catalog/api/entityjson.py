"""Renders entities as JSON (core/spec.md, "Design: JSON Serialization")."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from catalog.api.requestflags import Inline, inlines
from catalog.http.responses import json_or_none, to_json
from catalog.model.capabilities import SPECVERSION
from catalog.model.configuration import Configuration
from catalog.model.documentforms import document_names, show_document
from catalog.model.entity import Entity
from catalog.model.record import record
from catalog.model.schema import Model, ResourceType
from catalog.model.xid import Xid, short_path
from catalog.reading.entities import Loaded, check_readable
from catalog.reading.visible import EVERYTHING, Visible

# core/spec.md, "Doc Flag"; a reason is left out together with its verdict.
_NOT_IN_DOCUMENTS = (
    "formatvalidated",
    "formatvalidatedreason",
    "compatibilityvalidated",
    "compatibilityvalidatedreason",
)
_FIRST = ("description", "documentation", "icon", "labels")

JsonObject = dict[str, Any]


@record
class EntityRenderer:
    """Renders loaded entities for a client of the registry.

    Times are `datetime`s, for `json_response`.

    Attributes:
        base: the URL of the registry, without a trailing slash.
        authority: the authority of the node; entities of different authorities are replicas.
        root: in document view, the path to which pointers into the answer are relative; `None` for
            the API view (core/spec.md, "Doc Flag").
        is_binary: show documents in base64 only (core/spec.md, "Binary Flag").
        has_details: the URLs of resources with documents lead to the metadata; false if the answer
            has the metadata in headers (core/http.md, "self Attribute").
    """

    configuration: Configuration
    loaded: Loaded
    base: str
    authority: str
    root: str | None = None
    is_binary: bool = False
    has_details: bool = True
    visible: Visible = EVERYTHING

    @property
    def model(self) -> Model:
        return self.configuration.model

    @property
    def _is_doc(self) -> bool:
        return self.root is not None

    def text(self, entity: Entity, inline: Inline) -> orjson.Fragment | None:
        """An entity of a collection as JSON text; `None` if the entity cannot be shown."""
        return json_or_none(entity.xid, lambda: self.show(entity, inline))

    def show(self, entity: Entity, inline: Inline) -> JsonObject:
        """An entity, rendered by its kind; a resource is shown with its default version.

        Raises:
            DataRetrievalError: the stored attributes of the entity cannot be read.
        """
        match entity.kind:
            case "registry":
                return self.registry(entity, inline)
            case "group":
                return self.group(entity, inline)
            case "resource":
                return self.resource(entity, inline)
            case "version":
                return self.version(entity, inline)

    def registry(self, entity: Entity, inline: Inline) -> JsonObject:
        shown = self.registry_alone(entity, inline)
        for plural in self.model.groups:
            shown |= self._collection("", plural, inline)
        return shown

    def registry_alone(self, entity: Entity, inline: Inline) -> JsonObject:
        """The registry without its collections."""
        check_readable(entity)
        shown: JsonObject = {
            "specversion": SPECVERSION,
            "registryid": entity.attributes["registryid"],
            "self": self._url(entity.xid, is_shown=True) + ("" if self._is_doc else "/"),
            **self._short(entity.xid),
            "xid": "/",
            "epoch": entity.epoch,
        }
        _add_attributes(shown, entity)
        if "capabilities" in inline:
            shown["capabilities"] = self.configuration.capabilities.as_json()
        if "model" in inline:
            shown["model"] = self.model.expanded()
        if "modelsource" in inline:
            shown["modelsource"] = self.model.source
        return shown

    def group(self, entity: Entity, inline: Inline) -> JsonObject:
        shown = self.group_alone(entity)
        for plural in self.model.groups[entity.path.groups].resources:
            shown |= self._collection(entity.xid, plural, inline)
        return shown

    def group_alone(self, entity: Entity) -> JsonObject:
        """A group without its collections."""
        check_readable(entity)
        path = _path(entity.xid)
        shown = {
            f"{self.model.groups[path.groups].singular}id": path.gid,
            "self": self._url(entity.xid, is_shown=True),
            **self._short(entity.xid),
            "xid": entity.xid,
            "epoch": entity.epoch,
        }
        _add_attributes(shown, entity)
        self._add_provenance(shown, entity)
        return shown

    def resource(self, entity: Entity, inline: Inline) -> JsonObject:
        check_readable(entity)
        xid = entity.xid
        _, groups, _, resources, rid = xid.split("/")
        kind = self.model.groups[groups].resources[resources]
        shown: JsonObject = {f"{kind.singular}id": rid}
        default = None if self._is_doc else self.loaded.default_of(entity)
        if default is not None:
            shown["versionid"] = _id(default.xid)
        shown["self"] = self._url(xid, kind, is_shown=True)
        shown |= self._short(xid)
        shown["xid"] = xid
        if default is not None:
            self._add_version(shown, default, kind, inline, is_default=True)
        self._add_provenance(shown, entity)
        meta = inlines(inline, "meta")
        shown["metaurl"] = self._url(f"{xid}/meta", is_shown=meta is not None)
        if meta is not None:
            shown["meta"] = self.meta(entity, inlines(inline, "versions") is not None)
        if "defaultversionid" in entity.attributes:
            shown |= self._collection(entity.xid, "versions", inline)
        return shown

    def meta(self, entity: Entity, versions_shown: bool = False) -> JsonObject:
        """A meta entity; a dangling cross reference shows little more than the `xref`."""
        check_readable(entity)
        path = _path(entity.xid)
        kind = self._kind(path)
        shown: JsonObject = {
            f"{kind.singular}id": path.rid,
            "self": self._url(f"{entity.xid}/meta", is_shown=True),
            **self._short(f"{entity.xid}/meta"),
            "xid": f"{entity.xid}/meta",
        }
        attributes = entity.attributes
        if "xref" in attributes:
            shown["xref"] = attributes["xref"]
        if "defaultversionid" not in attributes:
            self._add_provenance(shown, entity)
            return shown
        vid = attributes["defaultversionid"]
        shown["epoch"] = entity.epoch
        _add_attributes(shown, entity)
        del shown["defaultversionid"]
        is_sticky = shown.pop("defaultversionsticky", False)
        shown["readonly"] = entity.authority != self.authority
        self._add_provenance(shown, entity)
        shown["defaultversionid"] = vid
        default = f"{entity.xid}/versions/{vid}"
        shown["defaultversionurl"] = self._url(default, kind, is_shown=versions_shown)
        shown["defaultversionsticky"] = is_sticky
        return shown

    def version(self, entity: Entity, inline: Inline) -> JsonObject:
        check_readable(entity)
        path = _path(entity.xid)
        kind = self._kind(path)
        owner = self.loaded.entities.get(entity.xid.rpartition("/versions/")[0])
        is_default = owner is not None and owner.attributes.get("defaultversionid") == path.vid
        shown: JsonObject = {
            f"{kind.singular}id": path.rid,
            "versionid": path.vid,
            "self": self._url(entity.xid, kind, is_shown=True),
            **self._short(entity.xid),
            "xid": entity.xid,
        }
        self._add_version(shown, entity, kind, inline, is_default=is_default)
        self._add_provenance(shown, entity)
        return shown

    def default_url(self, resource: Entity) -> str:
        """The URL of the version that a resource shows; empty if the version is missing."""
        version = self.loaded.default_of(resource)
        if version is None:
            return ""
        path = f"{resource.xid}/versions/{_id(version.xid)}"
        return self._url(path, self._kind(_path(resource.xid)), is_shown=False)

    def collection(self, xids: Sequence[str], inline: Inline) -> orjson.Fragment:
        """Entities by id, in the given order, as JSON text, without unreadable entities."""
        return self._members([self.loaded.entities[xid] for xid in xids], inline)[0]

    def _members(self, entities: Sequence[Entity], inline: Inline) -> tuple[orjson.Fragment, int]:
        """Entities by id as JSON text, and the number of unreadable entities left out."""
        try:
            shown = {_id(entity.xid): self.show(entity, inline) for entity in entities}
            return orjson.Fragment(to_json(shown)), 0
        # Writing the entities one by one is slower, but finds the entity that cannot be shown.
        except Exception:
            texts = ((_id(entity.xid), self.text(entity, inline)) for entity in entities)
            left = {id: text for id, text in texts if text is not None}
            return orjson.Fragment(to_json(left)), len(entities) - len(left)

    def count(self, path: str) -> int:
        """The number of visible entities in a loaded collection."""
        count = self.visible.count(path)
        return self.loaded.count(path) if count is None else count

    def collection_links(self, path: str, plural: str, count: int, *, is_shown: bool) -> JsonObject:
        """The URL of the collection at `path`, and the number of visible entities in it."""
        url = self._url(path, is_shown=is_shown)
        if self.root is None or not is_shown:
            url += self.visible.query(path, count)
        return {f"{plural}url": url, f"{plural}count": count}

    def _collection(self, owner: str, plural: str, inline: Inline) -> JsonObject:
        path = f"{owner}/{plural}"
        inner, count = inlines(inline, plural), self.count(path)
        if inner is None:
            return self.collection_links(path, plural, count, is_shown=False)
        ids = self.visible.ids(path)
        wanted = [c for c in self.loaded.children(path) if ids is None or _id(c.xid) in ids]
        members, lost = self._members(wanted, inner)
        links = self.collection_links(path, plural, count - lost, is_shown=True)
        return {**links, plural: members}

    def _add_version(
        self,
        shown: JsonObject,
        version: Entity,
        kind: ResourceType,
        inline: Inline,
        *,
        is_default: bool,
    ) -> None:
        """Add the attributes of a version, which a resource shows of its default version."""
        check_readable(version)
        shown["epoch"] = version.epoch
        _add_attributes(shown, version, is_default)
        if self._is_doc:
            for name in _NOT_IN_DOCUMENTS:
                shown.pop(name, None)
        if kind.hasdocument and inlines(inline, kind.singular) is not None:
            _, encoded, url = document_names(kind)
            if url in version.attributes:
                return
            body = self.loaded.document_of(version)
            if self.is_binary:
                shown[encoded] = base64.b64encode(body).decode()
            else:
                shown |= show_document(kind, version.attributes.get("contenttype"), body)

    def _kind(self, path: Xid) -> ResourceType:
        return self.model.groups[path.groups].resources[path.resources]

    def _url(self, path: str, kind: ResourceType | None = None, *, is_shown: bool) -> str:
        """The URL of a path: a pointer if a document view shows the entity, or else absolute."""
        if self.root is not None and is_shown:
            below = path.removeprefix(self.root.rstrip("/"))
            return "#" + (below.replace("~", "~0") or "/")
        if path == "/":
            return self.base
        if kind is not None and kind.hasdocument and self.has_details:
            return f"{self.base}{path}$details"
        return self.base + path

    def _short(self, path: str) -> JsonObject:
        if self._is_doc or not self.configuration.capabilities.shortself:
            return {}
        return {"shortself": self.base + short_path(path)}

    def _add_provenance(self, shown: JsonObject, entity: Entity) -> None:
        """Add the authority and origin of a replica; entities of the node itself show neither."""
        if self._is_doc or entity.authority == self.authority:
            return
        is_url = entity.authority.startswith(("http://", "https://"))
        shown["authority"] = entity.authority
        shown["origin"] = entity.authority + entity.origin if is_url else entity.origin


def _path(xid: str) -> Xid:
    """Parse a stored xid, without a check."""
    parts = xid.split("/")
    if len(parts) == 7:
        return Xid(parts[1], parts[2], parts[3], parts[4], parts[6])
    return Xid(*parts[1:])


def _id(xid: str) -> str:
    return xid.rpartition("/")[2]


def _add_attributes(shown: JsonObject, entity: Entity, is_default: bool | None = None) -> None:
    """Add the attributes of an entity: well-known attributes, then times, then the rest."""
    attributes: Mapping[str, Any] = entity.attributes
    if "name" in attributes:
        shown["name"] = attributes["name"]
    if is_default is not None:
        shown["isdefault"] = is_default
    for name in _FIRST:
        if name in attributes:
            shown[name] = attributes[name]
    shown["createdat"] = entity.createdat
    shown["modifiedat"] = entity.modifiedat
    shown.update(attributes)
