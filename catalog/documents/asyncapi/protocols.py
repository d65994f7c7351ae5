"""Servers and bindings of AsyncAPI as protocols, addresses and protocol options of entities.

Source: the binding specifications of AsyncAPI for Kafka 0.5, MQTT 0.2, AMQP 0.3, NATS 0.1 and HTTP
0.3, and endpoint/spec.md, "Protocol Options".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from catalog.documents.asyncapi.correspondence import Correspondence, constant, constant_schema
from catalog.documents.asyncapi.references import Members
from catalog.model.scalars import SCALAR_CHECKS

OPTIONS = "protocoloptions"
ACTIONS = {"send": ["producer"], "receive": ["consumer"]}
"""What a client of the endpoint is, by the action of the described application."""

_KAFKA, _AMQP_091 = "KAFKA", "AMQP/0.9.1"
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)")
_SCHEMES = {"secure-mqtt": "mqtts", "mqtt5": "mqtt", "amqp1": "amqp"}
_AUTHORIZATIONS = {
    "userPassword": {"type": "Plain"},
    "apiKey": {"type": "APIKey"},
    "httpApiKey": {"type": "APIKey"},
    "X509": {"type": "X509Cert"},
    "oauth2": {"type": "OAuth2"},
    "openIdConnect": {"type": "OpenIDConnect"},
    "plain": {"type": "SASL", "mechanism": "PLAIN"},
    "scramSha256": {"type": "SASL", "mechanism": "SCRAM-SHA-256"},
    "scramSha512": {"type": "SASL", "mechanism": "SCRAM-SHA-512"},
    "gssapi": {"type": "SASL", "mechanism": "GSSAPI"},
}


def protocol_of(server: Mapping[str, Any]) -> str:
    """The protocol of a server in the terms of endpoints; other protocols keep their names."""
    name, version = server.get("protocol"), str(server.get("protocolVersion", ""))
    match name:
        case "kafka" | "kafka-secure":
            return _KAFKA
        case "mqtt" | "mqtts" | "secure-mqtt":
            return "MQTT/5.0" if version.startswith("5") else "MQTT/3.1.1"
        case "mqtt5":
            return "MQTT/5.0"
        case "amqp" | "amqps":
            return "AMQP/1.0" if version.startswith("1") else _AMQP_091
        case "amqp1":
            return "AMQP/1.0"
        case "nats":
            return "NATS"
        case "http" | "https":
            return "HTTP"
    return name if isinstance(name, str) else ""


def server_attributes(server: Mapping[str, Any]) -> Members:
    """The attributes of an endpoint that a server's address, protocol and security make."""
    protocol, host = protocol_of(server), server.get("host")
    options: Members = {}
    if isinstance(host, str) and host and (address := _address(server, protocol, host)):
        options["endpoints"] = [address]
    if authorization := _authorization(server.get("security")):
        options["authorization"] = authorization
    found: Members = {"protocol": protocol} if protocol else {}
    return {**found, OPTIONS: options} if options and protocol else found


def _address(server: Mapping[str, Any], protocol: str, host: str) -> Members:
    if protocol == _KAFKA:
        address: Members = {"bootstrap.servers": [each.strip() for each in host.split(",")]}
        mechanisms = [each.get("mechanism") for each in _authorization(server.get("security"))]
        is_secure, mechanism = server["protocol"] != "kafka", next(filter(None, mechanisms), "")
        if is_secure or mechanism:
            kind = "SSL" if is_secure else "PLAINTEXT"
            address["security.protocol"] = f"SASL_{kind}" if mechanism else kind
        return {**address, "sasl.mechanism": mechanism} if mechanism else address
    scheme = _SCHEMES.get(server["protocol"], server["protocol"])
    path = server.get("pathname")
    try:
        uri = f"{scheme}://{host}{path if isinstance(path, str) else ''}"
        return {"uri": SCALAR_CHECKS["uritemplate"](uri)}
    except ValueError:
        return {}


def _authorization(security: Any) -> list[Members]:
    schemes = security if isinstance(security, list) else []
    types = [scheme.get("type") for scheme in schemes if isinstance(scheme, dict)]
    return [dict(_AUTHORIZATIONS[type]) for type in types if type in _AUTHORIZATIONS]


