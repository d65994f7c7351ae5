"""Message definitions, combined with base messages, and the targets of references to messages.

Sources: message/spec.md, "Message Definitions (Message Group)", "basemessage" and "dataschemauri";
schema/spec.md, "Schema Formats".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from catalog.messages.messageprotocol import KAFKA, protocol_of
from catalog.messages.values import is_known
from catalog.model.dotpath import value_at
from catalog.model.schema import RESERVED_GROUP_NAMES
from catalog.model.xid import Xid

CLOUDEVENTS_ENVELOPE = "cloudevents/1.0"

_SCHEMAS = ("dataschema", "dataschemaxid", "dataschemauri")
_SELECTED = {"envelope": ("envelopemetadata", "envelopeoptions"), "protocol": ("protocoloptions",)}
_INHERITED = frozenset(
    {"datacontenttype", "dataschemaformat", *_SCHEMAS, *_SELECTED}
    | {options for names in _SELECTED.values() for options in names}
)
# The extensions that keep types of older documents and of the dialect of edition 0.4.
_OLDER_TYPES = ("older", "registry04")
# The paths of metadata in the older editions.
_OLDER_PATHS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "envelopemetadata": (
        ("envelopemetadata",),
        ("envelopemetadata", "attributes"),
        ("metadata", "attributes"),
        ("metadata",),
    ),
    "protocoloptions": (("protocoloptions",), ("protocolmetadata",), ("metadata",)),
}
_DETAILS = "$details"


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """The definition of a property.

    Args:
        value: the only value that a message may have; `None` if every value of the type is
            allowed.
        is_text: whether messages carry the value as text, whatever its type is.
        is_media_type: whether values are compared as media types.
    """

    type: str = "string"
    value: Any = None
    required: bool = False
    is_text: bool = False
    is_media_type: bool = False

    @classmethod
    def of(
        cls, source: Any, *, type: str = "string", is_text: bool, is_media_type: bool
    ) -> Property:
        """Read a definition; a definition that is no object is the required value."""
        required = source is not None
        if isinstance(source, Mapping):
            named = source.get("type")
            type = named.lower() if isinstance(named, str) else type
            source, required = source.get("value"), source.get("required") is True
        return cls(
            type=type, value=source, required=required, is_text=is_text, is_media_type=is_media_type
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDefinition:
    """A message definition with the inherited attributes.

    The first present attribute of `dataschema`, `dataschemaxid` and `dataschemauri` gives the
    schema of the payload. `topic` is the Kafka topic that the message, or the endpoint of the
    message, names; "" if unknown.
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
    topic: str = ""

    @property
    def lacks_schema(self) -> bool:
        """Whether at most the topic of an endpoint that uses the message tells the schema."""
        named = (self.dataschema, self.dataschemaxid, self.dataschemauri, self.topic)
        return not any(named) and (not self.protocol or protocol_of(self.protocol) is KAFKA)

    @property
    def topic_schema(self) -> str:
        """The address of the schema that serializers register for the values of the topic.

        By the strategy TopicNameStrategy, which is the default of Confluent's serializers.
        """
        subject = quote(f"{self.topic}-value", safe="")
        return f"/confluent/subjects/{subject}/versions/latest" if self.topic else ""

    @property
    def is_cloudevent(self) -> bool:
        return self.envelope.lower() == CLOUDEVENTS_ENVELOPE


def combine(chain: Sequence[Mapping[str, Any]], group: Mapping[str, Any]) -> MessageDefinition:
    """Combine the attributes of a message with the attributes of the base messages.

    Args:
        chain: the attributes of the message, of its base, of the base of the base, and so on.
        group: the attributes of the message's group or endpoint; its envelope and protocol are
            the defaults.
    """
    merged: dict[str, Any] = {}
    for attributes in map(_with_older_types, reversed(chain)):
        merged = _overlay(merged, {k: v for k, v in attributes.items() if k in _INHERITED})
    for name in _SELECTED:
        if not _text(merged.get(name)):
            merged[name] = group.get(name)
    protocol = _selector(merged.get("protocol"))
    is_kafka = protocol_of(protocol) is KAFKA
    return MessageDefinition(
        envelope=_selector(merged.get("envelope")),
        envelopemetadata=_envelope_properties(_object(merged.get("envelopemetadata"))),
        protocol=protocol,
        protocoloptions=_object(merged.get("protocoloptions")),
        dataschema=merged.get("dataschema"),
        topic=(topic_of(merged) or topic_of(group)) if is_kafka else "",
        **{
            name: _text(merged.get(name))
            for name in ("dataschemaformat", "dataschemaxid", "dataschemauri", "datacontenttype")
        },
    )


