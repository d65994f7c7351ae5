"""Signatures of deliveries: what the node signs, a receiver verifies, and nothing else."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from catalog.client import KeyUnusable, SignatureInvalid, verify
from catalog.model.sinkterms import SignatureScheme, SigningKey
from catalog.subscriptions.sinks.webhooksignature import (
    Signer,
    batch_id,
    make_key,
    public_key,
    shared_secret,
)

NOW = datetime(2026, 5, 17, 12, 0, 0, 750_000, tzinfo=UTC)
ID = "5f0e3b.7.version.created"
BODY = '{"name":"Zürich"}'.encode()
SCHEMES: tuple[SignatureScheme, ...] = ("hmac-sha256", "ed25519")
KEYS = {scheme: make_key(scheme, NOW) for scheme in SCHEMES}


def receivers(key: SigningKey) -> str:
    """What a receiver is given of a key."""
    text = shared_secret(key) or public_key(key)
    assert text is not None
    return text


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_request_is_verified_with_what_the_receiver_is_given(scheme: SignatureScheme) -> None:
    key = KEYS[scheme]
    headers = Signer([key]).headers(ID, NOW, BODY)
    assert headers.keys() == {"webhook-id", "webhook-timestamp", "webhook-signature"}
    assert headers["webhook-id"] == ID
    assert headers["webhook-timestamp"] == str(int(NOW.timestamp()))
    verify(headers, BODY, receivers(key), now=NOW)
    verify({name.title(): value for name, value in headers.items()}, BODY, receivers(key), now=NOW)


def test_the_library_of_the_standard_verifies_hmac() -> None:
    key = make_key("hmac-sha256", NOW)
    # The library has a clock of its own.
    headers = dict(Signer([key]).headers(ID, datetime.now(UTC), BODY))
    webhook = Webhook(receivers(key))
    assert webhook.verify(BODY, headers) == {"name": "Zürich"}
    with pytest.raises(WebhookVerificationError):
        webhook.verify(BODY + b" ", headers)
    verify(headers, BODY, receivers(key))


def test_an_ed25519_signature_is_of_id_time_and_body() -> None:
    key = KEYS["ed25519"]
    headers = Signer([key]).headers(ID, NOW, BODY)
    version, _, signature = headers["webhook-signature"].partition(",")
    assert version == "v1a"
    public = Ed25519PublicKey.from_public_bytes(
        b64decode(receivers(key).removeprefix("whpk_"), validate=True)
    )
    signed = f"{ID}.{int(NOW.timestamp())}.".encode() + BODY
    public.verify(b64decode(signature), signed)
    with pytest.raises(InvalidSignature):
        public.verify(b64decode(signature), signed + b" ")


def test_the_example_of_the_librarys_own_tests_holds() -> None:
    key = SigningKey(
        id="k", scheme="hmac-sha256", secret=b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        createdat=NOW,
    )  # fmt: skip
    at = datetime.fromtimestamp(1614265330, UTC)
    body = b'{"test": 2432232314}'
    headers = Signer([key]).headers("msg_p5jXN8AQM9LWM0D4loKWxJek", at, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("scheme", SCHEMES)
@given(
    id=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40),
    body=st.binary(max_size=200).map(lambda raw: raw.hex().encode()),
    place=st.integers(0, 10_000),
    flip=st.integers(1, 255),
)
def test_any_changed_byte_is_refused(
    scheme: SignatureScheme, id: str, body: bytes, place: int, flip: int
) -> None:
    key = KEYS[scheme]
    headers = dict(Signer([key]).headers(id, NOW, body))
    verify(headers, body, receivers(key), now=NOW)
    parts = {
        "webhook-id": id.encode(),
        "webhook-timestamp": headers["webhook-timestamp"].encode(),
        "body": body,
    }
    for name, part in parts.items():
        if not part:
            continue
        changed = bytearray(part)
        changed[place % len(part)] ^= flip
        sent, received = dict(headers), body
        if name == "body":
            received = bytes(changed)
        else:
            sent[name] = bytes(changed).decode("utf-8", "surrogateescape")
        with pytest.raises(SignatureInvalid):
            verify(sent, received, receivers(key), now=NOW, tolerance=timedelta.max / 2)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(place=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_changed_signature_is_refused(scheme: SignatureScheme, place: int, flip: int) -> None:
    key = KEYS[scheme]
    headers = dict(Signer([key]).headers(ID, NOW, BODY))
    version, _, encoded = headers["webhook-signature"].partition(",")
    changed = bytearray(b64decode(encoded))
    changed[place % len(changed)] ^= flip
    headers["webhook-signature"] = f"{version},{b64encode(changed).decode()}"
    with pytest.raises(SignatureInvalid):
        verify(headers, BODY, receivers(key), now=NOW)


def test_two_keys_sign_until_the_end_of_the_older() -> None:
    old = SigningKey(
        id="old",
        scheme="hmac-sha256",
        secret=b"o" * 32,
        createdat=NOW - timedelta(days=90),
        endsat=NOW + timedelta(hours=24),
    )
    new = make_key("hmac-sha256", NOW)
    signer = Signer([old, new])
    both = signer.headers(ID, NOW, BODY)
    assert len(both["webhook-signature"].split(" ")) == 2
    for key in (old, new):
        verify(both, BODY, receivers(key), now=NOW)
    verify(both, BODY, f"{receivers(make_key('ed25519', NOW))}\n{receivers(old)}", now=NOW)
    assert old.endsat is not None
    later = signer.headers(ID, old.endsat, BODY)
    verify(later, BODY, receivers(new), now=old.endsat)
    with pytest.raises(SignatureInvalid, match="No signature fits"):
        verify(later, BODY, receivers(old), now=old.endsat)


def test_without_a_valid_key_nothing_is_signed() -> None:
    ended = SigningKey(id="k", scheme="ed25519", secret=b"k" * 32, createdat=NOW, endsat=NOW)
    assert Signer([]).headers(ID, NOW, BODY) == {}
    assert Signer([ended]).headers(ID, NOW, BODY) == {}


@pytest.mark.parametrize(
    ("seconds", "what"),
    [(-301, "301 seconds in the future"), (301, "301 seconds old"), (9e9, "seconds old")],
)
def test_a_request_at_another_time_is_refused(seconds: float, what: str) -> None:
    at = datetime(2026, 5, 17, 12, tzinfo=UTC)
    key = KEYS["hmac-sha256"]
    headers = Signer([key]).headers(ID, at, BODY)
    for near in (-300, 300):
        verify(headers, BODY, receivers(key), now=at + timedelta(seconds=near))
    with pytest.raises(SignatureInvalid, match=what):
        verify(headers, BODY, receivers(key), now=at + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"webhook-signature": ""}, "no header webhook-signature"),
        ({"webhook-id": ""}, "no header webhook-id"),
        ({"webhook-timestamp": "1e9"}, "not a number of seconds"),
        ({"webhook-timestamp": "-5"}, "not a number of seconds"),
        ({"webhook-timestamp": "\u0661"}, "not a number of seconds"),
        ({"webhook-timestamp": "9" * 13}, "not a number of seconds"),
        ({"webhook-signature": "v1,AAAA " * 2000}, "too long"),
        ({"webhook-signature": "v1"}, "No signature fits"),
        ({"webhook-signature": "v1,,"}, "No signature fits"),
        ({"webhook-signature": "v1,\ud800\u00e9"}, "No signature fits"),
        ({"webhook-signature": "v1a," + "A" * 86 + "=="}, "No signature fits"),
        ({"WebHook-Id": "another"}, "twice"),
    ],
)
def test_hostile_headers_are_refused_with_a_reason(changes: dict[str, str], what: str) -> None:
    for key in KEYS.values():
        headers = {**Signer([key]).headers(ID, NOW, BODY), **changes}
        with pytest.raises(SignatureInvalid, match=what):
            verify(headers, BODY, receivers(key), now=NOW)


def test_a_receiver_is_told_that_the_key_is_of_another_kind() -> None:
    headers = Signer([KEYS["ed25519"]]).headers(ID, NOW, BODY)
    with pytest.raises(SignatureInvalid) as refusal:
        verify(headers, BODY, receivers(KEYS["hmac-sha256"]), now=NOW)
    assert "HMAC-SHA256" in refusal.value.hint


@pytest.mark.parametrize(
    "key",
    [
        "",
        "whsec_",
        f"whsec_{b64encode(b'short').decode()}",
        f"whsec_{b64encode(b'l' * 65).decode()}",
        f"whpk_{b64encode(b'k' * 33).decode()}",
        f"whsk_{b64encode(b'k' * 32).decode()}",
        "whsec_QzQzQ",
        "whpk_\u00e9",
        f"{b64encode(b'k' * 32).decode()}",
        "whsec_" + " ".join(["x"] * 9),
    ],
)
def test_what_is_no_key_is_refused_and_not_repeated(key: str) -> None:
    headers = Signer([KEYS["ed25519"]]).headers(ID, NOW, BODY)
    with pytest.raises(KeyUnusable) as refusal:
        verify(headers, BODY, key, now=NOW)
    secret = key.partition("_")[2]
    assert not secret or secret not in f"{refusal.value} {refusal.value.hint}"


def test_a_key_without_padding_is_one() -> None:
    key = make_key("hmac-sha256", NOW)
    verify(Signer([key]).headers(ID, NOW, BODY), BODY, receivers(key).rstrip("="), now=NOW)


def test_a_key_does_not_show_its_secret() -> None:
    for key in KEYS.values():
        shown = repr(key) + repr(Signer([key]))
        assert key.secret.hex() not in shown
        assert b64encode(key.secret).decode() not in shown
        assert repr(key.secret) not in shown


def test_the_id_of_a_batch_is_that_of_its_events_in_their_order() -> None:
    assert batch_id(["a"]) == "a"
    assert batch_id(["a", "b"]) == batch_id(["a", "b"])
    others = [["a", "b"], ["b", "a"], ["ab"], ["a", "b", "c"], ["a1:b"], ["a", "1:b"]]
    assert len({batch_id(each) for each in others}) == len(others)
    assert batch_id(["a", "b"]).removeprefix("batch_") == hashlib.sha256(b"1:a1:b").hexdigest()
