"""Older names and shapes of the attributes of every entity, and of references between entities."""

from __future__ import annotations

import re
from typing import Any

from catalog.documents.rewriter import DocumentPart, RewriteRule, unescaped
from catalog.model.xid import Xid

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_RENAMED = {
    "tags": "labels",
    "docs": "documentation",
    "createdOn": "createdat",
    "createdon": "createdat",
    "modifiedOn": "modifiedat",
    "modifiedon": "modifiedat",
}
_TYPES = frozenset(
    {"endpoint", "definitiongroup", "definition", "messagegroup", "message"}
    | {"schemagroup", "schema", "schemaversion", "version"}
)
_LARGEST = 2**53 - 1
_URLS = frozenset(
    {"alternative", "authorityuri", "basemessage", "basemessageuri", "basemessageurl"}
    | {"dataschemauri", "dataschemaurl", "docs", "documentation", "icon", "resourceuri"}
    | {"schemaUrl", "schemauri", "schemaurl", "specurl", "uri", "url"}
)
# Members with entities of their own, or with documents of another format.
_CONTENT = frozenset(
    {"dataschema", "definitions", "messages", "older", "rc4attributes", "schema", "schemas"}
    | {"versions"}
)
_PEOPLE = ("createdBy", "createdby", "modifiedBy", "modifiedby")

_NAMED_ANEW = frozenset({*_RENAMED, *_PEOPLE, "definitionGroups", "schemaUrl"})

_RENAME = RewriteRule("attributes have other names now", "0.5")
_ID = RewriteRule("an id is named after its type", "0.5")
_TYPE = RewriteRule("where an entity is tells its type", "0.5")
_CASE = RewriteRule("names are in lower case", "0.5")
_LABELS = RewriteRule("names of labels are in lower case")
_LINK = RewriteRule("documentation is a URL")
_BLANKS = RewriteRule("there are no blanks around a URL")
_LARGE = RewriteRule("integers that JSON does not carry exactly are text")
_NEWER = {
    "definitiongroups": ("messagegroups", "messages"),
    "definitiongroup": ("messagegroups", "messages"),
    "messagegroups": ("messagegroups", "messages"),
    "schemagroups": ("schemagroups", "schemas"),
    "endpoint": ("endpoints", "messages"),
    "endpoints": ("endpoints", "messages"),
}
_OLDER = {
    "messagegroups": ("definitionGroups", "definitions"),
    "schemagroups": ("schemaGroups", "schemas"),
    "endpoints": ("endpoints", "definitions"),
}
_RESOURCES = frozenset({"definitions", "messages", "schemas", "schema"})
_RULE = RewriteRule("references are xids, with the names that collections have now", "0.5")


def lower_names(part: DocumentPart) -> None:
    """Put names into lower case, except for names that the newest edition replaces."""
    for name in list(part.members):
        if _NAME.fullmatch(name) or name in _NAMED_ANEW:
            continue
        if _NAME.fullmatch(name.lower()):
            part.rename(name, name.lower(), _CASE)


def rewrite_entity(part: DocumentPart, key: str, singular: str) -> None:
    """Rewrite the attributes that every entity has.

    Args:
        part: a group, resource or version.
        key: the id of the entity, which is its key in the collection.
        singular: the type of the entity, such as `message` or `version`.
    """
    leave_out_other_id(part, key, f"{singular}id")
    if part.members.get("id", key) != key:
        part.leave_out("id", f'the entity is at "{key}", which is its id')
    part.rename("id", f"{singular}id", _ID)
    if isinstance(kind := part.members.get("type"), str) and kind.lower() in _TYPES:
        part.drop("type", _TYPE)
    for name, value in list(part.members.items()):
        if isinstance(value, int) and abs(value) > _LARGEST:
            part.set(name, str(value), _LARGE)
    for name in _PEOPLE:
        part.leave_out(name, "the standard no longer tells who made a change")
    rewrite_description(part)
    for name in list(part.members):
        if not _NAME.fullmatch(name):
            part.leave_out(name, "names consist of lower-case letters, digits and _")


def trim_urls(part: DocumentPart) -> None:
    """Remove the blanks around the URLs of an entity."""
    for name, value in list(part.members.items()):
        if name not in _CONTENT:
            part.set(name, _trimmed(name, value), _BLANKS)


def _trimmed(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return value.strip() if name in _URLS else value
    if isinstance(value, list):
        return [_trimmed(name, item) for item in value]
    if isinstance(value, dict):
        return {key: _trimmed(key, member) for key, member in value.items()}
    return value


def rewrite_description(part: DocumentPart) -> None:
    """Rewrite the descriptive attributes that the registry and every entity have."""
    for old, new in _RENAMED.items():
        part.rename(old, new, _RENAME)
    lower_keys(part, "labels", _LABELS)
    documentation = part.members.get("documentation")
    if isinstance(documentation, dict) and isinstance(documentation.get("url"), str):
        part.set("documentation", documentation["url"], _LINK)


def leave_out_other_id(part: DocumentPart, key: str, name: str) -> None:
    """Leave out an id that differs from the key of the entity."""
    if key and part.members.get(name) not in (None, key):
        part.leave_out(name, f'the entity is at "{key}", which is its id')


def lower_keys(part: DocumentPart, name: str, rule: RewriteRule) -> None:
    """Put the keys of a map into lower case."""
    if (map_ := part.inside(name)) is not None:
        map_.rename_all(str.lower, rule)


def newer_reference(text: str, base: str = "") -> str:
    """Rewrite a reference with older names as an xid; other references stay unchanged.

    Args:
        text: the reference.
        base: the URL of the registry that wrote the document, without a slash at the end.
    """
    within = text.removeprefix(base) if base and text.startswith(f"{base}/") else text
    newer = _renamed(within, _NEWER, lower=True)
    if newer == within:
        return text
    path = unescaped(newer[1:]) if newer.startswith("#") else newer
    try:
        return str(Xid.parse(path))
    except ValueError:
        return newer


def message_xid(text: str) -> str:
    """The xid of the message to which a reference or JSON pointer of the document leads."""
    newer = newer_reference(text)
    return unescaped(newer[1:]) if newer.startswith("#") else newer


def is_message_xid(text: str) -> bool:
    """Whether a text is the xid of a message of a message group."""
    steps = text.split("/")
    return [*steps[:2], *steps[3:4]] == ["", "messagegroups", "messages"] and len(steps) == 5


def older_reference(text: str) -> str:
    """Rewrite a reference within the document as a pointer of 0.4; others stay unchanged."""
    older = _renamed(text, _OLDER, lower=False)
    is_xid = text.startswith("/") and older != text
    return "#" + older.replace("~", "~0") if is_xid else older


def _renamed(text: str, names: dict[str, tuple[str, str]], *, lower: bool) -> str:
    if not text.startswith(("/", "#/")):
        return text
    steps = text.split("/")
    found = names.get(steps[1].lower() if lower else steps[1])
    if found is None:
        return text
    steps[1] = found[0]
    if len(steps) > 3 and steps[3] in _RESOURCES:
        steps[3] = found[1]
    return "/".join(steps)


def rewrite_references(part: DocumentPart, *names: str) -> None:
    """Rewrite the references in the named attributes: single references, or lists of references."""
    for name in names:
        if (value := part.members.get(name)) is not None:
            part.set(name, _newer(value, part.rewriter.base), _RULE)


def _newer(value: Any, base: str) -> Any:
    if isinstance(value, list):
        return [_newer(item, base) for item in value]
    return newer_reference(value, base) if isinstance(value, str) else value
