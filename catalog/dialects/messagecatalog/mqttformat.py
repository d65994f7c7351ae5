"""The metaschema of MQTT (message catalog, 3.4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from catalog.dialects.bodypath import BodyPath, checked_members, checked_object
from catalog.dialects.messagecatalog import dataschemas
from catalog.dialects.messagecatalog.valuetemplates import (
    check_template,
    check_text,
    fits,
    is_base64,
    is_listed,
    members_of,
    templates_of,
    to_property,
    without_expressions,
)

# Messages of a group may be of either version of the protocol.
NATIVE: Mapping[str, str] = {}
SCHEMA = "payload.dataschema"
# Native names and types of the fields: of both versions of the protocol, and of 5.0 alone.
_OLD = {
    "qos": ("qos", "integer"),
    "retain": ("retain", "boolean"),
    "topicname": ("topic_name", "uritemplate"),
}
_NEW = {
    "payloadformat": ("payload_format_indicator", "integer"),
    "expiryinterval": ("message_expiry_interval", "integer"),
    "responsetopic": ("response_topic", "uritemplate"),
    "correlationdata": ("correlation_data", "uritemplate"),
    "contenttype": ("content_type", "uritemplate"),
}
_FIELDS = _OLD | _NEW
_VERSIONS = ("3.1.1", "5.0")
_MOST = {"qos": 2, "payloadformat": 1, "expiryinterval": 2**32 - 1}
_LONGEST_NAME = 65_535
_TOPICS = ("topicname", "responsetopic")
_WILDCARD = re.compile(r"[+#]")
_OF_USER = ("value", "description")


def check(definition: Any, id: str, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for an invalid description of an MQTT PUBLISH packet."""
    sections = checked_members(definition, ("publish", "userproperty", "payload"), place)
    _check_publish(sections.get("publish", {}), place.at("publish"))
    at = place.at("userproperty")
    for name, template in checked_object(sections.get("userproperty", {}), at).items():
        if not 0 < len(name.encode()) <= _LONGEST_NAME or "\0" in name:
            raise at.at(name).fault("its name needs to be an MQTT string")
        check_template(template, at.at(name))
    dataschemas.check_payload(sections.get("payload", {}), place.at("payload"))


def _check_publish(value: Any, place: BodyPath) -> None:
    publish = checked_members(value, ("mqttversion", *_FIELDS), place)
    version = publish.get("mqttversion", "5.0")
    if version not in _VERSIONS:
        raise place.at("mqttversion").fault(f"it needs to be one of {', '.join(_VERSIONS)}")
    for name, field in publish.items():
        if name in _NEW and version != "5.0":
            raise place.at(name).fault("it is of MQTT 5.0 only")
        _check_field(name, field, place.at(name))


def _check_field(name: str, value: Any, place: BodyPath) -> None:
    if name == "retain":
        if not isinstance(value, bool):
            raise place.fault("it needs to be a boolean")
    elif name in _MOST:
        if not (fits("uinteger", value) and value <= _MOST[name]):
            raise place.fault(f"it needs to be an integer from 0 to {_MOST[name]}")
    elif not isinstance(value, str):
        raise place.fault("it needs to be a string")
    else:
        check_text(value, place)
        if name in _TOPICS and _WILDCARD.search(without_expressions(value)):
            raise place.fault("nothing is published to a topic with a wildcard, + or #")
        if name == "correlationdata" and "{" not in value and not is_base64(value):
            raise place.fault("it needs to be in base64")


def to_native(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The native attributes of a described message."""
    publish = definition.get("publish", {})
    options: dict[str, Any] = {
        native: publish[name]
        for name, (native, kind) in _FIELDS.items()
        if name in publish and publish[name] != "" and fits(kind, publish[name])
    }
    protocol = f"MQTT/{publish.get('mqttversion', '5.0')}"
    if protocol == "MQTT/5.0" and "userproperty" in definition:
        options["user_properties"] = [
            {"name": name, **{k: v for k, v in to_property(template, "").items() if k in _OF_USER}}
            for name, template in definition["userproperty"].items()
            if is_listed(template)
        ]
    found: dict[str, Any] = {"protocol": protocol, "protocoloptions": options}
    media_type = publish.get("contenttype", "")
    if media_type and "{" not in media_type:
        found["datacontenttype"] = media_type
    return found | dataschemas.to_attributes(definition.get("payload", {}).get("dataschema"))


def from_native(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a message, from the native attributes."""
    options = members_of(attributes.get("protocoloptions"))
    publish: dict[str, Any] = {}
    if str(attributes.get("protocol", "")).lower() == "mqtt/3.1.1":
        publish["mqttversion"] = "3.1.1"
    publish |= {name: options[native] for name, (native, _) in _FIELDS.items() if native in options}
    if "datacontenttype" in attributes and "mqttversion" not in publish:
        publish.setdefault("contenttype", attributes["datacontenttype"])
    shown: dict[str, Any] = {"publish": publish} if publish else {}
    if isinstance(listed := options.get("user_properties"), list):
        shown["userproperty"] = templates_of({members_of(one).get("name"): one for one in listed})
    if schema := dataschemas.from_attributes(attributes):
        shown["payload"] = {"dataschema": schema}
    return shown
