"""Shows entities as core/spec.md, "Design: JSON Serialization" lays them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.api.params import Inline, inlines
from catalog.model.capabilities import SPECVERSION
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.moment import format_time
from catalog.model.schema import ResourceType
from catalog.model.xid import Xid
from catalog.registry.documents import show_document
from catalog.registry.read import Known

_FIRST = ("name", "isdefault", "description", "documentation", "icon", "labels")

Json = dict[str, Any]


class Renderer:
    """Shows what is `known` as a client of one registry sees it.

    Args:
        base: the registry's URL, without a trailing slash.
        authority: this node's; entities of others are shown as replicas.
        root: in document view, the path that the answer's own pointers are relative to;
            `None` for the API view (core/spec.md, "Doc Flag").

    Where metadata goes into headers beside a document, `shows_details` is turned off
    (core/http.md, "self Attribute").
    """

    def __init__(
        self,
        configuration: Configuration,
        known: Known,
        *,
        base: str,
        authority: str,
        root: str | None = None,
    ) -> None:
        self.configuration = configuration
        self.model = configuration.model
        self.known = known
        self.base = base
        self.authority = authority
        self.root = root
        self.shows_details = True

    def show(self, entity: Entity, inline: Inline) -> Json:
        """An entity of any kind; a resource is shown with its default version."""
        match entity.kind:
            case "registry":
                return self.registry(entity, inline)
            case "group":
                return self.group(entity, inline)
            case "resource":
                return self.resource(entity, inline)
            case "version":
                return self.version(entity, inline)

    def registry(self, entity: Entity, inline: Inline) -> Json:
        shown = {
            "specversion": SPECVERSION,
            "registryid": entity.attributes["registryid"],
            "self": self._url(entity.xid, is_shown=True) + ("" if self._is_doc else "/"),
            "xid": "/",
            "epoch": entity.epoch,
            **_ordered(entity, hidden=("registryid",)),
        }
        if "capabilities" in inline:
            shown["capabilities"] = self.configuration.capabilities.as_json()
        if "model" in inline:
            shown["model"] = self.model.expanded()
        if "modelsource" in inline:
            shown["modelsource"] = self.model.source
        for plural in self.model.groups:
            shown |= self._collection("", plural, inline)
        return shown

    def group(self, entity: Entity, inline: Inline) -> Json:
        path = entity.path
        kind = self.model.groups[path.groups]
        shown = {
            f"{kind.singular}id": path.gid,
            "self": self._url(entity.xid, is_shown=True),
            "xid": entity.xid,
            "epoch": entity.epoch,
            **_ordered(entity),
            **self._provenance(entity),
        }
        for plural in kind.resources:
            shown |= self._collection(entity.xid, plural, inline)
        return shown

    def resource(self, entity: Entity, inline: Inline) -> Json:
        path = entity.path
        kind = self._kind(path)
        shown: Json = {f"{kind.singular}id": path.rid}
        default = self.known.default_of(entity)
        if default is not None and not self._is_doc:
            shown["versionid"] = default.path.vid
        shown["self"] = self._url(entity.xid, kind, is_shown=True)
        shown["xid"] = entity.xid
        if default is not None and not self._is_doc:
            shown |= self._version_attributes(default, kind, inline, is_default=True)
        shown |= self._provenance(entity)
        meta = inlines(inline, "meta")
        shown["metaurl"] = self._url(f"{entity.xid}/meta", is_shown=meta is not None)
        if meta is not None:
            shown["meta"] = self.meta(entity, "versions" in inline or "*" in inline)
        return shown | self._collection(entity.xid, "versions", inline)

    def meta(self, entity: Entity, versions_shown: bool = False) -> Json:
        path = entity.path
        kind = self._kind(path)
        vid = entity.attributes["defaultversionid"]
        default = f"{entity.xid}/versions/{vid}"
        return {
            f"{kind.singular}id": path.rid,
            "self": self._url(f"{entity.xid}/meta", is_shown=True),
            "xid": f"{entity.xid}/meta",
            "epoch": entity.epoch,
            **_ordered(entity, hidden=("defaultversionid", "defaultversionsticky")),
            "readonly": entity.authority != self.authority,
            **self._provenance(entity),
            "defaultversionid": vid,
            "defaultversionurl": self._url(default, kind, is_shown=versions_shown),
            "defaultversionsticky": entity.attributes["defaultversionsticky"],
        }

    def version(self, entity: Entity, inline: Inline) -> Json:
        path = entity.path
        kind = self._kind(path)
        resource = self.known.entities.get(str(path.resource))
        is_default = (
            resource is not None and resource.attributes.get("defaultversionid") == path.vid
        )
        return {
            f"{kind.singular}id": path.rid,
            "versionid": path.vid,
            "self": self._url(entity.xid, kind, is_shown=True),
            "xid": entity.xid,
            **self._version_attributes(entity, kind, inline, is_default=is_default),
            **self._provenance(entity),
        }

    def collection(self, xids: list[str], inline: Inline) -> Json:
        """Entities by their ids, in this order."""
        entities = (self.known.entities[xid] for xid in xids)
        return {entity.path.id: self.show(entity, inline) for entity in entities}

    def _version_attributes(
        self, entity: Entity, kind: ResourceType, inline: Inline, *, is_default: bool
    ) -> Json:
        shown = {"epoch": entity.epoch, **_ordered(entity, {"isdefault": is_default})}
        if kind.hasdocument and inlines(inline, kind.singular) is not None:
            has_url = f"{kind.singular}url" in entity.attributes
            if not has_url:
                body = entity.document or b""
                shown |= show_document(kind, entity.attributes.get("contenttype"), body)
        return shown

    def _collection(self, owner: str, plural: str, inline: Inline) -> Json:
        path = f"{owner}/{plural}"
        inner = inlines(inline, plural)
        shown: Json = {
            f"{plural}url": self._url(path, is_shown=inner is not None),
            f"{plural}count": self.known.count(path),
        }
        if inner is not None:
            shown[plural] = {
                child.path.id: self.show(child, inner) for child in self.known.children(path)
            }
        return shown

    @property
    def _is_doc(self) -> bool:
        return self.root is not None

    def _kind(self, path: Xid) -> ResourceType:
        return self.model.groups[path.groups].resources[path.resources]

    def _url(self, path: str, kind: ResourceType | None = None, *, is_shown: bool) -> str:
        """A path's URL: a pointer into the answer where that shows it, else absolute."""
        if self.root is not None and is_shown:
            below = path.removeprefix(self.root.rstrip("/"))
            return "#" + (below.replace("~", "~0") or "/")
        has_details = self.shows_details and kind is not None and kind.hasdocument
        details = "$details" if has_details else ""
        return f"{self.base}{'' if path == '/' else path}{details}"

    def _provenance(self, entity: Entity) -> Json:
        """Where a replica is from; a node's own entities look as the standard says."""
        if entity.authority == self.authority or self._is_doc:
            return {}
        is_url = entity.authority.startswith(("http://", "https://"))
        origin = entity.authority + entity.origin if is_url else entity.origin
        return {"authority": entity.authority, "origin": origin}


def _ordered(
    entity: Entity, extra: Mapping[str, Any] | None = None, hidden: tuple[str, ...] = ()
) -> Json:
    """An entity's attributes, the well-known first, and its times after these."""
    attributes = {**entity.attributes, **(extra or {})}
    for name in hidden:
        attributes.pop(name, None)
    first = {name: attributes.pop(name) for name in _FIRST if name in attributes}
    times = {
        "createdat": format_time(entity.createdat),
        "modifiedat": format_time(entity.modifiedat),
    }
    return first | times | attributes
