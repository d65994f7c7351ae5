"""The attributes that the standard gives every entity, in the form of a modelsource.

Source: core/spec.md, "Attributes and Extensions".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXT = {"type": "string"}
_URL = {"type": "url"}
_ID = {"type": "string", "immutable": True, "required": True}
_LINK = {"type": "url", "readonly": True, "immutable": True, "required": True}
_COUNT = {"type": "uinteger", "readonly": True, "required": True}
_OPEN = {"type": "object", "attributes": {"*": {"type": "any"}}}
_OFF = {"type": "boolean", "required": True, "default": False}
_LABELS = {"type": "map", "item": _TEXT}
_TIME = {"type": "timestamp", "required": True}
_TIMES = {"createdat": _TIME, "modifiedat": _TIME}
_PLACE = {
    "self": _LINK,
    "shortself": {"type": "url", "readonly": True, "immutable": True},
    "xid": {"type": "xid", "readonly": True, "immutable": True, "required": True},
}
_ABOUT = {"description": _TEXT, "documentation": _URL, "icon": _URL, "labels": _LABELS}
_DEPRECATED = {
    "type": "object",
    "attributes": {
        "alternative": _URL,
        "documentation": _URL,
        "effective": {"type": "timestamp"},
        "removal": {"type": "timestamp"},
        "*": {"type": "any"},
    },
}
_CONSTRAINT = {
    "type": "object",
    "attributes": {
        "default": {"type": "any"},
        "enum": {"type": "array", "item": {"type": "any"}},
        "equals": _TEXT,
    },
}
_COMPATIBILITY = {
    "type": "string",
    "enum": [
        f"{way}{reach}" for way in ("backward", "forward", "full") for reach in ("", "_transitive")
    ],
}
_SPECVERSION = {"type": "string", "readonly": True, "required": True, "default": "1.0-rc4"}
REGISTRY = {
    "specversion": _SPECVERSION,
    "registryid": {**_ID, "readonly": True},
    **_PLACE,
    "epoch": _COUNT,
    "name": _TEXT,
    **_ABOUT,
    **_TIMES,
    "capabilities": _OPEN,
    "model": {**_OPEN, "readonly": True},
    "modelsource": _OPEN,
}


# Attributes that the server decides, although clients can send values or a default value exists.
# Ids, documents and collections are kept, too, with names that depend on the model.
KEPT_TIMES = ("createdat", "modifiedat")
REGISTRY_KEPT = ("specversion", "capabilities", "model", "modelsource")
VERSION_KEPT = ("isdefault", "ancestorid")
RESOURCE_KEPT = ("meta", "versions")
META_KEPT = ("xref", "readonly", "defaultversionid", "defaultversionsticky")

# A type lacks this attribute if documents of the type are called `format`: a sample model of the
# standard (formatted-doc-store) has documents called `format`. No rule needs the attribute to
# exist.
YIELDING = "format"


def joined(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Join the attributes of an entity; two attributes of the same name are a ValueError."""
    whole: dict[str, Any] = {}
    for part in parts:
        if clash := sorted(whole.keys() & part.keys()):
            raise ValueError(f"{', '.join(clash)} would be the name of two attributes")
        whole |= part
    return whole


def collection(plural: str) -> dict[str, Any]:
    """The attributes of an owner about the collection `plural`: the URL, size and members."""
    return {f"{plural}url": _LINK, f"{plural}count": _COUNT, plural: {"type": "map", "item": _OPEN}}


def group_attributes(singular: str) -> dict[str, Any]:
    """The attributes of every group; ValueError if `singular` makes two names equal."""
    common = {
        **_PLACE,
        "epoch": _COUNT,
        "name": _TEXT,
        **_ABOUT,
        **_TIMES,
        "deprecated": _DEPRECATED,
        "constraints": {"type": "map", "item": _CONSTRAINT},
    }
    return joined({f"{singular}id": _ID}, common)


def version_attributes(singular: str, hasdocument: bool) -> dict[str, Any]:
    """The attributes of every version; a resource shows the attributes of the default version.

    Documents called `format` take the place of the attribute `format`. ValueError if `singular`
    makes two names equal.
    """
    document = {f"{singular}url": _URL, singular: {"type": "any"}, f"{singular}base64": _TEXT}
    common = {
        "versionid": _ID,
        **_PLACE,
        "epoch": _COUNT,
        "name": _TEXT,
        "isdefault": {**_OFF, "readonly": True},
        **_ABOUT,
        **_TIMES,
        "ancestorid": {"type": "string", "required": True},
        "contenttype": _TEXT,
        "format": _TEXT,
        "formatvalidated": {"type": "boolean", "readonly": True},
        "formatvalidatedreason": {"type": "string", "readonly": True},
        "compatibilityvalidated": {"type": "boolean", "readonly": True},
        "compatibilityvalidatedreason": {"type": "string", "readonly": True},
    }
    if not hasdocument:
        document = {}
    if YIELDING in document:
        del common[YIELDING]
    return joined({f"{singular}id": _ID}, common, document)


def resource_attributes(singular: str) -> dict[str, Any]:
    """The attributes of a resource beside the attributes of the default version."""
    own = {"metaurl": _LINK, "meta": _OPEN, **collection("versions")}
    return joined({f"{singular}id": _ID}, _PLACE, own)


def meta_attributes(singular: str) -> dict[str, Any]:
    """The attributes of every meta entity; ValueError if `singular` makes two names equal."""
    common = {
        **_PLACE,
        "xref": _URL,
        "epoch": _COUNT,
        "labels": _LABELS,
        **_TIMES,
        "readonly": {**_OFF, "readonly": True},
        "compatibility": _COMPATIBILITY,
        "deprecated": _DEPRECATED,
        "defaultversionid": {"type": "string", "required": True},
        "defaultversionurl": {"type": "url", "readonly": True, "required": True},
        "defaultversionsticky": _OFF,
    }
    return joined({f"{singular}id": _ID}, common)
