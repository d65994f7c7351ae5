"""The form of entities at an xRegistry server, in requests and in answers: no I/O."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog.client import BadAnswer, JsonObject
from catalog.model.entity import Entity
from catalog.model.timestamps import format_time
from catalog.model.xid import Xid
from replication.targets.target import Found, Unwritable, shape_of

MARK = "concord.link"
"""The label that names the link of an entity."""

# Attributes that a server sets, or that do not belong to the content.
_SET_BY_SERVER = frozenset(
    {"self", "shortself", "xid", "epoch", "createdat", "modifiedat", "readonly", "isdefault"}
    | {"formatvalidated", "formatvalidatedreason", "authority", "origin"}
    | {"compatibilityvalidated", "compatibilityvalidatedreason", "defaultversionurl"}
    | {"metaurl", "meta", "versionsurl", "versionscount", "versions", "versionid"}
)
_DEFAULT, _STICKY = "defaultversionid", "defaultversionsticky"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNames:
    """A type of resources of a server's model."""

    singular: str
    has_document: bool

    @property
    def document_names(self) -> tuple[str, str, str]:
        return self.singular, f"{self.singular}base64", f"{self.singular}url"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNames:
    """A type of groups of a server's model, with its types of resources by their plurals."""

    singular: str
    resources: Mapping[str, ResourceNames]

    @property
    def links(self) -> frozenset[str]:
        """The attributes of groups that stand for collections."""
        return frozenset(f"{name}{end}" for name in self.resources for end in ("", "url", "count"))


def read_model(data: Mapping[str, Any], url: str) -> dict[str, GroupNames]:
    """The types of groups of a server's model, by their plurals.

    Raises:
        BadAnswer
    """
    try:
        return {
            str(plural): GroupNames(
                singular=str(group["singular"]),
                resources={
                    str(name): ResourceNames(
                        singular=str(kind["singular"]),
                        has_document=kind.get("hasdocument", True) is not False,
                    )
                    for name, kind in (group.get("resources") or {}).items()
                },
            )
            for plural, group in (data.get("groups") or {}).items()
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise BadAnswer(url, "something else than a model") from error


def check_types(xid: Xid, model: Mapping[str, GroupNames]) -> ResourceNames | None:
    """The type of a resource or version at a server; `None` for a group.

    Raises:
        Unwritable: the type is not in the server's model.
    """
    group = model.get(xid.groups)
    if group is None:
        raise Unwritable(f'the model of the server has no groups "{xid.groups}"')
    if not xid.rid:
        return None
    kind = group.resources.get(xid.resources)
    if kind is None:
        raise Unwritable(f'the model of the server has no "{xid.resources}" in "{xid.groups}"')
    return kind


def content_of(entity: Entity, kind: ResourceNames | None) -> JsonObject:
    """The content of an entity; for a resource, the content of its meta entity.

    Raises:
        Unwritable: the entity has a document, and the type in the server's model has none.
    """
    attributes = {n: v for n, v in entity.attributes.items() if n not in _SET_BY_SERVER}
    is_bare = kind is not None and not kind.has_document
    if is_bare and entity.document_sha256 is not None:
        raise Unwritable("it has a document, and the model of the server has none for it")
    return _without_mark(_settled(attributes))


def _settled(attributes: JsonObject) -> JsonObject:
    """Attributes without a default version that the server derives itself."""
    if "xref" in attributes:
        return {"xref": attributes["xref"]}
    if not attributes.get(_STICKY):
        return {n: v for n, v in attributes.items() if n not in (_DEFAULT, _STICKY)}
    return attributes


def _without_mark(content: JsonObject) -> JsonObject:
    labels = content.get("labels")
    if not isinstance(labels, dict):
        return content
    kept = {name: value for name, value in labels.items() if name != MARK}
    rest = {name: value for name, value in content.items() if name != "labels"}
    return {**rest, "labels": kept} if kept else rest


def body_of(
    entity: Entity,
    content: JsonObject,
    document: bytes | None,
    kind: ResourceNames | None,
    mark: str,
) -> JsonObject:
    """The body of a request with the content of an entity, its times and the mark of the link."""
    times = {
        "createdat": format_time(entity.createdat),
        "modifiedat": format_time(entity.modifiedat),
    }
    if "xref" in content:
        return dict(content)
    body = {**content, **times, "labels": {**(content.get("labels") or {}), MARK: mark}}
    if entity.kind == "version" and kind is not None and kind.has_document:
        value, encoded, url = kind.document_names
        if document is not None:
            body[encoded] = base64.b64encode(document).decode()
        elif url not in content:
            body[value] = None
    return body


def found_in(shown: Mapping[str, Any], names: frozenset[str], *, is_version: bool = False) -> Found:
    """An entity as a server shows it.

    Args:
        names: the names of collections, documents and ids, which are not content.
    """
    kept = {n: v for n, v in shown.items() if n not in _SET_BY_SERVER and n not in names}
    labels = shown.get("labels")
    owner = labels.get(MARK) if isinstance(labels, dict) else None
    return Found(
        shape=shape_of(_without_mark(_settled(kept))),
        tag=tag_of(shown),
        owner=owner if isinstance(owner, str) else "",
        is_version=is_version,
    )


def tag_of(shown: Mapping[str, Any]) -> str:
    """The epoch in an answer of a server, which rises with each write."""
    epoch = shown.get("epoch")
    return str(epoch) if type(epoch) is int else ""