def _with_older_types(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Restore the types of values that exist only in older editions.

    For such a type, the definition has `string`, and an extension attribute keeps the older type.
    """
    kept = [found for name in _OLDER_TYPES if isinstance(found := attributes.get(name), Mapping)]
    if not kept:
        return attributes
    narrowed = dict(attributes)
    for name, paths in _OLDER_PATHS.items():
        for older in (value_at(extension, path) for extension in kept for path in paths):
            if isinstance(older, Mapping) and isinstance(native := narrowed.get(name), Mapping):
                narrowed[name] = _narrowed(native, older)
    return narrowed


def _narrowed(native: Mapping[str, Any], older: Mapping[str, Any]) -> Mapping[str, Any]:
    by_name = {name.replace("_", "-").lower(): value for name, value in older.items()}
    narrowed = dict(native)
    for name, value in native.items():
        inner = by_name.get(name.replace("_", "-").lower())
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            narrowed[name] = _narrowed(value, inner)
    kind = older.get("type")
    if native.get("type") == "string" and isinstance(kind, str) and is_known(kind):
        narrowed["type"] = kind
    return narrowed


def _overlay(base: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge attributes over a base, without the base's options for a replaced selector.

    A schema in the attributes replaces the schema of the base, even in another form.
    """
    dropped: set[str] = set()
    for selector, options in _SELECTED.items():
        own, inherited = _selector(attributes.get(selector)), _selector(base.get(selector))
        if own and inherited and own.lower() != inherited.lower():
            dropped.update(options)
    if any(attributes.get(name) is not None for name in _SCHEMAS):
        dropped.update(_SCHEMAS)
    return _merge({k: v for k, v in base.items() if k not in dropped}, attributes)


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge objects deeply; values that are no objects replace the value of the base."""
    merged = dict(base)
    for name, value in over.items():
        inherited = merged.get(name)
        if isinstance(value, Mapping) and isinstance(inherited, Mapping):
            merged[name] = _merge(inherited, value)
        elif value is not None:
            merged[name] = value
    return merged


def topic_of(attributes: Mapping[str, Any]) -> str:
    """The Kafka topic that the attributes of an endpoint or a message name; "" if none."""
    is_kafka = protocol_of(_selector(attributes.get("protocol"))) is KAFKA
    return _text(_object(attributes.get("protocoloptions")).get("topic")) if is_kafka else ""


def _envelope_properties(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of an event, without the object `attributes` that may wrap the attributes."""
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


@dataclass(frozen=True, slots=True)
class ReferenceTarget:
    """A resource or version, and the part of the document that a reference means."""

    xid: Xid
    part: str = ""


def reference_targets(reference: str, bases: Iterable[str]) -> list[ReferenceTarget]:
    """The entities that a reference can mean, likeliest first; empty for other registries.

    The paths of other APIs of the registry name no entity.

    Args:
        reference: an xid, an xid as a fragment (the form in documents), or the URL of an entity.
        bases: the URLs of the registry's root, without a trailing slash.
    """
    path, fragment = path_within(reference, bases)
    steps = [unquote(step) for step in path.split("/")[1:]]
    if not steps or steps[0] in RESERVED_GROUP_NAMES:
        return []
    return list(_targets(steps, fragment))


def path_within(reference: str, bases: Iterable[str]) -> tuple[str, str]:
    """The path and the fragment of a reference into the registry; empty for other registries."""
    # The path of a base may begin with that of another one.
    nearest = max((each for each in bases if reference.startswith(f"{each}/")), key=len, default="")
    path = reference.removeprefix(nearest).removeprefix("#")
    if not path.startswith("/"):
        return "", ""
    path, _, fragment = path.partition("#")
    return path, fragment


def _targets(steps: list[str], fragment: str) -> Iterator[ReferenceTarget]:
    length = 6 if steps[4:5] == ["versions"] else 4
    entity, rest = steps[:length], steps[length:]
    if not entity or (rest and fragment):
        return
    entity[-1] = entity[-1].removesuffix(_DETAILS)
    part = "".join(f"/{step}" for step in rest) or fragment
    if (xid := _xid(entity)) is not None:
        yield ReferenceTarget(xid, part)
    # An id may contain colons, so a split at the last colon is the second choice.
    id, colon, name = entity[-1].rpartition(":")
    if colon and not part and (xid := _xid([*entity[:-1], id])) is not None:
        yield ReferenceTarget(xid, name)


def _xid(steps: list[str]) -> Xid | None:
    try:
        xid = Xid.parse("/" + "/".join(steps))
    except ValueError:
        return None
    return xid if xid.rid else None
