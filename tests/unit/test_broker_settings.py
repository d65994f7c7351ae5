"""The schemes of sinks, and the settings of MQTT and NATS sinks, as clients give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from catalog.http.route import checked
from catalog.model.errors import XRegistryError
from catalog.model.sinkterms import DEFAULT_PORTS, protocol_of
from catalog.operations.subscriptions import NewSubscription
from catalog.subscriptions.requests import definition_of
from catalog.subscriptions.sinks.protocols import PROTOCOLS
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition

TOPIC = {"topicname": "a"}
TOKEN = {
    "credentialtype": "ACCESSTOKEN",
    "accesstoken": "a",
    "accesstokenexpiresutc": "2100-01-01T00:00:00Z",
    "accesstokentype": "Bearer",
}
MQTT = {
    "protocol": "MQTT5",
    "sink": "mqtt://127.0.0.1:1883",
    "protocolsettings": TOPIC,
}
SUBJECT = {"subject": "a"}
NATS = {
    "protocol": "NATS",
    "sink": "nats://127.0.0.1:4222",
    "protocolsettings": SUBJECT,
}


def parsed_definition(body: Mapping[str, Any]) -> SubscriptionDefinition:
    return definition_of(checked(NewSubscription, body, "/subscriptions"), "/subscriptions")


def test_each_scheme_of_a_protocol_has_a_port_and_names_the_protocol() -> None:
    for protocol in PROTOCOLS.values():
        for scheme in {each for schemes in protocol.schemes.values() for each in schemes}:
            assert scheme in DEFAULT_PORTS
            name = protocol_of(f"{scheme}://a")
            assert scheme in PROTOCOLS[name].schemes[name]


WRONG_MQTT: list[tuple[dict[str, Any], str]] = [
    ({"protocolsettings": {}}, "protocolsettings.topicname"),
    *(
        ({"protocolsettings": {"topicname": topic}}, "protocolsettings.topicname")
        for topic in ("", "a/+", "#", "a#", "$SYS/a", "a\x01", "a\n", "\ufffe", "x" * 1025, 5)
    ),
    *(
        ({"protocolsettings": {**TOPIC, name: value}}, f"protocolsettings.{name}")
        for name, value in {
            "qos": 3,
            "retain": "yes",
            "expiry": 0,
            "contentmode": "batched",
            "cacertificate": "a certificate",
            "partitionkeyextractor": "subject",
        }.items()
    ),
    ({"protocolsettings": {**TOPIC, "qos": True}}, "protocolsettings.qos"),
    *(
        (
            {"protocolsettings": {**TOPIC, "userproperties": map}},
            "protocolsettings.userproperties",
        )
        for map in ({"id": "a"}, {"a": "\n"}, {"": "a"}, {"a": "x" * 1025})
    ),
    (
        {"sinkcredential": TOKEN},
        "sinkcredential.credentialtype",
    ),
    (
        {"sinkcredential": {"credentialtype": "PLAIN", "identifier": "a\x01", "secret": "b"}},
        "sinkcredential.PLAIN.identifier",
    ),
    *(
        (
            {"protocol": "MQTT3", "protocolsettings": {**TOPIC, name: value}},
            f"protocolsettings.{name}",
        )
        for name, value in {
            "contentmode": "binary",
            "expiry": 1,
            "userproperties": {"a": "b"},
        }.items()
    ),
]
WRONG_NATS: list[tuple[dict[str, Any], str]] = [
    ({"protocolsettings": {}}, "protocolsettings.subject"),
    *(
        ({"protocolsettings": {"subject": subject}}, "protocolsettings.subject")
        for subject in (
            *("", "*", "a.*", ">", "a.>", "a*", "a b", "a\t", "a\r\nPUB b 0\r\n", "a\x01"),
            *(".", "a.", ".a", "a..b", "$JS.API.STREAM.DELETE.a", "$SYS.a", "x" * 513, 5),
        )
    ),
    *(
        ({"protocolsettings": {**SUBJECT, name: value}}, f"protocolsettings.{name}")
        for name, value in {
            "contentmode": "batched",
            "cacertificate": "a certificate",
            "topicname": "a",
            "qos": 1,
        }.items()
    ),
    ({"sink": "nats://127.0.0.1/a"}, "sink"),
    ({"sink": "nats://127.0.0.1?a=b"}, "sink"),
]


@pytest.mark.parametrize(
    ("valid", "changed", "name"),
    [
        *((MQTT, changed, name) for changed, name in WRONG_MQTT),
        *((NATS, changed, name) for changed, name in WRONG_NATS),
    ],
)
def test_what_does_not_fit_the_protocol_is_refused(
    valid: Mapping[str, Any], changed: Mapping[str, Any], name: str
) -> None:
    with pytest.raises(XRegistryError) as raised:
        parsed_definition({**valid, **changed})
    assert name in raised.value.arguments.values()


@pytest.mark.parametrize("topic", ["a", "a/b c/", "/", "Zürich/\N{BELL}", "a$b", "x" * 1024])
def test_any_name_without_wildcards_is_a_topic(topic: str) -> None:
    settings = {"topicname": topic}
    parsed = parsed_definition({**MQTT, "protocolsettings": settings})
    assert parsed.settings["topicname"] == topic


def test_the_settings_have_the_defaults_of_the_specification() -> None:
    parsed = parsed_definition({**MQTT, "protocol": "MQTT3"})
    assert parsed.settings == {
        "topicname": "a",
        "qos": 1,
        "retain": False,
        "contentmode": "structured",
    }


@pytest.mark.parametrize("subject", ["a", "a.b-c.d_e", "Zürich.\N{BELL}", "a$.b", "x" * 512])
def test_any_name_without_wildcards_is_a_subject(subject: str) -> None:
    settings = {"subject": subject}
    parsed = parsed_definition({**NATS, "protocolsettings": settings})
    assert parsed.settings == {"subject": subject, "contentmode": "binary"}


@pytest.mark.parametrize(
    "credential",
    [
        {
            "credentialtype": "ACCESSTOKEN",
            "accesstoken": "a",
            "accesstokenexpiresutc": "2100-01-01T00:00:00Z",
            "accesstokentype": "Bearer",
        },
        {"credentialtype": "PLAIN", "identifier": "a", "secret": "b"},
    ],
)
def test_users_and_tokens_are_credentials(credential: Mapping[str, str]) -> None:
    body = {**NATS, "sink": "tls://127.0.0.1", "sinkcredential": credential}
    assert parsed_definition(body)
