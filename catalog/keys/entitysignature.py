"""Signs the entities of an authority, and verifies the signatures of entities (ed25519)."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from catalog.model.authoritykey import PublicKey, signed_copy
from catalog.model.entity import Entity, Tombstone

Copy = TypeVar("Copy", bound=Entity | Tombstone)

_SEED_BYTES = 32
# Answers are remembered because a page of the feed repeats groups and resources, and because
# batches are verified ahead of their use.
_MOST_REMEMBERED = 20_000

SignatureOfCopy = tuple[bytes, bytes, bytes]
"""A key, the digest of an entity or a tombstone, and a signature that is not verified yet."""

_remembered: dict[SignatureOfCopy, bool] = {}
_remembering = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitySigner:
    """Signs with one key of an authority.

    Args:
        sign: signs bytes with the secret of the key.
    """

    authority: str
    public: PublicKey
    sign: Callable[[bytes], bytes] = field(repr=False)

    @classmethod
    def of(cls, authority: str, number: int, seed: bytes) -> EntitySigner:
        """The signer with the key of a known secret."""
        private = Ed25519PrivateKey.from_private_bytes(seed)
        public = PublicKey(number, private.public_key().public_bytes_raw())
        return cls(authority=authority, public=public, sign=private.sign)

    @property
    def id(self) -> str:
        return self.public.id

    def sign_copy(self, digest: bytes) -> bytes:
        """Sign an entity or a tombstone by its digest."""
        return self.sign(signed_copy(digest))

    def signed(self, copy: Copy) -> Copy:
        """The copy with a signature of this key."""
        return replace(copy, signature=self.sign_copy(copy.digest), signedby=self.id)


def new_seed() -> bytes:
    """The secret of a new key."""
    return secrets.token_bytes(_SEED_BYTES)


def is_copy_signed(key: bytes, digest: bytes, signature: bytes) -> bool:
    """Whether a key has signed the entity or the tombstone with a digest.

    Takes a tenth of a millisecond, unless the answer is remembered.
    """
    found = _remembered.get((key, digest, signature))
    if found is None:
        found = verify_copy(key, digest, signature)
        remember([((key, digest, signature), found)])
    return found


def verify_copy(key: bytes, digest: bytes, signature: bytes) -> bool:
    """Verify as `is_copy_signed` does, without remembering the answer."""
    return is_signed(key, signed_copy(digest), signature)


def is_remembered(signature: SignatureOfCopy) -> bool:
    """Whether `is_copy_signed` has remembered the answer for a signature."""
    return signature in _remembered


def remember(verified: Iterable[tuple[SignatureOfCopy, bool]]) -> None:
    """Let `is_copy_signed` use answers verified elsewhere; the oldest answers are forgotten."""
    # Answers also come from threads that verify ahead, so the update and the trim need a lock.
    with _remembering:
        _remembered.update(verified)
        surplus = max(0, len(_remembered) - _MOST_REMEMBERED)
        for oldest in [*islice(_remembered, surplus)]:
            del _remembered[oldest]


def is_signed(key: bytes, signed: bytes, signature: bytes) -> bool:
    """Whether a key has signed the given bytes."""
    try:
        _public(key).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=100)
def _public(key: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(key)
