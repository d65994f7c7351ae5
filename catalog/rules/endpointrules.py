"""Rules of endpoints: their roles, addresses and protocol options.

Source: endpoint/spec.md. Values with placeholders are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from catalog.messages.message import pointer
from catalog.rules.fault import (
    OPTIONS,
    EntityLookup,
    Fault,
    Rule,
    Subject,
    as_object,
    check_headers,
    check_method,
    family,
    has_placeholder,
    is_blank,
    text,
)

_SPEC = "endpoint/spec.md, "
USAGE_EMPTY = Rule("usage_empty", f'{_SPEC}"usage"')
USAGE_COMBINATION = Rule("usage_combination", f'{_SPEC}"usage"')
SELECTOR_MISSING = Rule("selector_missing", f'{_SPEC}"envelope" (of 0.5)')
ENVELOPE_EMPTY = Rule("envelope_empty", f'{_SPEC}"envelope"')
ENDPOINT_PROTOCOL_EMPTY = Rule("protocol_empty", f'{_SPEC}"protocol"')
CHANNEL_EMPTY = Rule("channel_empty", f'{_SPEC}"channel"')
ENVELOPE_FORMAT = Rule("envelope_format", f'{_SPEC}"envelopeoptions"')
ADDRESS_MISSING = Rule("address_missing", f'{_SPEC}"protocoloptions.endpoints"')
ADDRESS_SCHEME = Rule("address_scheme", f'{_SPEC}"Protocol Options"')
AUTHORIZATION_EMPTY = Rule("authorization_empty", f'{_SPEC}"protocoloptions.authorization"')
AUTHORIZATION_MECHANISM = Rule(
    "authorization_mechanism", f'{_SPEC}"protocoloptions.authorization.mechanism"'
)
AUTHORIZATION_CREDENTIAL = Rule(
    "authorization_credential", f'{_SPEC}"protocoloptions.authorization"'
)
HEADER_VALUE_EMPTY = Rule("header_value_empty", f'{_SPEC}"HTTP options" (of 0.5)')
ENDPOINT_TOPIC_EMPTY = Rule("topic_empty", f'{_SPEC}"Protocol Options"')
TOPIC_WILDCARD = Rule("topic_wildcard", f'{_SPEC}"MQTT options" and "NATS options"')
TOPIC_EXCLUSIVE = Rule("topic_exclusive", TOPIC_WILDCARD.source)
GROUP_WITHOUT_FILTER = Rule("group_without_filter", TOPIC_WILDCARD.source)
SHARED_GROUP_MALFORMED = Rule("shared_group_malformed", f'{_SPEC}"MQTT options"')
ACKS_RANGE = Rule("acks_range", f'{_SPEC}"KAFKA options"')
CONSUMERGROUP_MISSING = Rule("consumergroup_missing", ACKS_RANGE.source)
CONSUMERGROUP_MISPLACED = Rule("consumergroup_misplaced", ACKS_RANGE.source)
CONSUMPTION_MISPLACED = Rule("consumption_misplaced", ACKS_RANGE.source)

_WITH_BOTH = frozenset({"amqp", "mqtt", "nats"})
_SCHEMES = {
    "http": ("http", "https"),
    "amqp": ("amqp", "amqps"),
    "mqtt": ("mqtt", "mqtts", "tcp", "ssl", "wss"),
    "nats": ("nats", "tls", "ws"),
}
_CREDENTIAL = re.compile(
    r".*(?:pass(?:word|wd|phrase)|secret|(?:access|api|private|shared|signing)[-_]?key|token"
    r"|credentials?|connection[-_]?string)[-_]?(?:value)?",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_MQTT_WILDCARD = re.compile(r"[+#]")
_NATS_WILDCARD = re.compile(r"(?:^|\.)[*>](?:\.|$)")


def check_endpoint(subject: Subject, lookup: EntityLookup) -> Iterator[Fault]:
    """Check all rules of an endpoint, except the rules of references."""
    protocol = family(subject.text("protocol"))
    usage = subject.attributes.get("usage")
    given = usage if isinstance(usage, list) else []
    roles = frozenset(each for each in given if isinstance(each, str))
    if usage == []:
        yield USAGE_EMPTY.broken("/usage", "It is empty; name subscriber, consumer or producer.")
    if len(roles) > 1 and not (roles == {"subscriber", "consumer"} and protocol in _WITH_BOTH):
        yield USAGE_COMBINATION.broken(
            "/usage",
            "Make an endpoint for each role, with one channel: subscriber and consumer go "
            "together over MQTT, AMQP and NATS only.",
        )
    yield from _description(subject)
    options = subject.attributes.get(OPTIONS)
    if isinstance(options, dict):
        yield from _addresses(protocol, options)
        yield from _authorization(options)
        yield from _options(protocol, roles, options)


def _description(subject: Subject) -> Iterator[Fault]:
    if subject.attributes.get("envelope") is None and subject.attributes.get("protocol") is None:
        yield SELECTOR_MISSING.broken("", "Name an envelope, a protocol, or both.")
    if is_blank(subject.attributes.get("channel")):
        yield CHANNEL_EMPTY.broken("/channel", "It is empty; name it or leave it out.")
    if is_blank(subject.attributes.get("envelope")):
        yield ENVELOPE_EMPTY.broken("/envelope", "It is empty; name an envelope.")
    if is_blank(subject.attributes.get("protocol")):
        yield ENDPOINT_PROTOCOL_EMPTY.broken("/protocol", "It is empty; name a protocol.")
    envelope = subject.object("envelopeoptions")
    if envelope.get("mode") == "binary" and envelope.get("format") is not None:
        yield ENVELOPE_FORMAT.broken(
            "/envelopeoptions/format", "In binary mode events have no format; leave it out."
        )


def _addresses(protocol: str, options: Mapping[str, Any]) -> Iterator[Fault]:
    addresses = options.get("endpoints")
    for place, address in enumerate(addresses if isinstance(addresses, list) else ()):
        at = pointer(OPTIONS, "endpoints", place)
        if protocol == "kafka":
            servers = as_object(address).get("bootstrap.servers")
            if not servers or not isinstance(servers, list):
                yield ADDRESS_MISSING.broken(
                    at, "It needs bootstrap.servers, an array of host:port."
                )
        elif protocol in _SCHEMES:
            yield from _uri(at, protocol, text(as_object(address).get("uri")))


def _uri(at: str, protocol: str, uri: str) -> Iterator[Fault]:
    scheme = _SCHEME.match(uri)
    if not uri:
        yield ADDRESS_MISSING.broken(at, "It needs a uri.")
    elif scheme is None:
        if not has_placeholder(uri.partition(":")[0]):
            yield ADDRESS_SCHEME.broken(f"{at}/uri", f'"{uri}" is no absolute URI.')
    elif scheme[1].lower() not in _SCHEMES[protocol]:
        wanted = ", ".join(_SCHEMES[protocol])
        yield ADDRESS_SCHEME.broken(
            f"{at}/uri", f'The scheme of "{uri}" is not one of this protocol: {wanted}.'
        )
    elif protocol == "nats" and not has_placeholder(uri) and not _has_port(uri):
        yield ADDRESS_SCHEME.broken(f"{at}/uri", f'"{uri}" lacks its port.')


def _has_port(uri: str) -> bool:
    try:
        return urlsplit(uri).port is not None
    except ValueError:
        return False


def _authorization(options: Mapping[str, Any]) -> Iterator[Fault]:
    entries = options.get("authorization")
    for place, entry in enumerate(entries if isinstance(entries, list) else ()):
        members = as_object(entry)
        for name in ("type", "mechanism", "resourceuri", "authorityuri"):
            if is_blank(members.get(name)):
                yield AUTHORIZATION_EMPTY.broken(
                    pointer(OPTIONS, "authorization", place, name),
                    "It is empty; give it a value, or leave it out.",
                )
        for name, value in members.items():
            # `plainpasswordfield` names a field, and `tokenuri` an address.
            if _CREDENTIAL.fullmatch(name) and text(value).strip():
                yield AUTHORIZATION_CREDENTIAL.broken(
                    pointer(OPTIONS, "authorization", place, name),
                    "It may be a credential, which everybody can read here: take it out.",
                )
        if text(members.get("mechanism")) and text(members.get("type")) != "SASL":
            yield AUTHORIZATION_MECHANISM.broken(
                pointer(OPTIONS, "authorization", place, "mechanism"),
                "Only the type SASL has a mechanism.",
            )


def _options(protocol: str, roles: frozenset[str], options: Mapping[str, Any]) -> Iterator[Fault]:
    for name in ("topic", "topicfilter", "subject", "subjectfilter", "node", "willtopic"):
        if is_blank(options.get(name)):
            yield ENDPOINT_TOPIC_EMPTY.broken(
                pointer(OPTIONS, name), f"It is empty; name the {name}, or leave it out."
            )
    match protocol:
        case "http":
            yield from check_method(options.get("method"))
            yield from check_headers("headers", options.get("headers"), is_http=True)
            headers = options.get("headers")
            for place, header in enumerate(headers if isinstance(headers, list) else ()):
                if is_blank(as_object(header).get("value", "")):
                    yield HEADER_VALUE_EMPTY.broken(
                        pointer(OPTIONS, "headers", place), "It has no value; give it one."
                    )
        case "mqtt":
            yield from _filtered(options, "topic", "sharedsubscriptiongroup", _MQTT_WILDCARD)
            if "/" in text(options.get("sharedsubscriptiongroup")):
                yield SHARED_GROUP_MALFORMED.broken(
                    pointer(OPTIONS, "sharedsubscriptiongroup"),
                    "Give the name alone, without $share and slashes.",
                )
        case "nats":
            yield from _filtered(options, "subject", "queuegroup", _NATS_WILDCARD)
        case "kafka":
            yield from check_headers("headers", options.get("headers"))
            yield from _kafka(roles, options)


def _filtered(
    options: Mapping[str, Any], topic: str, group: str, wildcard: re.Pattern[str]
) -> Iterator[Fault]:
    """Check the topic that producers publish to, and the filter and group of subscribers."""
    filter = f"{topic}filter"
    if wildcard.search(text(options.get(topic))):
        yield TOPIC_WILDCARD.broken(
            pointer(OPTIONS, topic),
            f"No message can be published to a wildcard; subscribers use a {filter}.",
        )
    if options.get(topic) is not None and options.get(filter) is not None:
        yield TOPIC_EXCLUSIVE.broken(
            pointer(OPTIONS, filter), f"There is a {topic}, too; keep one of both."
        )
    if options.get(group) is not None and options.get(filter) is None:
        yield GROUP_WITHOUT_FILTER.broken(
            pointer(OPTIONS, group),
            f"A group subscribes to a {filter}; add one, or leave the group out.",
        )


def _kafka(roles: frozenset[str], options: Mapping[str, Any]) -> Iterator[Fault]:
    acks = options.get("acks")
    if isinstance(acks, int) and acks not in (-1, 0, 1):
        yield ACKS_RANGE.broken(
            pointer(OPTIONS, "acks"),
            f"{acks} is none of -1 (all replicas), 0 (none) and 1 (the leader).",
        )
    group = options.get("consumergroup")
    if roles == {"consumer"} and (group is None or is_blank(group)):
        yield CONSUMERGROUP_MISSING.broken(
            pointer(OPTIONS, *(["consumergroup"] if group is not None else [])),
            "A consumer joins a group: name the consumergroup.",
        )
    if roles == {"subscriber"} and group is not None:
        yield CONSUMERGROUP_MISPLACED.broken(
            pointer(OPTIONS, "consumergroup"),
            "A subscriber creates a group of its own; only a consumer joins one.",
        )
    for name in ("autooffsetreset", "enableautocommit"):
        if options.get(name) is not None and roles & {"producer", "subscriber"}:
            yield CONSUMPTION_MISPLACED.broken(
                pointer(OPTIONS, name), "It is for consumers only; leave it out."
            )
