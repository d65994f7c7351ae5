"""Secrets open only with their key, unchanged, and where they were stored."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from catalog.keys.keyring import (
    EncryptionKey,
    KeyRing,
    SecretPlace,
    SecretUnreadable,
    key_id,
    parse_keys,
)

KEYS = st.binary(min_size=32, max_size=32).map(EncryptionKey.of)
PLACES = st.builds(SecretPlace, st.text(), st.text(), st.text())
PLACE = SecretPlace("subscriptions", "a", "sinkcredential")


def ring(*keys: EncryptionKey) -> KeyRing:
    return KeyRing(lambda: keys)


@given(key=KEYS, secret=st.binary(), place=PLACES)
def test_what_was_sealed_opens_again(key: EncryptionKey, secret: bytes, place: SecretPlace) -> None:
    sealed = ring(key).seal(secret, place)
    assert ring(EncryptionKey.new(), key).open(sealed, place) == secret
    assert key_id(sealed) == key.id


@given(secret=st.binary(), data=st.data())
def test_any_changed_byte_is_refused(secret: bytes, data: st.DataObject) -> None:
    keys = ring(EncryptionKey.new())
    sealed = bytearray(keys.seal(secret, PLACE))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SecretUnreadable):
        keys.open(bytes(sealed), PLACE)


@given(length=st.integers(0, 60))
def test_a_shortened_secret_is_refused(length: int) -> None:
    keys = ring(EncryptionKey.new())
    sealed = keys.seal(b"a secret of some length", PLACE)
    with pytest.raises(SecretUnreadable):
        keys.open(sealed[: min(length, len(sealed) - 1)], PLACE)


@given(here=PLACES, there=PLACES)
def test_no_other_place_opens_a_secret(here: SecretPlace, there: SecretPlace) -> None:
    assume(here != there)
    keys = ring(EncryptionKey.new())
    with pytest.raises(SecretUnreadable):
        keys.open(keys.seal(b"secret", here), there)


def test_places_whose_parts_join_to_the_same_text_differ() -> None:
    keys = ring(EncryptionKey.new())
    sealed = keys.seal(b"secret", SecretPlace("ab", "c", "d"))
    with pytest.raises(SecretUnreadable):
        keys.open(sealed, SecretPlace("a", "bc", "d"))


@given(key=KEYS, other=KEYS)
def test_a_lost_key_is_named_without_being_told(key: EncryptionKey, other: EncryptionKey) -> None:
    assume(key != other)
    sealed = ring(key).seal(b"secret", PLACE)
    with pytest.raises(SecretUnreadable) as caught:
        ring(other).open(sealed, PLACE)
    assert "CONCORD_ENCRYPTION_KEY" in caught.value.reason
    assert key.id in caught.value.cause
    told = f"{caught.value!r} {caught.value.cause}"
    assert key.text not in told
    assert other.text not in told


def test_the_same_secret_is_never_sealed_the_same() -> None:
    keys = ring(EncryptionKey.new())
    assert len({keys.seal(b"secret", PLACE) for _ in range(100)}) == 100


def test_a_running_process_learns_of_new_keys() -> None:
    known = [EncryptionKey.new()]
    keys = KeyRing(lambda: known)
    old = keys.seal(b"old", PLACE)
    known.insert(0, EncryptionKey.new())
    new = keys.seal(b"new", PLACE)
    assert (key_id(old), key_id(new)) == (known[1].id, known[0].id)
    known.insert(0, EncryptionKey.new())
    elsewhere = ring(known[0]).seal(b"from another process", PLACE)
    assert keys.open(elsewhere, PLACE) == b"from another process"
    assert (keys.open(old, PLACE), keys.open(new, PLACE)) == (b"old", b"new")


@given(key=KEYS)
def test_a_key_is_written_and_read_in_either_base64(key: EncryptionKey) -> None:
    standard = key.text.replace("-", "+").replace("_", "/")
    assert parse_keys([key.text, standard]) == (key,)
    assert key.text not in repr(key)
    assert repr(key.secret) not in repr(key)


@pytest.mark.parametrize("text", ["", "s3cret", "s3cret" * 10, "\N{SNOWMAN}" * 44, "A" * 44 + "="])
def test_what_is_no_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match="32 bytes in base64") as caught:
        parse_keys([EncryptionKey.new().text, text])
    assert not text or text not in str(caught.value)


def test_keys_are_counted() -> None:
    with pytest.raises(ValueError, match="1 to 16"):
        parse_keys([])
    with pytest.raises(ValueError, match="1 to 16"):
        parse_keys([EncryptionKey.new().text for _ in range(17)])
