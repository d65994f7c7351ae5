"""Older types of the values of properties.

The types that the standard admits are read from the default model, the only list of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from catalog.documents.rewriter import DocumentPart, RewriteRule
from catalog.model.modelsource import default_model
from catalog.model.schema import Attribute

_SAME = {"datetime": "timestamp", "var": "any"}
_RENAMED = RewriteRule("types of values have the names of the standard", "0.5")
_TIME = RewriteRule("the time of an event is a timestamp")
_NARROWED = RewriteRule(
    "the standard has no such type here: it is string, and `older` keeps the type"
)


def rewrite_envelope_types(metadata: DocumentPart) -> None:
    """Rewrite the types of the attributes of a CloudEvent."""
    standard = _definitions("envelope", "CloudEvents/1.0", "envelopemetadata")
    _rewrite_types(metadata, standard, None)


def rewrite_section_types(options: DocumentPart, section: str) -> None:
    """Rewrite the types of the properties in a section of an AMQP message."""
    definition = _definitions("protocol", "AMQP/1.0", "protocoloptions").get(section)
    if definition is not None and (found := options.inside(section)) is not None:
        _rewrite_types(found, definition.attributes, definition.item)


def _rewrite_types(
    properties: DocumentPart, standard: Mapping[str, Attribute], item: Attribute | None
) -> None:
    for name, declared in properties.parts():
        definition = standard.get(name, item)
        kind = definition.attributes.get("type") if definition is not None else None
        _rewrite_type(declared, [] if kind is None else [*map(str, kind.enum)])


def _rewrite_type(declared: DocumentPart, admitted: list[str]) -> None:
    """Give a property a type that the standard admits; messages are checked by the older one.

    Args:
        admitted: the types that the standard has for it; empty if it admits any.
    """
    kind = declared.members.get("type")
    if not isinstance(kind, str) or kind in admitted:
        return
    same = _SAME.get(kind, kind)
    if same != kind and (same in admitted or not admitted):
        declared.set("type", same, _RENAMED)
    elif admitted == ["timestamp"]:
        declared.set("type", "timestamp", _TIME)
    elif "string" in admitted:
        declared.entity.keep(declared.pointer_of("type"), kind)
        declared.set("type", "string", _NARROWED)


@cache
def _definitions(selector: str, value: str, name: str) -> Mapping[str, Attribute]:
    """The members of an attribute of messages that depends on the value of another one."""
    kind = default_model().resource_type("messagegroups", "messages")
    assert kind is not None, "the default model has messages"
    return kind.version_attributes[selector].siblings[value.lower()][name].attributes