def server_members(protocol: str, options: Mapping[str, Any]) -> Members:
    """The members of a server for a protocol and the first address of an endpoint."""
    address = next(iter(addresses_of(options)), {})
    server: Members
    if protocol == _KAFKA:
        is_secure = "SSL" in str(address.get("security.protocol", ""))
        hosts = address.get("bootstrap.servers")
        host = ",".join(map(str, hosts)) if isinstance(hosts, list) else ""
        server = {"host": host, "protocol": "kafka-secure" if is_secure else "kafka"}
    else:
        found = _URI.fullmatch(str(address.get("uri", "")))
        scheme, host, path = found.groups() if found else ("", str(address.get("uri", "")), "")
        server = {"host": host, **({"pathname": path} if path else {})}
        server |= _protocol_members(protocol, scheme.lower())
    return server


def _protocol_members(protocol: str, scheme: str) -> Members:
    family, _, version = protocol.partition("/")
    if family in ("MQTT", "AMQP"):
        is_secure = scheme in ("mqtts", "amqps", "ssl", "wss", "tls")
        name = f"{family.lower()}s" if is_secure else family.lower()
        return {"protocol": name, "protocolVersion": version or "unknown"}
    if family == "NATS":
        return {"protocol": "nats"}
    return {"protocol": scheme or protocol.lower() or "unknown"}


