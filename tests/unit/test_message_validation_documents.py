"""The message definitions of published documents, and messages made as they describe them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

import catalog.demo
from catalog.messages.conformance import check_metadata
from catalog.messages.definition import MessageDefinition, combine, reference_targets
from catalog.messages.message import read_json_message
from catalog.messages.messageprotocol import MessageProtocol, protocol_of
from catalog.messages.values import Gap, Template

DEMO = Path(catalog.demo.__file__).parent / "data"
DOCUMENTS = Path(__file__).parents[1] / "documents"
FILES = sorted([*DEMO.rglob("*.xreg.json"), *DOCUMENTS.rglob("*.xreg.json")])
BASES = ("basemessage", "basemessageuri", "basemessageurl")
TIME = "2030-01-01T00:00:00Z"
EVENT = {"specversion": "1.0", "id": "i", "type": "t", "source": "s"}


def definitions(document: Mapping[str, Any]) -> Iterator[MessageDefinition]:
    """Every definition, with its bases; those of older editions have other names for some."""
    for group in document.get("messagegroups", {}).values():
        for message in group.get("messages", {}).values():
            yield combine(list(_chain(document, message)), group)


def _chain(document: Mapping[str, Any], message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "versions" in message:
        message = {**message, **next(iter(message["versions"].values()))}
    yield message
    for place in reference_targets(
        next((message[name] for name in BASES if name in message), ""), []
    ):
        group = document["messagegroups"].get(place.xid.gid, {})
        if place.xid.rid in group.get("messages", {}):
            yield from _chain(document, group["messages"][place.xid.rid])


def sample(source: Any, type: str = "string") -> Any:
    """A value that a property's definition describes: its placeholders are upper-case names."""
    if not isinstance(source, Mapping):
        source = {"value": source}
    value, kind = source.get("value"), source.get("type", type)
    if kind in ("timestamp", "datetime"):
        return TIME
    if isinstance(value, str):
        parts = Template.parse(value).parts
        return "".join(part.name.upper() if isinstance(part, Gap) else part for part in parts)
    return "x" if value is None else value


def message_of(definition: MessageDefinition) -> dict[str, Any]:
    types = {"time": "timestamp"}
    attributes = EVENT | {
        name: "urn:schema" if name == "dataschema" else sample(source, types.get(name, "string"))
        for name, source in definition.envelopemetadata.items()
    }
    protocol = protocol_of(definition.protocol)
    if protocol is None:
        return attributes if definition.is_cloudevent else {"payload": {}}
    message: dict[str, Any] = {"protocol": definition.protocol}
    for name, source in definition.protocoloptions.items():
        if protocol.canonical(name) in protocol.options:
            message[name] = sample(source)
        elif protocol.canonical(name) in protocol.sections:
            message[name] = _section(source)
    if definition.is_cloudevent:
        _put(protocol, attributes, message)
    return message


def _section(source: Any) -> Any:
    if isinstance(source, list):
        return [{"name": one["name"], "value": sample(one)} for one in source]
    return {
        one.get("name", name) if isinstance(one, Mapping) else name: sample(one)
        for name, one in source.items()
    }


def _put(protocol: MessageProtocol, attributes: Mapping[str, str], message: dict[str, Any]) -> None:
    """Carry an event as the protocol's binding says."""
    if protocol.binding is None:
        message["payload"] = attributes
        return
    prefix = protocol.binding.prefixes[0]
    entries = [{"name": prefix + name, "value": value} for name, value in attributes.items()]
    for name in [name for name in message if protocol.canonical(name) == protocol.binding.section]:
        given = message.pop(name)
        entries += [{"name": key, "value": value} for key, value in given.items()]
    message[protocol.binding.section] = entries


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_message_that_is_made_from_its_definition_conforms(file: Path) -> None:
    for definition in definitions(orjson.loads(file.read_bytes())):
        made = message_of(definition)
        found = check_metadata(read_json_message(made, definition.protocol), definition)
        assert found.violations == [], (definition, made)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_message_with_another_type_does_not(file: Path) -> None:
    for definition in definitions(orjson.loads(file.read_bytes())):
        if not definition.is_cloudevent or not definition.envelopemetadata.get("type"):
            continue
        made = orjson.dumps(message_of(definition))
        wanted = orjson.dumps(definition.envelopemetadata["type"]["value"])
        other = orjson.loads(made.replace(wanted, b'"another"'))
        found = check_metadata(read_json_message(other, definition.protocol), definition)
        assert "value" in [one.rule for one in found.violations]


def test_the_documents_have_many_definitions_of_every_kind() -> None:
    found = [one for file in FILES for one in definitions(orjson.loads(file.read_bytes()))]
    kinds = {(one.is_cloudevent, one.protocol.lower()) for one in found}
    assert len(found) > 700
    assert {(True, ""), (True, "mqtt/5.0"), (True, "amqp/1.0"), (True, "kafka")} <= kinds
    assert (False, "mqtt/3.1.1") in kinds
