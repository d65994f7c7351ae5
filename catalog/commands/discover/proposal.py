"""Proposes endpoints and messages for the topics of a cluster. Pure.

A topic becomes an endpoint and a message group of the same id. The messages of a topic are the
types of its CloudEvents and, for all other records, the schemas by which the values were written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from catalog.model.masking import counted
from catalog.model.xid import is_valid_id
from catalog.operations.schemacontracts import AVRO, JSON, PROTOBUF

if TYPE_CHECKING:
    from catalog.commands.discover.payloads import PayloadSample

CLOUDEVENTS = "CloudEvents/1.0"
# The key of the payloads of records that are no CloudEvents.
_OTHERS = ""
_FORMATS = {AVRO: "Avro/1.12", JSON: "JsonSchema/draft-07", PROTOBUF: "Protobuf/3"}
_MEDIA_TYPES = {
    AVRO: "application/avro",
    JSON: "application/json",
    PROTOBUF: "application/protobuf",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A version of a subject in a schema registry.

    Args:
        type: `AVRO`, `JSON` or `PROTOBUF`.
        url: the URL of the text of the schema.
    """

    subject: str
    version: int
    type: str
    url: str


@dataclass(frozen=True, slots=True)
class EventKind:
    """The attributes of a sampled CloudEvent that its definition may need."""

    type: str
    source: str
    datacontenttype: str = ""
    dataschema: str = ""


@dataclass(slots=True, kw_only=True)
class TopicSample:
    """What was found in a topic.

    Args:
        events: how often each kind of CloudEvent was sampled.
        schema_ids: how often each schema id was sampled before a value or in a header, in
            Confluent's format; a header may have a GUID, which is a text.
        payloads: the payloads of records without a schema id, by the type of the CloudEvent, or
            "" for other records; empty unless schemas are to be inferred.
        records: the number of sampled records.
        is_empty: whether no partition has a record.
    """

    topic: str
    partitions: int
    is_empty: bool = False
    events: dict[EventKind, int] = field(default_factory=dict)
    schema_ids: dict[int | str, int] = field(default_factory=dict)
    payloads: dict[str, PayloadSample] = field(default_factory=dict)
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """What a schema registry says of the topics.

    Args:
        latest: the last version of each subject that may be of a topic, by name.
        by_id: the versions that have a sampled schema id.
    """

    latest: Mapping[str, RegisteredSchema] = field(default_factory=dict)
    by_id: Mapping[int | str, Sequence[RegisteredSchema]] = field(default_factory=dict)