def addresses_of(options: Any) -> list[Members]:
    """The addresses in the protocol options of an endpoint."""
    found = options.get("endpoints") if isinstance(options, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def common_addresses(servers: Iterable[Members], protocol: str) -> list[Members]:
    """The addresses of those endpoints of servers that have a protocol."""
    fitting = (server for server in servers if server.get("protocol") == protocol)
    return [address for server in fitting for address in addresses_of(server.get(OPTIONS))]


def address_option(protocol: str, action: str) -> str:
    """The name of the option for the address of a channel; empty for protocols without such."""
    is_reading = action == "receive"
    if protocol.startswith("MQTT/"):
        return "topicfilter" if is_reading else "topic"
    names = {_KAFKA: "topic", "AMQP/1.0": "node", _AMQP_091: "node"}
    names["NATS"] = "subjectfilter" if is_reading else "subject"
    return names.get(protocol, "")


def channel_options(channel: Mapping[str, Any], protocol: str, action: str) -> Members:
    """The protocol options of an operation that its channel determines."""
    bindings = channel.get("bindings")
    bindings = bindings if isinstance(bindings, dict) else {}
    options: Members = {}
    address = channel.get("address")
    kafka, amqp = bindings.get("kafka"), bindings.get("amqp")
    if protocol == _KAFKA and isinstance(kafka, dict):
        address = kafka.get("topic") or address
    if (name := address_option(protocol, action)) and isinstance(address, str) and address:
        options[name] = address
    if protocol == _AMQP_091 and isinstance(amqp, dict):
        for kind in ("exchange", "queue"):
            found = amqp.get(kind)
            own = found.get("name") if isinstance(found, dict) else None
            if isinstance(own, str) and own:
                options[kind] = own
    return options


def _is_in(*kinds: type) -> Any:
    """A function that passes values of some types; `bool` is no `int` here."""
    return lambda value: value if type(value) in kinds else None


def _binding(
    binding: str, member: str, option: str, *kinds: type, default: Any = None
) -> Correspondence:
    return Correspondence(
        member=("bindings", binding, member),
        attribute=(OPTIONS, option),
        to_attribute=_is_in(*kinds) if kinds else constant,
        to_member=constant_schema if not kinds else (lambda value, _: value),
        default=default,
    )


def _quality(value: Any) -> int | None:
    return value if type(value) is int and value in (0, 1, 2) else None


_MQTT = (
    Correspondence(
        member=("bindings", "mqtt", "qos"),
        attribute=(OPTIONS, "qos"),
        to_attribute=_quality,
        default=0,
    ),
    _binding("mqtt", "retain", "retain", bool, default=False),
)
OF_OPERATIONS: Mapping[str, Sequence[Correspondence]] = {
    _KAFKA: (_binding("kafka", "groupId", "consumergroup"),),
    "MQTT/3.1.1": _MQTT,
    "MQTT/5.0": _MQTT,
    "NATS": (_binding("nats", "queue", "queuegroup", str),),
    "HTTP": (_binding("http", "method", "method", str, default="POST"),),
    _AMQP_091: tuple(
        _binding("amqp", name, name.lower(), *kinds)
        for name, kinds in {
            "expiration": (int,),
            "priority": (int,),
            "deliveryMode": (int,),
            "mandatory": (bool,),
            "timestamp": (bool,),
            "ack": (bool,),
        }.items()
    ),
}
"""The members of operations that protocol options of endpoints express, by protocol."""
OF_SERVERS: Mapping[str, Sequence[Correspondence]] = {
    "MQTT/3.1.1": (_binding("mqtt", "cleanSession", "cleansession", bool, default=True),),
    "MQTT/5.0": (_binding("mqtt", "cleanSession", "cleanstart", bool),),
}
"""The members of servers that protocol options of endpoints express, by protocol."""

_CONTENT_TYPE = Correspondence(
    member=("contentType",), attribute=("datacontenttype",), to_attribute=_is_in(str)
)


def message_correspondences(protocol: str) -> Sequence[Correspondence]:
    """The members of a message that attributes and protocol options of a message express."""
    return (_CONTENT_TYPE, *_OF_MESSAGES.get(protocol, ()))


_HEADER_NAME = re.compile(r"[a-z0-9][a-z0-9_.:\-]{0,62}")


def _headers(schema: Any, *, with_required: bool = True) -> list[Members] | None:
    """Headers in the order of their names; `None` for a schema without properties."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not properties:
        return None
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    return [
        _header(name, properties[name], is_required=with_required and name in required)
        for name in sorted(properties)
    ]


def _header(name: str, described: Any, *, is_required: bool) -> Members:
    found: Members = {"name": name}
    if isinstance(described, dict):
        if isinstance(text := described.get("description"), str) and text:
            found["description"] = text
        if value := constant(described):
            found["value"] = value
    return {**found, "required": True} if is_required else found


def _user_properties(schema: Any) -> list[Members] | None:
    return _headers(schema, with_required=False)


def _record_headers(schema: Any) -> Members | None:
    """The headers of a Kafka record by name; names with capitals have no place in a map."""
    found = _headers(schema) or []
    named = {each["name"].lower(): each for each in found}
    is_exact = len(named) == len(found) and all(map(_HEADER_NAME.fullmatch, named))
    return named if found and is_exact else None


def _schema(headers: Any, _: Any) -> Members:
    """A schema of headers, given as an array, or as an object by name."""
    named = headers.items() if isinstance(headers, dict) else [("", each) for each in headers]
    found = [{"name": name, **each} for name, each in named if isinstance(each, dict)]
    properties: Members = {}
    for each in found:
        described: Members = {"type": "string"}
        if each.get("description"):
            described["description"] = each["description"]
        if each.get("value") is not None:
            described["const"] = each["value"]
        properties[each["name"]] = described
    required = [each["name"] for each in found if each.get("required")]
    schema: Members = {"type": "object", "properties": properties}
    return {**schema, "required": sorted(required)} if required else schema


def _header_member(option: str, to_attribute: Any) -> Correspondence:
    return Correspondence(
        member=("headers",),
        attribute=(OPTIONS, option),
        to_attribute=to_attribute,
        to_member=_schema,
    )


_OF_MESSAGES: Mapping[str, Iterable[Correspondence]] = {
    _KAFKA: (_header_member("headers", _record_headers), _binding("kafka", "key", "key")),
    "MQTT/5.0": (
        _header_member("user_properties", _user_properties),
        _binding("mqtt", "contentType", "content_type"),
        _binding("mqtt", "responseTopic", "response_topic"),
        _binding("mqtt", "correlationData", "correlation_data"),
        _binding("mqtt", "payloadFormatIndicator", "payload_format_indicator", int),
    ),
    _AMQP_091: (
        _binding("amqp", "contentEncoding", "contentencoding", str),
        _binding("amqp", "messageType", "messagetype", str),
    ),
    "NATS": (_header_member("headers", _headers),),
    "HTTP": (_header_member("headers", _headers),),
}
