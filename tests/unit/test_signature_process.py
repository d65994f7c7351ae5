"""Signatures that a process beside the node verifies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from catalog.keys.entitysignature import (
    EntitySigner,
    SignatureOfCopy,
    is_copy_signed,
    is_remembered,
    new_seed,
)
from catalog.model.entity import Tombstone
from replication.deciding.trust import Trust
from replication.signing.copyverification import verify_all
from replication.signing.signatureprocess import MOST_AT_ONCE, SignatureProcess

SIGNER = EntitySigner.of("urn:source", 1, new_seed())


def signatures(count: int) -> list[SignatureOfCopy]:
    """As many signatures, of which every third is of something else."""
    digests = [number.to_bytes(32, "big") for number in range(count)]
    signed = [bytes(32) if number % 3 == 2 else digest for number, digest in enumerate(digests)]
    return [
        (SIGNER.public.key, digest, SIGNER.sign_copy(what))
        for digest, what in zip(digests, signed, strict=True)
    ]


@pytest.fixture
def process() -> Iterator[SignatureProcess]:
    process = SignatureProcess()
    yield process
    process.end()


def test_each_signature_gets_its_own_answer(process: SignatureProcess) -> None:
    for count in (1, 5, MOST_AT_ONCE):
        wanted = [number % 3 != 2 for number in range(count)]
        assert process.verify(signatures(count)) == wanted


def test_a_process_that_was_killed_is_told_and_replaced(process: SignatureProcess) -> None:
    assert process.verify(signatures(1)) == [True]
    assert process.id is not None
    os.kill(process.id, signal.SIGKILL)
    with pytest.raises(OSError, match=r"does not answer|Broken pipe"):
        process.verify(signatures(MOST_AT_ONCE))
    assert process.id is None
    assert process.verify(signatures(3)) == [True, True, False]


async def test_a_signature_of_another_length_shifts_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = signatures(64)
    long = (good[0][0], good[0][1], good[0][2] + b"\0")
    trust = Trust()
    monkeypatch.setattr(Trust, "to_verify", lambda *_: iter([long, *good]))
    await verify_all(trust, [])
    found = [is_copy_signed(*each) for each in good]
    assert found == [number % 3 != 2 for number in range(64)]
    assert not is_copy_signed(*long)


async def test_copies_are_verified_by_the_node_where_the_process_cannot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> list[bool]:
        raise OSError("no process")

    monkeypatch.setattr(SignatureProcess, "verify", fail)
    at = datetime(2030, 1, 1, tzinfo=UTC)
    ends = [
        Tombstone(
            xid=f"/messagegroups/g{epoch}",
            kind="group",
            authority=SIGNER.authority,
            origin=f"/messagegroups/g{epoch}",
            epoch=epoch,
            deletedat=at,
            signedby=SIGNER.id,
        )
        for epoch in range(1, 101)
    ]
    signed = [replace(end, signature=SIGNER.sign_copy(end.digest)) for end in ends]
    trust = Trust(keys={SIGNER.authority: {SIGNER.id: SIGNER.public.key}})
    await verify_all(trust, signed)
    assert all(is_remembered(each) for each in trust.to_verify(signed))
    assert not any(trust.fault_of(copy) for copy in signed)
