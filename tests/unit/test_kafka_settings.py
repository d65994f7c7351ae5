from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

from catalog.http.allowedaddresses import split_hosts
from catalog.model.credentials import PlainCredential, SinkCredential, TokenCredential
from catalog.subscriptions.sinks.protocols import KafkaSettings, servers_of

PLAIN = PlainCredential(identifier="bob", secret="s3cret")
TOKEN = TokenCredential(token="t0ken")


def certificate() -> str:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def unfit(
    sink: str, credential: SinkCredential | None = None, **values: Any
) -> tuple[str, str] | None:
    settings = KafkaSettings.model_validate(values)
    return settings.why_unfit(urlsplit(split_hosts(sink)[0]), credential)


def test_bootstrap_servers_are_separated_by_commas() -> None:
    assert servers_of("kafka://a:1,b.example,[::1]:2,[::2]/t") == (
        ("a", 1),
        ("b.example", 9092),
        ("::1", 2),
        ("::2", 9092),
    )


def test_acknowledgements_may_be_a_number() -> None:
    assert KafkaSettings.model_validate({"acks": 1}).acks == "1"


def test_the_settings_name_the_topic_else_the_path_does() -> None:
    assert KafkaSettings().topic_of("kafka://a,b/one") == "one"
    assert KafkaSettings(topicname="two").topic_of("kafka://a/one") == "two"


def test_every_setting_has_a_default_but_the_topic() -> None:
    assert unfit("kafka://a/t") is None
    found = unfit("kafka://a")
    assert found is not None
    assert found[0] == "protocolsettings.topicname"


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ({"topicname": "a/b"}, "a topic's name"),
        ({"topicname": ".."}, "a topic's name"),
        ({"topicname": "t" * 250}, "a topic's name"),
        ({"partitionkeyextractor": "${subject}"}, "context attribute"),
        ({"partitionkeyextractor": "data"}, "context attribute"),
        ({"partitionkeyextractor": "Subject"}, "context attribute"),
        ({"clientid": "a b"}, "1 to 128"),
        ({"acks": "2"}, "'0', '1' or 'all'"),
        ({"acks": -1}, "'0', '1' or 'all'"),
        ({"acks": True}, "'0', '1' or 'all'"),
        ({"contentmode": "batch"}, "'binary' or 'structured'"),
        ({"saslmechanism": "GSSAPI"}, "'PLAIN', 'SCRAM-SHA-256' or 'SCRAM-SHA-512'"),
        ({"cacertificate": "not PEM"}, "certificates in PEM"),
        ({"cacertificate": "é"}, "certificates in PEM"),
        ({"cacertificate": "-----BEGIN PRIVATE KEY-----"}, "private key must not"),
        ({"cacertificate": "-" * 20_000}, "at most 16384"),
        ({"other": 1}, "Extra inputs"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(values: dict[str, Any], hint: str) -> None:
    with pytest.raises(ValidationError, match=hint):
        KafkaSettings.model_validate(values)


@pytest.mark.parametrize(
    ("sink", "credential", "values", "name"),
    [
        ("kafka://a/t/u", None, {}, "sink"),
        ("kafka://a/t?x=y", None, {}, "sink"),
        ("kafka://a/t", None, {"saslmechanism": "SCRAM-SHA-256"}, "sinkcredential"),
        ("kafka://a/t", None, {"cacertificate": certificate()}, "protocolsettings.cacertificate"),
        ("kafka://a/t", PlainCredential(identifier="a", secret="b\0c"), {}, "sinkcredential"),
        ("kafka://a/t", TOKEN, {}, "sink"),
        ("kafkas://a/t", TOKEN, {"saslmechanism": "PLAIN"}, "protocolsettings.saslmechanism"),
        (
            "kafkas://a/t",
            TokenCredential(token="t", scheme="DPoP"),
            {},
            "sinkcredential.accesstokentype",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(
    sink: str, credential: SinkCredential | None, values: dict[str, Any], name: str
) -> None:
    found = unfit(sink, credential, **values)
    assert found is not None
    assert found[0] == name
    assert "b\0c" not in found[1]


def test_credentials_go_with_their_mechanisms() -> None:
    assert unfit("kafka://a/t", PLAIN) is None
    assert unfit("kafka://a/t", PLAIN, saslmechanism="SCRAM-SHA-512") is None
    assert unfit("kafkas://a/t", PLAIN, cacertificate=certificate()) is None
    assert unfit("kafkas://a/t", TOKEN) is None
