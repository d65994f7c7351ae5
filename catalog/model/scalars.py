"""Checks scalar values of each type and returns the stored form, and finds faults in JSON.

Source: core/spec.md, "Attributes and Extensions".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from catalog.model.schema import Attribute, Model
from catalog.model.timestamps import normal_time
from catalog.model.xid import Xid

MAX_DEPTH = 64
TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"

MAX_INTEGER = 2**53 - 1

_SURROGATE = re.compile("[\ud800-\udfff]")

# A second "#" is beyond RFC 3986, but published documents point into a schema with a second "#".
# Possessive quantifiers (`++`) keep the time linear in the length of a text that does not match.
_CHARACTERS = r"(?:[\w\-.~:/?#\[\]@!$&'()*+,;=]++|%[0-9A-Fa-f]{2})"
_RELATIVE = rf"(?![^/?#]*:){_CHARACTERS}*"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*:"
_URI = re.compile(rf"{_SCHEME}{_CHARACTERS}+|{_RELATIVE}", re.ASCII)
_URI_ABSOLUTE = re.compile(rf"(?!.*#){_SCHEME}{_CHARACTERS}+", re.ASCII)
_URI_RELATIVE = re.compile(_RELATIVE, re.ASCII)
_VARIABLE = r"(?:\w|%[0-9A-Fa-f]{2})+(?:\.(?:\w|%[0-9A-Fa-f]{2})+)*(?:\*|:[1-9]\d{0,3})?"
_URI_TEMPLATE = re.compile(
    rf"""(?:[^\x00-\x20"<>\\^`{{|}}%\x7f]++|%[0-9A-Fa-f]{{2}}"""
    rf"""|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*""",
    re.ASCII,
)


def fault_in_text(text: str) -> str:
    """The reason why I-JSON forbids `text`, or an empty text."""
    if "\0" in text:
        return "it contains U+0000"
    if not text.isascii() and _SURROGATE.search(text):
        return "it contains a lone surrogate"
    return ""


def fault_in_number(number: float) -> str:
    """The reason why readers may not read `number` exactly, or an empty text."""
    if isinstance(number, float):
        return "" if math.isfinite(number) else "it is not a finite number"
    if -MAX_INTEGER <= number <= MAX_INTEGER:
        return ""
    return "it is outside the integers that JSON carries exactly"


def fault_in_json(value: Any, depth: int = 0) -> str:
    """The fault of `value` as I-JSON, `depth` levels down; empty for a valid value."""
    kind = type(value)
    if value is None or kind is bool:
        return ""
    if kind is str:
        return fault_in_text(value)
    if kind is int or kind is float:
        return fault_in_number(value)
    if kind is dict or kind is list:
        if depth >= MAX_DEPTH:
            return TOO_DEEP
        for name in value if kind is dict else ():
            fault = fault_in_text(name) if type(name) is str else "a name is not a string"
            if fault:
                return fault
        for item in value.values() if kind is dict else value:
            fault = fault_in_json(item, depth + 1)
            if fault:
                return fault
        return ""
    return f"{kind.__name__} is not a JSON type"


# Each check takes a value and returns the stored form, or raises ValueError with the reason.


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("it must be true or false")
    return value


def _decimal(value: Any) -> int | float:
    if type(value) is not int and type(value) is not float:
        raise ValueError("it must be a number")
    if fault := fault_in_number(value):
        raise ValueError(fault)
    return value


def _integer(value: Any) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise ValueError("it must be an integer")
    if fault := fault_in_number(value):
        raise ValueError(fault)
    return value


def _uinteger(value: Any) -> int:
    number = _integer(value)
    if number < 0:
        raise ValueError("it must not be negative")
    return number


def _string(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("it must be a string")
    if fault := fault_in_text(value):
        raise ValueError(fault)
    return value


def _timestamp(value: Any) -> str:
    return normal_time(_string(value))


def _text_like(pattern: re.Pattern[str], what: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        text = _string(value)
        if not pattern.fullmatch(text):
            raise ValueError(f"it must be {what}")
        return text

    return check


def _xid(value: Any) -> str:
    text = _string(value)
    _entity(text)
    return text


def _entity(text: str) -> tuple[Xid, bool]:
    """The entity of an xid, and whether the xid names the meta entity."""
    is_meta = len(parts := text.split("/")) == 6 and parts[5] == "meta"
    return Xid.parse(text.removesuffix("/meta") if is_meta else text), is_meta


def check_reference(value: str, definition: Attribute, model: Model) -> None:
    """Check the target of a valid value, if values of the type have a target.

    Source: core/model.md, "attributes.<STRING>.target", and the types `xid` and `xidtype`. Raises a
    ValueError if the value points to a type that `model` or the definition's `target` excludes.
    """
    if definition.type == "xidtype":
        _check_type(value, model)
    elif definition.type == "xid" or (definition.target and value.startswith("/")):
        _check_target(value, definition.target, model)


def _check_target(text: str, target: str, model: Model) -> None:
    xid, is_meta = _entity(text)
    if not model.singular_of(xid):
        raise ValueError(f"{text!r} points to an unknown type")
    if not target:
        return
    kinds = {"group": f"/{xid.groups}", "resource": f"/{xid.groups}/{xid.resources}"}
    kinds["version"] = f"{kinds['resource']}/versions"
    either = target == f"{kinds['resource']}[/versions]" and xid.kind in ("resource", "version")
    if is_meta or not (either or target == kinds.get(xid.kind)):
        raise ValueError(f"{text!r} does not point to {target}")


def _check_type(text: str, model: Model) -> None:
    groups, _, rest = text.removeprefix("/").partition("/")
    resources, slash, versions = rest.partition("/")
    is_known = (
        text.startswith("/")
        and not text.endswith("/")
        and (model.resource_type(groups, resources) if rest else model.group_type(groups))
    )
    if text != "/" and (not is_known or (slash and versions != "versions")):
        raise ValueError(f"{text!r} is not a type of this registry")


_uri = _text_like(_URI, "a URI or a relative reference")
_uri_absolute = _text_like(_URI_ABSOLUTE, "an absolute URI, without a fragment")
_uri_relative = _text_like(_URI_RELATIVE, "a relative URI")

# Syntax does not tell URLs from URIs (RFC 3986, 1.1.3), and core/spec.md wants URNs in an attribute
# of type URL ("<RESOURCE>url Attribute"), so both types have the same check.
SCALAR_CHECKS: dict[str, Callable[[Any], Any]] = {
    "boolean": _boolean,
    "decimal": _decimal,
    "integer": _integer,
    "string": _string,
    "timestamp": _timestamp,
    "uinteger": _uinteger,
    "uri": _uri,
    "uriabsolute": _uri_absolute,
    "urirelative": _uri_relative,
    "uritemplate": _text_like(_URI_TEMPLATE, "a URI template"),
    "url": _uri,
    "urlabsolute": _uri_absolute,
    "urlrelative": _uri_relative,
    "xid": _xid,
    "xidtype": _string,
}
