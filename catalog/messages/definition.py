"""What a message must look like: its definition, with what it inherits.

Source: message/spec.md, "Message Definitions (Message Group)" and "basemessage".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.messages.oldertypes import with_older_types

CLOUDEVENTS_ENVELOPE = "cloudevents/1.0"

# The names that the reference to a base message has had.
BASES = ("basemessage", "basemessageuri", "basemessageurl")
_SCHEMAS = ("dataschema", "dataschemaxid", "dataschemauri")
_SELECTED = {"envelope": ("envelopemetadata", "envelopeoptions"), "protocol": ("protocoloptions",)}
_INHERITED = frozenset(
    {"datacontenttype", "dataschemaformat", *_SCHEMAS, *_SELECTED}
    | {options for names in _SELECTED.values() for options in names}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """What a property's value must be: of a type, and, if there is a `value`, that one."""

    type: str = "string"
    value: Any = None
    required: bool = False

    @classmethod
    def of(cls, source: Any, *, type: str = "string") -> Property:
        """Read a definition; whatever is no object is the value that has to be there."""
        if not isinstance(source, Mapping):
            return cls(type=type, value=source, required=source is not None)
        named = source.get("type")
        return cls(
            type=named.lower() if isinstance(named, str) else type,
            value=source.get("value"),
            required=source.get("required") is True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDefinition:
    """A message definition that inherits no more.

    `dataschema`, `dataschemaxid` and `dataschemauri` say where the schema of the payload is,
    the first of them that there is.
    """

    envelope: str = ""
    envelopemetadata: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = ""
    protocoloptions: Mapping[str, Any] = field(default_factory=dict)
    dataschemaformat: str = ""
    dataschema: Any = None
    dataschemaxid: str = ""
    dataschemauri: str = ""
    datacontenttype: str = ""

    @property
    def is_cloudevent(self) -> bool:
        return self.envelope.lower() == CLOUDEVENTS_ENVELOPE


def combine(chain: Sequence[Mapping[str, Any]], group: Mapping[str, Any]) -> MessageDefinition:
    """The definition that a message's attributes make, laid over those of its bases.

    Args:
        chain: the attributes of the message, then of its base, of that one's base and so on.
        group: the attributes of the message's group or endpoint: its envelope and its protocol
            hold where the message has none.
    """
    merged: dict[str, Any] = {}
    for attributes in map(with_older_types, reversed(chain)):
        merged = _overlay(merged, {k: v for k, v in attributes.items() if k in _INHERITED})
    for name in _SELECTED:
        if not _text(merged.get(name)):
            merged[name] = group.get(name)
    return MessageDefinition(
        envelope=_selector(merged.get("envelope")),
        envelopemetadata=_envelope_properties(_object(merged.get("envelopemetadata"))),
        protocol=_selector(merged.get("protocol")),
        protocoloptions=_object(merged.get("protocoloptions")),
        dataschema=merged.get("dataschema"),
        **{
            name: _text(merged.get(name))
            for name in ("dataschemaformat", "dataschemaxid", "dataschemauri", "datacontenttype")
        },
    )


def _overlay(base: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What belongs to another envelope, protocol or schema than the message's own is dropped."""
    dropped: set[str] = set()
    for selector, options in _SELECTED.items():
        own, inherited = _selector(attributes.get(selector)), _selector(base.get(selector))
        if own and inherited and own.lower() != inherited.lower():
            dropped.update(options)
    if any(attributes.get(name) is not None for name in _SCHEMAS):
        dropped.update(_SCHEMAS)
    return _merge({k: v for k, v in base.items() if k not in dropped}, attributes)


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Deep, for objects; everything else replaces what it is laid over."""
    merged = dict(base)
    for name, value in over.items():
        inherited = merged.get(name)
        if isinstance(value, Mapping) and isinstance(inherited, Mapping):
            merged[name] = _merge(inherited, value)
        elif value is not None:
            merged[name] = value
    return merged


def _envelope_properties(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes may be inside `attributes`; a property of that name has no objects."""
    inner = metadata.get("attributes")
    if isinstance(inner, Mapping) and inner and all(isinstance(v, Mapping) for v in inner.values()):
        return {**{k: v for k, v in metadata.items() if k != "attributes"}, **inner}
    return metadata


def _selector(value: Any) -> str:
    text = _text(value)
    return "" if text.lower() == "none" else text


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
