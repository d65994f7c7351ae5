"""The definition formats of the message catalog (section 3): metaschemas and native forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.dialects.bodypath import BodyPath, checked_members, checked_object, text_in
from catalog.dialects.messagecatalog import dataschemas
from catalog.model.schema import EXTENDED_NAME, STRICT_NAME

CATALOG_ATTRIBUTE = "messagecatalog"


@dataclass(frozen=True, slots=True)
class DefinitionFormat:
    """A format: the rules of the metaschema, and the native form.

    Args:
        native: the attributes of a group of the format.
        schema: the path of the payload's schema in a definition.
        check: raises `InvalidAttribute` for an invalid description of a message, which has an id,
            at a place of the body.
        to_native: returns the native attributes of a described message.
        from_native: returns the description of a message, from the native attributes.
    """

    native: Mapping[str, str]
    schema: str
    check: Callable[[Any, str, BodyPath], None]
    to_native: Callable[[Mapping[str, Any]], dict[str, Any]]
    from_native: Callable[[Mapping[str, Any]], dict[str, Any]]


def _schema_in(definition: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The native attributes of the data schema in a section of a definition."""
    return dataschemas.to_attributes(definition.get(section, {}).get("dataschema"))


def _with_schema(attributes: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The section of a definition with the data schema in native attributes, if any."""
    schema = dataschemas.from_attributes(attributes)
    return {section: {"dataschema": schema}} if schema else {}


# CloudEvents (message catalog, 3.2).

# The attributes that CloudEvents requires of every event.
_REQUIRED = frozenset({"id", "source", "specversion", "type"})
_KINDS = {"time": "timestamp", "source": "uritemplate", "subject": "uritemplate"}
_NAME = re.compile(r"[a-z0-9]{1,128}")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+*'%`|~\-]+/[\w!#$&^.+*'%`|~\-]+(?:\s*;.*)?", re.ASCII)


def _check_cloudevents(definition: Any, id: str, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for an invalid description of a CloudEvent of the type `id`."""
    sections = checked_members(definition, ("attributes",), place)
    place = place.at("attributes")
    attributes = checked_object(sections.get("attributes"), place)
    for name, value in attributes.items():
        if not _NAME.fullmatch(name):
            raise place.at(name).fault("its name needs to be of a to z and 0 to 9")
        if name == "data":
            raise place.at(name).fault("CloudEvents has no attribute of this name")
        dataschemas.check_template(value, place.at(name))
    if "dataschema" in attributes:
        dataschemas.check_schema(attributes["dataschema"], place.at("dataschema"))
    if (attributes.get("type") or {}).get("value") != id:
        raise place.at("type").fault(f'its value needs to be the id, "{id}"')
    _check_known(attributes, place)


def _check_known(attributes: Mapping[str, Any], place: BodyPath) -> None:
    """Check the constraints of CloudEvents on the specification's attributes."""
    for name in _REQUIRED & attributes.keys():
        if attributes[name].get("required") is False:
            raise place.at(name).fault("CloudEvents requires it")
    if dataschemas.constant_in(attributes.get("specversion")) not in ("", "1.0"):
        raise place.at("specversion").fault('it needs to be "1.0"')
    time = dataschemas.constant_in(attributes.get("time"))
    if time and not dataschemas.is_time(time):
        raise place.at("time").fault("it needs to be an RFC 3339 timestamp")
    media_type = dataschemas.constant_in(attributes.get("datacontenttype"))
    if media_type and not _MEDIA_TYPE.fullmatch(media_type):
        raise place.at("datacontenttype").fault("it needs to be a media type (RFC 2046)")
    source = dataschemas.constant_in(attributes.get("source"))
    if source and not dataschemas.fits("uri", source):
        raise place.at("source").fault("it needs to be a URI reference")


def _to_native_cloudevents(definition: Mapping[str, Any]) -> dict[str, Any]:
    attributes = definition.get("attributes", {})
    metadata = {
        name: _to_property(name, template)
        for name, template in attributes.items()
        if dataschemas.is_listed(template) and STRICT_NAME.fullmatch(name)
    }
    found: dict[str, Any] = {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}
    if media_type := dataschemas.constant_in(attributes.get("datacontenttype")):
        found["datacontenttype"] = media_type
    if dataschemas.is_listed(attributes.get("dataschema")):
        found |= dataschemas.to_attributes(attributes["dataschema"])
    return found


def _from_native_cloudevents(attributes: Mapping[str, Any]) -> dict[str, Any]:
    shown = dataschemas.templates_of(attributes.get("envelopemetadata"))
    for name in _REQUIRED & shown.keys():
        shown[name].pop("required", None)
    schema = dataschemas.from_attributes(attributes)
    if schema:
        declared = shown.get("dataschema", {})
        if declared.get("value") == "":
            declared = {name: one for name, one in declared.items() if name != "value"}
        shown["dataschema"] = {**schema, **declared}
    if "datacontenttype" in attributes and "datacontenttype" not in shown:
        shown["datacontenttype"] = {"value": attributes["datacontenttype"]}
    return {"attributes": shown}


def _to_property(name: str, template: Mapping[str, Any]) -> Any:
    kind = _KINDS.get(name, "string")
    if name == "dataschema":
        kind = "uritemplate"
        if not dataschemas.fits("uritemplate", template.get("value") or ""):
            template = {**template, "value": ""}
    property = dataschemas.to_property(template, kind, "" if name == "time" else "uritemplate")
    if name in _REQUIRED:
        property["required"] = True
    if name == "specversion":
        property["type"] = "string"
        if property.get("value") != "1.0":
            property.pop("value", None)
    return property


# AMQP (message catalog, 3.3).

# The native name of each property, and the native types of a constant and of a template.
_PROPERTIES: Mapping[str, tuple[str, str, str]] = {
    "messageid": ("message-id", "string", "uritemplate"),
    "userid": ("user-id", "binary", "uritemplate"),
    "to": ("to", "string", "uritemplate"),
    "subject": ("subject", "string", "uritemplate"),
    "replyto": ("reply-to", "string", "uritemplate"),
    "correlationid": ("correlation-id", "string", "uritemplate"),
    "contenttype": ("content-type", "string", "uritemplate"),
    "contentencoding": ("content-encoding", "string", ""),
    "absoluteexpirytime": ("absolute-expiry-time", "timestamp", ""),
    "creationtime": ("creation-time", "timestamp", ""),
    "groupid": ("group-id", "string", "uritemplate"),
    "groupsequence": ("group-sequence", "integer", ""),
    "replytogroupid": ("reply-to-group-id", "string", "uritemplate"),
}
_OPEN = {
    "deliveryannotations": "delivery-annotations",
    "messageannotations": "message-annotations",
    "applicationproperties": "application-properties",
    "footer": "footer",
}
_SECTIONS = ("header", "properties", *_OPEN, "applicationdata")
_HEADER = {"durable": False, "priority": 4}
_ENCODINGS = ("Data", "Value", "Sequence")
_SYMBOL = re.compile(r"[\x21-\x7e]{1,255}")


def _check_amqp(definition: Any, id: str, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for an invalid description of an AMQP message."""
    sections = checked_members(definition, _SECTIONS, place)
    _check_header(sections.get("header", {}), place.at("header"))
    properties, at = sections.get("properties", {}), place.at("properties")
    for name, value in checked_members(properties, _PROPERTIES, at).items():
        kind, text = (
            _PROPERTIES[name][1],
            dataschemas.constant_in(dataschemas.check_template(value, at.at(name))),
        )
        if text and kind == "timestamp" and not dataschemas.is_time(text):
            raise at.at(name).fault("it needs to be an RFC 3339 timestamp")
        if text and kind == "binary" and not dataschemas.is_base64(text):
            raise at.at(name).fault("it needs to be in base64")
    for section in _OPEN:
        _check_open(sections.get(section, {}), place.at(section))
    _check_data(sections.get("applicationdata", {}), place.at("applicationdata"))


def _check_header(value: Any, place: BodyPath) -> None:
    header = checked_members(value, ("durable", "priority", "ttl"), place)
    for name, kind, most in (("priority", "uinteger", 255), ("ttl", "uinteger", 2**32 - 1)):
        number = header.get(name)
        if number is not None and not (dataschemas.fits(kind, number) and number <= most):
            raise place.at(name).fault(f"it needs to be an integer from 0 to {most}")
    if not isinstance(header.get("durable"), bool | None):
        raise place.at("durable").fault("it needs to be a boolean")


def _check_open(value: Any, place: BodyPath) -> None:
    for name, template in checked_object(value, place).items():
        if not _SYMBOL.fullmatch(name):
            raise place.at(name).fault("its name needs to be an AMQP symbol: visible ASCII")
        dataschemas.check_template(template, place.at(name))


def _check_data(value: Any, place: BodyPath) -> None:
    data = checked_members(value, ("dataschema", "amqpencoding"), place)
    if data.get("dataschema") is not None:
        dataschemas.check_schema(data["dataschema"], place.at("dataschema"))
    if data.get("amqpencoding", "Data") not in _ENCODINGS:
        raise place.at("amqpencoding").fault(f"it needs to be one of {', '.join(_ENCODINGS)}")


def _to_native_amqp(definition: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if "header" in definition:
        given = {k: v for k, v in definition["header"].items() if v is not None}
        options["header"] = {**_HEADER, **given}
    properties = definition.get("properties", {})
    if properties:
        options["properties"] = {
            _PROPERTIES[name][0]: dataschemas.to_property(template, *_PROPERTIES[name][1:])
            for name, template in properties.items()
            if dataschemas.is_listed(template)
        }
    for section, native in _OPEN.items():
        if section in definition:
            options[native] = {
                name: dataschemas.to_property(template, "string", "uritemplate")
                for name, template in definition[section].items()
                if dataschemas.is_listed(template) and EXTENDED_NAME.fullmatch(name)
            }
    found: dict[str, Any] = {"protocol": "AMQP/1.0", "protocoloptions": options}
    if media_type := dataschemas.constant_in(properties.get("contenttype")):
        found["datacontenttype"] = media_type
    return found | _schema_in(definition, "applicationdata")


def _from_native_amqp(attributes: Mapping[str, Any]) -> dict[str, Any]:
    options = dataschemas.members_of(attributes.get("protocoloptions"))
    shown: dict[str, Any] = {}
    if "header" in options:
        header = dataschemas.members_of(options["header"])
        shown["header"] = {n: header[n] for n in ("durable", "priority", "ttl") if n in header}
    found = dataschemas.templates_of(options.get("properties"))
    properties = {
        name: found[native] for name, (native, _, _) in _PROPERTIES.items() if native in found
    }
    if "datacontenttype" in attributes and "contenttype" not in properties:
        properties["contenttype"] = {"value": attributes["datacontenttype"]}
    if properties:
        shown["properties"] = properties
    for section, native in _OPEN.items():
        if native in options:
            shown[section] = dataschemas.templates_of(options[native])
    return shown | _with_schema(attributes, "applicationdata")


# MQTT (message catalog, 3.4).

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
_MQTT_FIELDS = _OLD | _NEW
_VERSIONS = ("3.1.1", "5.0")
_MOST = {"qos": 2, "payloadformat": 1, "expiryinterval": 2**32 - 1}
_LONGEST_NAME = 65_535
_TOPICS = ("topicname", "responsetopic")
_WILDCARD = re.compile(r"[+#]")
_OF_USER = ("value", "description")


def _check_mqtt(definition: Any, id: str, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for an invalid description of an MQTT PUBLISH packet."""
    sections = checked_members(definition, ("publish", "userproperty", "payload"), place)
    _check_publish(sections.get("publish", {}), place.at("publish"))
    at = place.at("userproperty")
    for name, template in checked_object(sections.get("userproperty", {}), at).items():
        if not 0 < len(name.encode()) <= _LONGEST_NAME or "\0" in name:
            raise at.at(name).fault("its name needs to be an MQTT string")
        dataschemas.check_template(template, at.at(name))
    dataschemas.check_payload(sections.get("payload", {}), place.at("payload"))


def _check_publish(value: Any, place: BodyPath) -> None:
    publish = checked_members(value, ("mqttversion", *_MQTT_FIELDS), place)
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
        if not (dataschemas.fits("uinteger", value) and value <= _MOST[name]):
            raise place.fault(f"it needs to be an integer from 0 to {_MOST[name]}")
    elif not isinstance(value, str):
        raise place.fault("it needs to be a string")
    else:
        dataschemas.check_text(value, place)
        if name in _TOPICS and _WILDCARD.search(dataschemas.without_expressions(value)):
            raise place.fault("nothing is published to a topic with a wildcard, + or #")
        if name == "correlationdata" and "{" not in value and not dataschemas.is_base64(value):
            raise place.fault("it needs to be in base64")


def _to_native_mqtt(definition: Mapping[str, Any]) -> dict[str, Any]:
    publish = definition.get("publish", {})
    options: dict[str, Any] = {
        native: publish[name]
        for name, (native, kind) in _MQTT_FIELDS.items()
        if name in publish and publish[name] != "" and dataschemas.fits(kind, publish[name])
    }
    protocol = f"MQTT/{publish.get('mqttversion', '5.0')}"
    if protocol == "MQTT/5.0" and "userproperty" in definition:
        options["user_properties"] = [
            {
                "name": name,
                **{k: v for k, v in dataschemas.to_property(template, "").items() if k in _OF_USER},
            }
            for name, template in definition["userproperty"].items()
            if dataschemas.is_listed(template)
        ]
    found: dict[str, Any] = {"protocol": protocol, "protocoloptions": options}
    media_type = publish.get("contenttype", "")
    if media_type and "{" not in media_type:
        found["datacontenttype"] = media_type
    return found | _schema_in(definition, "payload")


def _from_native_mqtt(attributes: Mapping[str, Any]) -> dict[str, Any]:
    options = dataschemas.members_of(attributes.get("protocoloptions"))
    publish: dict[str, Any] = {}
    if str(attributes.get("protocol", "")).lower() == "mqtt/3.1.1":
        publish["mqttversion"] = "3.1.1"
    publish |= {
        name: options[native] for name, (native, _) in _MQTT_FIELDS.items() if native in options
    }
    if "datacontenttype" in attributes and "mqttversion" not in publish:
        publish.setdefault("contenttype", attributes["datacontenttype"])
    shown: dict[str, Any] = {"publish": publish} if publish else {}
    if isinstance(listed := options.get("user_properties"), list):
        shown["userproperty"] = dataschemas.templates_of(
            {dataschemas.members_of(one).get("name"): one for one in listed}
        )
    return shown | _with_schema(attributes, "payload")


# NATS (message catalog, 3.5).

_NATS_FIELDS = {"subject": "subject", "replyto": "reply"}


def _check_nats(definition: Any, id: str, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for an invalid description of a NATS PUB message."""
    sections = checked_members(definition, ("pub", "payload"), place)
    at = place.at("pub")
    pub = checked_members(sections.get("pub", {}), _NATS_FIELDS, at)
    for name in pub:
        text = text_in(pub, name, at)
        dataschemas.check_text(text, at.at(name))
        if re.search(r"\s", dataschemas.without_expressions(text or "")):
            raise at.at(name).fault("a subject has no blanks")
    dataschemas.check_payload(sections.get("payload", {}), place.at("payload"))


def _to_native_nats(definition: Mapping[str, Any]) -> dict[str, Any]:
    pub = definition.get("pub", {})
    options = {
        native: pub[name]
        for name, native in _NATS_FIELDS.items()
        if pub.get(name) and dataschemas.fits("uritemplate", pub[name])
    }
    found: dict[str, Any] = {"protocol": "NATS", "protocoloptions": options}
    return found | _schema_in(definition, "payload")


def _from_native_nats(attributes: Mapping[str, Any]) -> dict[str, Any]:
    options = dataschemas.members_of(attributes.get("protocoloptions"))
    pub = {name: options[native] for name, native in _NATS_FIELDS.items() if native in options}
    shown: dict[str, Any] = {"pub": pub} if pub else {}
    return shown | _with_schema(attributes, "payload")


DEFINITION_FORMATS: Mapping[str, DefinitionFormat] = {
    "CloudEvents": DefinitionFormat(
        {"envelope": "CloudEvents/1.0"},
        "attributes.dataschema",
        _check_cloudevents,
        _to_native_cloudevents,
        _from_native_cloudevents,
    ),
    "AMQP": DefinitionFormat(
        {"protocol": "AMQP/1.0"},
        "applicationdata.dataschema",
        _check_amqp,
        _to_native_amqp,
        _from_native_amqp,
    ),
    "MQTT": DefinitionFormat(
        # Messages of a group may be of either version of the protocol.
        {},
        "payload.dataschema",
        _check_mqtt,
        _to_native_mqtt,
        _from_native_mqtt,
    ),
    "NATS": DefinitionFormat(
        {"protocol": "NATS"}, "payload.dataschema", _check_nats, _to_native_nats, _from_native_nats
    ),
}
_BY_FAMILY = {name.lower(): name for name in DEFINITION_FORMATS}


def check_format(value: Any, place: BodyPath) -> str:
    """The name of a format; raises `InvalidAttribute` for a misspelt name of section 3."""
    if not isinstance(value, str) or not value:
        raise place.fault("it needs to be a non-empty string")
    known = _BY_FAMILY.get(value.lower(), value)
    if known != value:
        raise place.fault(f'the format is called "{known}"')
    return value


def format_of(attributes: Mapping[str, Any]) -> str | None:
    """The format of a group or a message, independent of the API that wrote the entity.

    An envelope takes precedence over a protocol, since the envelope describes the message itself.
    """
    texts = [attributes[name] for name in ("envelope", "protocol") if attributes.get(name)]
    families = [_BY_FAMILY.get(str(text).partition("/")[0].lower()) for text in texts]
    kept = kept_in(attributes).get("format")
    named = kept if isinstance(kept, str) else None
    return next(filter(None, [*families, named, *map(str, texts)]), None)


def kept_in(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of the Message Catalog API without a native form."""
    kept = attributes.get(CATALOG_ATTRIBUTE)
    return kept if isinstance(kept, dict) else {}
