"""Signatures of entities: only what was signed is taken, and keys stand for the keys after them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.keys.entitysignature import EntitySigner, is_copy_signed
from catalog.model.authoritykey import KeyEntry, KeyHistory, PublicKey, read_history
from catalog.model.entity import Entity, Tombstone
from catalog.operations.feed import Verdict
from replication.deciding.copychecks import Copy
from replication.deciding.decide import LocalState, decide
from replication.deciding.provenance import Policy
from replication.deciding.trust import Trust, is_endorsed, is_signed_better
from replication.feed.feedlines import read_line, write_copy

AUTHORITY = "urn:source"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
ONE, TWO, THREE, OTHER = (
    EntitySigner.of(AUTHORITY, number, seed * 32)
    for number, seed in ((1, b"1"), (2, b"2"), (3, b"3"), (2, b"x"))
)


def group(*, epoch: int = 1, text: str = "as it is") -> Entity:
    return Entity(
        xid="/messagegroups/g",
        kind="group",
        authority=AUTHORITY,
        origin="/messagegroups/g",
        epoch=epoch,
        attributes={"description": text},
        createdat=NOW,
        modifiedat=NOW,
    ).sealed()


def end(epoch: int = 2) -> Tombstone:
    return Tombstone(
        xid="/messagegroups/g",
        kind="group",
        authority=AUTHORITY,
        origin="/messagegroups/g",
        epoch=epoch,
        deletedat=NOW,
    )


def signed(copy: Copy, signer: EntitySigner = ONE) -> Copy:
    return signer.signed(copy)


def policy_with(*signers: EntitySigner, revoked: tuple[EntitySigner, ...] = ()) -> Policy:
    keys = {each.id: each.public.key for each in signers} | {each.id: b"" for each in revoked}
    return Policy(own="urn:own", sender="urn:hub", trust=Trust(keys={AUTHORITY: keys}))


@given(st.binary(min_size=32, max_size=32), st.integers(0, 8 * 96 - 1))
def test_a_signature_is_of_one_digest_and_of_every_bit_of_it(digest: bytes, bit: int) -> None:
    signature = ONE.sign_copy(digest)
    assert is_copy_signed(ONE.public.key, digest, signature)
    assert not is_copy_signed(TWO.public.key, digest, signature)
    changed = bytearray(digest + signature)
    changed[bit // 8] ^= 1 << bit % 8
    assert not is_copy_signed(ONE.public.key, bytes(changed[:32]), bytes(changed[32:]))


@pytest.mark.parametrize("copy", [group(), end()], ids=["entity", "tombstone"])
def test_a_copy_carries_its_signature_in_its_line(copy: Copy) -> None:
    assert read_line(write_copy(signed(copy))) == signed(copy)
    assert read_line(write_copy(copy)) == copy


@pytest.mark.parametrize(
    "spoilt",
    [(b'"signedby":"1-', b'"signedby":"x-'), (b'"signature":"', b'"signature":"!'), (b"=", b"")],
)
def test_what_cannot_be_a_signature_is_none(spoilt: tuple[bytes, bytes]) -> None:
    assert read_line(write_copy(signed(group())).replace(*spoilt)) == group()


HELD = signed(group(epoch=5))
VERDICTS: list[tuple[str, Copy | None, Copy, Verdict]] = [
    ("a signed arrival", None, signed(group()), Verdict.APPLY),
    ("an unsigned arrival", None, group(), Verdict.UNSIGNED),
    ("a signed update", HELD, signed(group(epoch=6)), Verdict.APPLY),
    ("an unsigned update", HELD, group(epoch=6), Verdict.UNSIGNED),
    ("of another key", HELD, signed(group(epoch=6), OTHER), Verdict.FORGED),
    (
        "another one's signature",
        HELD,
        replace(group(epoch=6), signature=HELD.signature, signedby=HELD.signedby),
        Verdict.FORGED,
    ),
    ("of a revoked key", HELD, signed(group(epoch=6), THREE), Verdict.FORGED),
    ("an older copy again", HELD, signed(group(epoch=4)), Verdict.STALE),
    ("the same without a signature", HELD, group(epoch=5), Verdict.CURRENT),
    ("the same, of another key", HELD, signed(group(epoch=5), OTHER), Verdict.CURRENT),
    ("the same, signed at last", group(epoch=5), HELD, Verdict.SIGNED),
    ("the same, still unsigned", group(epoch=5), group(epoch=5), Verdict.UNSIGNED),
    ("the same, of a later key", HELD, signed(group(epoch=5), TWO), Verdict.SIGNED),
    ("the same, of a revoked key", signed(group(), THREE), signed(group()), Verdict.SIGNED),
    ("a signed deletion", HELD, signed(end(6)), Verdict.APPLY),
    ("an unsigned deletion", HELD, end(6), Verdict.UNSIGNED),
    ("a forged deletion", HELD, signed(end(6), OTHER), Verdict.FORGED),
    ("the same deletion, signed", end(6), signed(end(6)), Verdict.SIGNED),
]


@pytest.mark.parametrize(("held", "incoming", "verdict"), [case[1:] for case in VERDICTS],
                         ids=[case[0] for case in VERDICTS])  # fmt: skip
def test_a_node_that_trusts_keys_takes_what_they_have_signed(
    held: Copy | None, incoming: Copy, verdict: Verdict
) -> None:
    policy = policy_with(ONE, TWO, revoked=(THREE,))
    assert decide(LocalState(held=held), incoming, policy) is verdict


def test_a_node_without_keys_takes_everything_as_before() -> None:
    policy = Policy(own="urn:own", sender="urn:hub")
    false = replace(group(), signature=bytes(64), signedby="9-0123456789abcdef")
    for incoming in (group(), signed(group()), false):
        assert decide(LocalState(), incoming, policy) is Verdict.APPLY
    assert decide(LocalState(held=group()), signed(group()), policy) is Verdict.SIGNED
    assert decide(LocalState(held=signed(group())), group(), policy) is Verdict.CURRENT


def test_all_nodes_end_with_the_same_signature_whatever_comes_first() -> None:
    copies = [group(), signed(group()), signed(group(), TWO), signed(group(), OTHER)]
    ends = set()
    for order in permutations(copies):
        held = order[0]
        for incoming in order[1:]:
            if is_signed_better(held, incoming, has_precedence=False):
                held = incoming
        ends.add((held.signature, held.signedby))
    assert len(ends) == 1


def history(*signers: EntitySigner, revoked: tuple[EntitySigner, ...] = ()) -> KeyHistory:
    """The history of keys, each of which the one before stands for."""
    keys: list[KeyEntry] = []
    for before, signer in zip((None, *signers), signers, strict=False):
        entry = KeyEntry(public=signer.public, createdat=NOW)
        if signer in revoked:
            entry = replace(entry, retiredat=NOW, revokedat=NOW)
        if before is not None:
            entry = replace(entry, endorsement=before.sign(entry.endorsed(AUTHORITY)))
        keys.append(entry)
    made = KeyHistory(authority=AUTHORITY, keys=keys, at=NOW)
    return replace(made, signature=signers[-1].sign(made.signed()))


def ids_trusted_by(told: KeyHistory, *keys: EntitySigner) -> set[str] | None:
    if not is_endorsed(told, {each.id: each.public.key for each in keys}):
        return None
    return {entry.public.id for entry in told.keys if entry.revokedat is None}


def test_a_trusted_key_stands_for_those_after_it_and_the_last_one_for_all() -> None:
    told = history(ONE, TWO, THREE)
    everything = {ONE.id, TWO.id, THREE.id}
    for trusted in (ONE, TWO, THREE):
        assert ids_trusted_by(told, trusted) == everything
    assert ids_trusted_by(told, OTHER) is None
    assert ids_trusted_by(told) is None


def test_a_key_that_was_revoked_stands_for_nothing() -> None:
    told = history(ONE, TWO, revoked=(ONE,))
    assert ids_trusted_by(told, ONE) == {TWO.id}
    forged = history(ONE, OTHER)
    assert not is_endorsed(forged, {ONE.id: b"", TWO.id: TWO.public.key})


def _without_endorsement(told: dict[str, Any]) -> None:
    del told["keys"][1]["endorsement"]


def _with_another_key(told: dict[str, Any]) -> None:
    told["keys"][1]["key"] = str(OTHER.public)


def _with_a_revocation(told: dict[str, Any]) -> None:
    told["keys"][0]["revokedat"] = told["at"]


def _of_another_authority(told: dict[str, Any]) -> None:
    told["authority"] = "urn:other"


@pytest.mark.parametrize(
    "change", [_without_endorsement, _with_another_key, _with_a_revocation, _of_another_authority]
)
def test_a_history_that_somebody_else_changed_counts_for_nothing(change: Any) -> None:
    told = history(ONE, TWO, THREE).as_json()
    assert ids_trusted_by(read_history(told), ONE) is not None
    change(told)
    assert ids_trusted_by(read_history(told), ONE, THREE) is None


@pytest.mark.parametrize(
    "malformed",
    [
        None,
        {},
        {"authority": AUTHORITY, "keys": []},
        history(ONE).as_json() | {"signature": "AA"},
        history(ONE).as_json() | {"keys": history(ONE).as_json()["keys"] * 2},
        history(ONE).as_json() | {"keys": [{"key": "ed25519:1:x", "createdat": "now"}]},
    ],
)
def test_a_malformed_history_is_none(malformed: Any) -> None:
    with pytest.raises(ValueError, match=r"it|looks like|expected|in order"):
        read_history(malformed)


def test_a_key_is_written_as_it_is_read() -> None:
    assert PublicKey.parse(str(TWO.public)) == TWO.public
    with pytest.raises(ValueError, match="signing show"):
        PublicKey.parse("ed25519:0:" + "A" * 43)
