"""Older names and shapes of the attributes of every entity: ids, labels, times, URLs."""

from __future__ import annotations

import re
from typing import Any

from catalog.documents.rewriter import DocumentPart, RewriteRule

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
