"""References between entities of a document; a reference contains the names of collections."""

from __future__ import annotations

from typing import Any

from catalog.documents.rewriter import DocumentPart, RewriteRule, unescaped
from catalog.model.xid import Xid

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
