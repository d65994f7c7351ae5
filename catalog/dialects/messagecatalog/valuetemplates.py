"""Translates attribute value templates (message catalog, 3.1.1) to native properties, and back."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

import orjson
import uri_template

from catalog.dialects.bodypath import BodyPath, checked_object, text_in
from catalog.messages.values import is_now
from catalog.model.scalars import SCALAR_CHECKS

_MOST_CHARACTERS = 4000
# Bounds the time to parse a template, which blocks every concurrent request.
_MOST_EXPRESSIONS = 64


def check_template(value: Any, place: BodyPath) -> Mapping[str, Any]:
    """Refuse an invalid attribute value template.

    An absent `value` permits every content, as in the definitions of section 5.

    Raises:
        InvalidAttribute
    """
    template = checked_object(value, place)
    check_text(template.get("value"), place.at("value"))
    text_in(template, "description", place)
    if not isinstance(template.get("required", False), bool | None):
        raise place.at("required").fault("it needs to be a boolean")
    return template


def check_text(value: Any, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for a value that is no URI template (RFC 6570)."""
    if value is None:
        return
    if not isinstance(value, str):
        raise place.fault("it needs to be a string")
    if len(value) > _MOST_CHARACTERS:
        raise place.fault(f"it is longer than {_MOST_CHARACTERS} characters")
    if value.count("{") > _MOST_EXPRESSIONS:
        raise place.fault(f"it has more than {_MOST_EXPRESSIONS} expressions")
    if not uri_template.validate(value):
        raise place.fault("it needs to be a URI template (RFC 6570)")


def without_expressions(text: str) -> str:
    """A valid template without the expressions, each in braces."""
    return re.sub(r"\{[^}]*\}", "", text)


def is_listed(template: Any) -> bool:
    """Whether a template is present; a `value` of null counts as absent."""
    return isinstance(template, dict) and template.get("value", "") is not None


def constant_in(template: Mapping[str, Any] | None) -> str:
    """The value of a template without variables; empty with variables, or without a value."""
    text = (template or {}).get("value") or ""
    return "" if "{" in text else text


def is_time(text: str) -> bool:
    """Whether a value without variables is a time, or the placeholder for a message's time."""
    return is_now("timestamp", text) or fits("timestamp", text)


def is_base64(text: str) -> bool:
    """Whether a value without variables can be a Binary (CloudEvents, "Type System")."""
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def to_property(template: Mapping[str, Any], kind: str, template_kind: str = "") -> Any:
    """The native form of a template.

    Args:
        kind: the native type of a constant.
        template_kind: the native type of a value with variables, if different from `kind`.
    """
    text = template.get("value")
    shown: dict[str, Any] = {"type": (template_kind or kind) if "{" in (text or "") else kind}
    if text:
        shown["value"] = text
    if template.get("description") is not None:
        shown["description"] = template["description"]
    return {**shown, "required": bool(template.get("required"))}


def from_property(found: Mapping[str, Any]) -> dict[str, Any]:
    """The template of a native property; a property without a value permits every value."""
    value = found.get("value", "")
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    shown: dict[str, Any] = {"value": text}
    if found.get("required"):
        shown["required"] = True
    if "description" in found:
        shown["description"] = found["description"]
    return shown


def members_of(value: Any) -> Mapping[str, Any]:
    """The members of an object; empty for a different type, which a replaced model can permit."""
    return value if isinstance(value, dict) else {}


def templates_of(value: Any) -> dict[str, dict[str, Any]]:
    """The templates of a native object's members."""
    members = members_of(value).items()
    return {name: from_property(one) for name, one in members if isinstance(one, dict)}


def fits(kind: str, value: Any) -> bool:
    """Whether a value is of a native scalar type."""
    try:
        SCALAR_CHECKS[kind](value)
    except (ValueError, OverflowError):
        return False
    return True
