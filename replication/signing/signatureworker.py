"""Verifies signatures in a separate process, which ends with its standard input.

A request is a count of four bytes, then for each signature the key, the digest and the signature;
the answer has one byte for each. Run as `python -m replication.signing.signatureworker`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import BinaryIO

from catalog.keys.entitysignature import verify_copy
from catalog.model.authoritykey import SIGNATURE_BYTES

COUNT_BYTES = 4
KEY_BYTES = DIGEST_BYTES = 32
RECORD_BYTES = KEY_BYTES + DIGEST_BYTES + SIGNATURE_BYTES


def fits(signature: tuple[bytes, bytes, bytes]) -> bool:
    """Whether a key, a digest and a signature have the lengths of a record."""
    return tuple(map(len, signature)) == (KEY_BYTES, DIGEST_BYTES, SIGNATURE_BYTES)


def request_of(wanted: Sequence[tuple[bytes, bytes, bytes]]) -> bytes:
    """The request for signatures of fitting lengths, with their keys and digests."""
    return len(wanted).to_bytes(COUNT_BYTES, "big") + b"".join(map(b"".join, wanted))


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input ends."""
    while count := int.from_bytes(requests.read(COUNT_BYTES), "big"):
        records = requests.read(count * RECORD_BYTES)
        starts = range(0, len(records), RECORD_BYTES)
        answers.write(bytes(_is_signed(records[at : at + RECORD_BYTES]) for at in starts))
        answers.flush()


def _is_signed(record: bytes) -> bool:
    key, rest = record[:KEY_BYTES], record[KEY_BYTES:]
    return verify_copy(key, rest[:DIGEST_BYTES], rest[DIGEST_BYTES:])


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
