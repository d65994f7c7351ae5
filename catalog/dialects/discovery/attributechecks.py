"""What the values of a service's attributes have to be (discovery seed, "Service Attributes")."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from catalog.model.errors import InvalidAttribute, RequiredAttributeMissing, XRegistryError

# What is wrong with a value; empty where nothing is.
Check: TypeAlias = Callable[[Any], str]

# What the native attributes that the texts end up in can hold.
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
_CORE = frozenset(
    {"data", "datacontenttype", "dataschema", "id", "source", "specversion", "subject", "time"}
    | {"type"}
)


def text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        return "it must be a non-empty string"
    return "" if len(value) <= _LONGEST_TEXT else f"it is longer than {_LONGEST_TEXT} characters"


def long_text(value: Any) -> str:
    return "" if isinstance(value, str) and value else "it must be a non-empty string"


def uri(value: Any) -> str:
    if fault := text(value):
        return fault
    return "" if _URI.fullmatch(value) else "it must be an absolute URI"


def media_type(value: Any) -> str:
    if fault := text(value):
        return fault
    return "" if _MEDIA_TYPE.fullmatch(value) else "it must be a media type as RFC 2046 has them"


def template(value: Any) -> str:
    if fault := text(value):
        return fault
    is_one = _LEVEL_1.fullmatch(value)
    return "" if is_one else "it must be a URI template of level 1 (RFC 6570)"


def texts(value: Any) -> str:
    if not isinstance(value, list) or not value or any(text(item) for item in value):
        return "it must be a non-empty array of non-empty strings"
    return ""


def dialects(value: Any) -> str:
    if not isinstance(value, list) or any(text(item) for item in value):
        return "it must be an array of non-empty strings"
    return ""


def config(value: Any) -> str:
    if not isinstance(value, dict) or any(long_text(item) for item in value.values()):
        return "it must be a map of the names of options to their types"
    return ""


def deprecation(value: Any) -> str:
    if not isinstance(value, dict) or any(not isinstance(item, str) for item in value.values()):
        return "it must be an object with strings"
    return ""


OF_SERVICE: Mapping[str, Check] = {
    "name": text,
    "description": text,
    "docsurl": uri,
    "deprecated": deprecation,
    "specversions": texts,
    "subscriptionurl": uri,
    "subscriptionconfig": config,
    "subscriptiondialects": dialects,
    "authscope": text,
    "protocols": texts,
}

OF_EVENT: Mapping[str, Check] = {
    "type": text,
    "description": text,
    "specversion": text,
    "specversions": texts,
    "datacontenttype": media_type,
    "dataschema": uri,
    "dataschematype": media_type,
    "dataschemacontent": long_text,
    "sourcetemplate": template,
}

OF_EXTENSION: Mapping[str, Check] = {
    "name": lambda value: _context_name(value),
    "type": lambda value: _context_type(value),
    "specurl": lambda value: _reference(value),
}


def _context_name(value: Any) -> str:
    if not isinstance(value, str) or not _CONTEXT_NAME.fullmatch(value):
        return "it must be a CloudEvents attribute name: 1 to 63 of a-z and 0-9"
    return "it is no extension, but an attribute of every event" if value in _CORE else ""


def _context_type(value: Any) -> str:
    if isinstance(value, str) and value.lower() in _TYPES:
        return ""
    return f"it must be one of {', '.join(CONTEXT_TYPES)}"


def _reference(value: Any) -> str:
    if isinstance(value, str) and len(value) <= _LONGEST_TEXT and _REFERENCE.fullmatch(value):
        return ""
    return "it must be a URI"


def faults(service: Mapping[str, Any], subject: str, path: str) -> Iterator[XRegistryError]:
    """What is wrong with a service, as a client gave it.

    Args:
        path: of the service in the request's body, for the names of attributes.
    """
    yield from _members(service, OF_SERVICE, ("name", "protocols"), subject, path)
    events = service.get("events")
    if events is not None and not isinstance(events, list):
        yield _fault(subject, f"{path}events", "it must be an array")
        return
    for index, event in enumerate(events or ()):
        yield from _event_faults(event, subject, f"{path}events[{index}]")


def _event_faults(event: Any, subject: str, path: str) -> Iterator[XRegistryError]:
    if not isinstance(event, dict):
        yield _fault(subject, path, "it must be an object")
        return
    yield from _members(event, OF_EVENT, ("type",), subject, f"{path}.")
    if event.get("dataschema") is not None and event.get("dataschemacontent") is not None:
        detail = "it must not be there beside dataschema"
        yield _fault(subject, f"{path}.dataschemacontent", detail)
    extensions = event.get("extensions")
    if extensions is not None and not isinstance(extensions, list):
        yield _fault(subject, f"{path}.extensions", "it must be an array")
        return
    names: set[str] = set()
    for index, extension in enumerate(extensions or ()):
        yield from _extension_faults(extension, names, subject, f"{path}.extensions[{index}]")


def _extension_faults(
    extension: Any, names: set[str], subject: str, path: str
) -> Iterator[XRegistryError]:
    if not isinstance(extension, dict):
        yield _fault(subject, path, "it must be an object")
        return
    yield from _members(extension, OF_EXTENSION, ("name", "type"), subject, f"{path}.")
    name = str(extension.get("name"))
    if name in names:
        yield _fault(subject, f"{path}.name", f"there are two extensions {name!r}")
    names.add(name)


def _members(
    values: Mapping[str, Any],
    checks: Mapping[str, Check],
    required: tuple[str, ...],
    subject: str,
    path: str,
) -> Iterator[XRegistryError]:
    for name, check in checks.items():
        value = values.get(name)
        if value is None:
            if name in required:
                yield RequiredAttributeMissing(subject, list=f"{path}{name}")
        elif fault := check(value):
            yield _fault(subject, f"{path}{name}", fault)


def _fault(subject: str, name: str, detail: str) -> XRegistryError:
    return InvalidAttribute(subject, name=name, error_detail=detail)
