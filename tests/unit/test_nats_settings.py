"""The settings of NATS sinks, as clients give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from catalog.http.route import checked
from catalog.model.errors import XRegistryError
from catalog.operations.subscriptions import NewSubscription
from catalog.subscriptions.requests import definition_of
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition

SUBJECT = {"subject": "a"}
SUBSCRIPTION = {
    "protocol": "NATS",
    "sink": "nats://127.0.0.1:4222",
    "protocolsettings": SUBJECT,
}


def parsed_definition(body: Mapping[str, Any]) -> SubscriptionDefinition:
    return definition_of(checked(NewSubscription, body, "/subscriptions"), "/subscriptions")


@pytest.mark.parametrize(
    ("changed", "name"),
    [
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
    ],
)
def test_what_does_not_fit_the_protocol_is_refused(changed: Mapping[str, Any], name: str) -> None:
    with pytest.raises(XRegistryError) as raised:
        parsed_definition({**SUBSCRIPTION, **changed})
    assert name in raised.value.arguments.values()


@pytest.mark.parametrize("subject", ["a", "a.b-c.d_e", "Zürich.\N{BELL}", "a$.b", "x" * 512])
def test_any_name_without_wildcards_is_a_subject(subject: str) -> None:
    settings = {"subject": subject}
    parsed = parsed_definition({**SUBSCRIPTION, "protocolsettings": settings})
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
    body = {**SUBSCRIPTION, "sink": "tls://127.0.0.1", "sinkcredential": credential}
    assert parsed_definition(body)
