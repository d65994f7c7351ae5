"""Constraints on the attributes of services (discovery seed, "Service Attributes")."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from catalog.dialects.bodypath import BodyPath
from catalog.model.errors import XRegistryError

# Returns the fault of a value, empty for a valid value.
Check: TypeAlias = Callable[[Any], str]

# The limit of the native attributes for the texts.
_LONGEST_TEXT = 1000

_CHARACTERS = r"(?:[\w\-.~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})"
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:{_CHARACTERS}+", re.ASCII)
_REFERENCE = re.compile(rf"{_CHARACTERS}*", re.ASCII)
_TOKEN = r"[A-Za-z0-9!#$&\-^_.+]+"
_MEDIA_TYPE = re.compile(
    rf'{_TOKEN}/{_TOKEN}(?:[ \t]*;[ \t]*{_TOKEN}=(?:{_TOKEN}|"[^"\\\x00-\x1f]*"))*', re.ASCII
)
_VARIABLE = r"(?:\w|%[0-9A-Fa-f]{2})+(?:\.(?:\w|%[0-9A-Fa-f]{2})+)*"
_LITERAL = r"""(?:[^\x00-\x20"'<>\\^`{|}%\x7f]|%[0-9A-Fa-f]{2})"""
_LEVEL_1 = re.compile(rf"(?:{_LITERAL}|\{{{_VARIABLE}\}})+", re.ASCII)
_CONTEXT_NAME = re.compile(r"[a-z0-9]{1,63}", re.ASCII)

CONTEXT_TYPES = ("Boolean", "Integer", "String", "Binary", "URI", "URI-reference", "Timestamp")
_TYPES = frozenset(name.lower() for name in CONTEXT_TYPES)
CORE_ATTRIBUTES = frozenset(
    {"data", "datacontenttype", "dataschema", "id", "source", "specversion", "subject", "time"}
    | {"type"}
)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        return "it must be a non-empty string"
    return "" if len(value) <= _LONGEST_TEXT else f"it is longer than {_LONGEST_TEXT} characters"


def _long_text(value: Any) -> str:
    return "" if isinstance(value, str) and value else "it must be a non-empty string"


def _matching(pattern: re.Pattern[str], detail: str) -> Check:
    return lambda value: _text(value) or ("" if pattern.fullmatch(value) else detail)


def _texts(detail: str, *, least: int) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, list) or len(value) < least or any(map(_text, value)):
            return detail
        return ""

    return check


def _config(value: Any) -> str:
    if not isinstance(value, dict) or any(map(_long_text, value.values())):
        return "it must be a map of the names of options to their types"
    return ""


def _deprecation(value: Any) -> str:
    if not isinstance(value, dict) or any(not isinstance(item, str) for item in value.values()):
        return "it must be an object with strings"
    return ""


def _context_name(value: Any) -> str:
    if not isinstance(value, str) or not _CONTEXT_NAME.fullmatch(value):
        return "it must be a CloudEvents attribute name: 1 to 63 of a-z and 0-9"
    return "it is no extension, but an attribute of every event" if value in CORE_ATTRIBUTES else ""


def _context_type(value: Any) -> str:
    if isinstance(value, str) and value.lower() in _TYPES:
        return ""
    return f"it must be one of {', '.join(CONTEXT_TYPES)}"


def _reference(value: Any) -> str:
    if isinstance(value, str) and len(value) <= _LONGEST_TEXT and _REFERENCE.fullmatch(value):
        return ""
    return "it must be a URI"


_uri = _matching(_URI, "it must be an absolute URI")
_media_type = _matching(_MEDIA_TYPE, "it must be a media type as RFC 2046 has them")
_some_texts = _texts("it must be a non-empty array of non-empty strings", least=1)

OF_SERVICE: Mapping[str, Check] = {
    "name": _text,
    "description": _text,
    "docsurl": _uri,
    "deprecated": _deprecation,
    "specversions": _some_texts,
    "subscriptionurl": _uri,
    "subscriptionconfig": _config,
    "subscriptiondialects": _texts("it must be an array of non-empty strings", least=0),
    "authscope": _text,
    "protocols": _some_texts,
}

OF_EVENT: Mapping[str, Check] = {
    "type": _text,
    "description": _text,
    "specversion": _text,
    "specversions": _some_texts,
    "datacontenttype": _media_type,
    "dataschema": _uri,
    "dataschematype": _media_type,
    "dataschemacontent": _long_text,
    "sourcetemplate": _matching(_LEVEL_1, "it must be a URI template of level 1 (RFC 6570)"),
}

OF_EXTENSION: Mapping[str, Check] = {
    "name": _context_name,
    "type": _context_type,
    "specurl": _reference,
}


def faults(service: Mapping[str, Any], place: BodyPath) -> Iterator[XRegistryError]:
    """The errors in the service of a request."""
    yield from _members(service, OF_SERVICE, ("name", "protocols"), place)
    yield from _items(service.get("events"), _event_faults, place.at("events"))


def _items(
    items: Any,
    item_faults: Callable[[Mapping[str, Any], BodyPath], Iterator[XRegistryError]],
    place: BodyPath,
) -> Iterator[XRegistryError]:
    if items is not None and not isinstance(items, list):
        yield place.fault("it must be an array")
        return
    for index, item in enumerate(items or ()):
        if isinstance(item, dict):
            yield from item_faults(item, place.item(index))
        else:
            yield place.item(index).fault("it must be an object")


def _event_faults(event: Mapping[str, Any], place: BodyPath) -> Iterator[XRegistryError]:
    yield from _members(event, OF_EVENT, ("type",), place)
    if event.get("dataschema") is not None and event.get("dataschemacontent") is not None:
        yield place.at("dataschemacontent").fault("it must not be there beside dataschema")
    names: set[str] = set()

    def extension_faults(extension: Mapping[str, Any], at: BodyPath) -> Iterator[XRegistryError]:
        yield from _members(extension, OF_EXTENSION, ("name", "type"), at)
        name = str(extension.get("name"))
        if name in names:
            yield at.at("name").fault(f"there are two extensions {name!r}")
        names.add(name)

    yield from _items(event.get("extensions"), extension_faults, place.at("extensions"))


def _members(
    values: Mapping[str, Any], checks: Mapping[str, Check], required: Sequence[str], place: BodyPath
) -> Iterator[XRegistryError]:
    for name, check in checks.items():
        value = values.get(name)
        if value is None:
            if name in required:
                yield place.at(name).missing()
        elif fault := check(value):
            yield place.at(name).fault(fault)
