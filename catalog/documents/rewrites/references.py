"""References between entities of a document, which contain the names of collections."""

from __future__ import annotations

from typing import Any

from catalog.documents.rewriter import DocumentPart, RewriteRule, unescaped

_NEWER = {
    "definitiongroups": ("messagegroups", "messages"),
    "definitiongroup": ("messagegroups", "messages"),
    "messagegroups": ("messagegroups", "messages"),
    "schemagroups": ("schemagroups", "schemas"),
}
_OLDER = {
    "messagegroups": ("definitionGroups", "definitions"),
    "schemagroups": ("schemaGroups", "schemas"),
}
_RESOURCES = frozenset({"definitions", "messages", "schemas", "schema"})
_RULE = RewriteRule("references name collections as they are called now", "0.5")


def newer_reference(text: str) -> str:
    """Return a reference within the document by the newest names, and any other as it is."""
    return _renamed(text, _NEWER, lower=True)


def message_xid(text: str) -> str:
    """The xid of a message that a reference or JSON pointer within the document leads to."""
    xid = newer_reference(text).removeprefix("#")
    return unescaped(xid) if text.startswith("#") else xid


def is_message_xid(text: str) -> bool:
    """Whether a text is the xid of a message of a message group."""
    steps = text.split("/")
    return [*steps[:2], *steps[3:4]] == ["", "messagegroups", "messages"] and len(steps) == 5


def older_reference(text: str) -> str:
    """Return a reference within the document by the names of 0.4, and any other as it is."""
    return _renamed(text, _OLDER, lower=False)


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
    """Rewrite references to the newest names; each attribute is one, or a list of them."""
    for name in names:
        if (value := part.members.get(name)) is not None:
            part.set(name, _newer(value), _RULE)


def _newer(value: Any) -> Any:
    if isinstance(value, list):
        return [_newer(item) for item in value]
    return newer_reference(value) if isinstance(value, str) else value