@dataclass(slots=True)
class Proposal:
    """A document in the newest edition, and for each topic the evidence, as sentences."""

    groups: dict[str, Any] = field(default_factory=lambda: {"messagegroups": {}, "endpoints": {}})
    evidence: dict[str, list[str]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def propose(samples: Iterable[TopicSample], registry: Registry, servers: Sequence[str]) -> Proposal:
    """The proposal for topics.

    Args:
        servers: the bootstrap servers of the cluster, as `host:port`.
    """
    proposal = Proposal()
    for sample in samples:
        if not is_valid_id(sample.topic):
            proposal.left_out[sample.topic] = "its name is no id of an entity, or is too long"
            continue
        evidence = [f"{counted(sample.partitions, 'partitions')}, {_sampled(sample)}"]
        messages = dict(_events(sample, registry, evidence))
        messages.update(_plain_records(sample, registry, evidence, has_events=bool(messages)))
        schemas = dict(_inferred(sample, messages, evidence))
        if schemas:
            groups = proposal.groups.setdefault("schemagroups", {})
            groups[sample.topic] = {"schemas": schemas}
        has_events = any("envelope" in message for message in messages.values())
        envelope = {"envelope": CLOUDEVENTS} if has_events else {}
        proposal.groups["messagegroups"][sample.topic] = {
            **envelope,
            "protocol": "KAFKA",
            "messages": messages,
        }
        proposal.groups["endpoints"][sample.topic] = {
            "usage": ["producer", "consumer"],
            "channel": sample.topic,
            **envelope,
            "protocol": "KAFKA",
            "protocoloptions": {
                "endpoints": [{"bootstrap.servers": [*servers]}],
                "topic": sample.topic,
            },
            "messagegroups": [f"/messagegroups/{sample.topic}"],
        }
        proposal.evidence[sample.topic] = evidence
    return proposal


def _events(
    sample: TopicSample, registry: Registry, evidence: list[str]
) -> Iterable[tuple[str, dict[str, Any]]]:
    by_type: dict[str, list[EventKind]] = {}
    for kind in sample.events:
        by_type.setdefault(kind.type, []).append(kind)
    for type, kinds in by_type.items():
        seen = sum(sample.events[kind] for kind in kinds)
        if not is_valid_id(type):
            evidence.append(f"left out: the CloudEvents type {type!r} is no id of an entity")
            continue
        metadata: dict[str, Any] = {"type": {"value": type}}
        if len(sources := {kind.source for kind in kinds}) == 1:
            metadata["source"] = {"value": sources.pop()}
        schema = _subject_of(sample.topic, type, registry, is_only=len(by_type) == 1)
        message = {
            "envelope": CLOUDEVENTS,
            "envelopemetadata": metadata,
            **_topic_options(sample.topic),
            **_schema_of(kinds, schema),
        }
        where = f", schema {schema.subject} version {schema.version}" if schema else ""
        evidence.append(f"{type}: {counted(seen, 'CloudEvents')} of this type{where}")
        yield type, message


def _plain_records(
    sample: TopicSample, registry: Registry, evidence: list[str], *, has_events: bool
) -> Iterable[tuple[str, dict[str, Any]]]:
    """The messages of records that are no CloudEvents, one for each schema."""
    found: dict[str, tuple[RegisteredSchema, str]] = {}
    for number, seen in sample.schema_ids.items():
        versions = registry.by_id.get(number, ())
        for schema in _of_topic(versions, sample.topic):
            found[_message_id(schema.subject, sample.topic)] = (
                schema,
                f"{counted(seen, 'values')} with the schema id {number}",
            )
        if not versions:
            evidence.append(
                f"{counted(seen, 'values')} with the schema id {number}: not in the registry"
            )
    named = registry.latest.get(f"{sample.topic}-value")
    if named is not None and not has_events and not found:
        found[sample.topic] = (named, "the subject is named after the topic")
    for id, (schema, reason) in found.items():
        if not is_valid_id(id):
            evidence.append(f"left out: the subject {schema.subject!r} is no id of an entity")
            continue
        evidence.append(f"{id}: schema {schema.subject} version {schema.version}, {reason}")
        yield id, {**_topic_options(sample.topic), **_schema_of((), schema)}
    if not found and not has_events and _has_payloads(sample):
        yield sample.topic, _topic_options(sample.topic)
    elif not found and not has_events:
        evidence.append("no message: neither a CloudEvent nor a schema says what its records are")


def _has_payloads(sample: TopicSample) -> bool:
    return _OTHERS in sample.payloads and sample.payloads[_OTHERS].schema() is not None


def _inferred(
    sample: TopicSample, messages: Mapping[str, dict[str, Any]], evidence: list[str]
) -> Iterable[tuple[str, dict[str, Any]]]:
    """Schemas of the payloads of messages without a schema, which the messages refer to then."""
    for key, payloads in sample.payloads.items():
        id = key or sample.topic
        message = messages.get(id)
        if message is None or "dataschemauri" in message:
            continue
        evidence.append(f"{id}: {payloads.evidence()}")
        schema = payloads.schema()
        if schema is not None:
            format = _FORMATS[JSON]
            message["dataschemaformat"] = format
            message["dataschemauri"] = f"/schemagroups/{sample.topic}/schemas/{id}"
            message.setdefault("datacontenttype", _MEDIA_TYPES[JSON])
            versions = {"1": {"format": format, "schema": schema}}
            yield id, {"format": format, "versions": versions}


def _of_topic(versions: Sequence[RegisteredSchema], topic: str) -> Sequence[RegisteredSchema]:
    """The versions of subjects that are named after the topic, or else all versions of an id."""
    own = [each for each in versions if each.subject.startswith(f"{topic}-")]
    return own or versions[:1]


def _subject_of(
    topic: str, type: str, registry: Registry, *, is_only: bool
) -> RegisteredSchema | None:
    """The subject of a type by the strategies TopicRecordName, RecordName and TopicName."""
    names = [f"{topic}-{type}", type, *([f"{topic}-value"] if is_only else [])]
    return next((registry.latest[name] for name in names if name in registry.latest), None)


def _message_id(subject: str, topic: str) -> str:
    if subject == f"{topic}-value":
        return topic
    return subject.removeprefix(f"{topic}-")


def _topic_options(topic: str) -> dict[str, Any]:
    return {"protocol": "KAFKA", "protocoloptions": {"topic": topic}}


def _schema_of(kinds: Sequence[EventKind], schema: RegisteredSchema | None) -> dict[str, Any]:
    if schema is not None:
        return {
            "datacontenttype": _MEDIA_TYPES[schema.type],
            "dataschemaformat": _FORMATS[schema.type],
            "dataschemauri": schema.url,
        }
    types = {kind.datacontenttype for kind in kinds}
    uris = {kind.dataschema for kind in kinds}
    found = {}
    if len(types) == 1 and (type := types.pop()):
        found["datacontenttype"] = type
    if len(uris) == 1 and (uri := uris.pop()):
        found["dataschemauri"] = uri
    return found


def could_be_of(subject: str, topics: Collection[str]) -> bool:
    """Whether a subject is named after a topic, by TopicName or TopicRecordName."""
    return any(subject[:end] in topics for end, sign in enumerate(subject) if sign == "-")


def _sampled(sample: TopicSample) -> str:
    return "no records" if sample.is_empty else f"{counted(sample.records, 'records')} sampled"
