"""Signs what an authority publishes, and verifies what others have signed (ed25519)."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from catalog.model.authoritykey import PublicKey, signed_copy

_SEED_BYTES = 32
# A page of the feed repeats groups and resources, and what was verified ahead is asked for later.
_MOST_REMEMBERED = 20_000

SignatureOfCopy = tuple[bytes, bytes, bytes]
"""A key, the digest of an entity or a tombstone, and what may be the key's signature of it."""

_remembered: dict[SignatureOfCopy, bool] = {}
_remembering = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitySigner:
    """Signs with one key of an authority.

    Args:
        sign: signs any bytes.
    """

    authority: str
    public: PublicKey
    sign: Callable[[bytes], bytes] = field(repr=False)

    @classmethod
    def of(cls, authority: str, number: int, seed: bytes) -> EntitySigner:
        """The signer of a key of which the secret is known."""
        private = Ed25519PrivateKey.from_private_bytes(seed)
        public = PublicKey(number, private.public_key().public_bytes_raw())
        return cls(authority=authority, public=public, sign=private.sign)

    @property
    def id(self) -> str:
        return self.public.id

    def sign_copy(self, digest: bytes) -> bytes:
        """Sign an entity or a tombstone, which its digest stands for."""
        return self.sign(signed_copy(digest))


def new_seed() -> bytes:
    """The secret of a new key."""
    return secrets.token_bytes(_SEED_BYTES)


def is_copy_signed(key: bytes, digest: bytes, signature: bytes) -> bool:
    """Whether a key has signed an entity or a tombstone with this digest.

    It takes a tenth of a millisecond, unless the answer is remembered.
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
    """Whether `is_copy_signed` has its answer already."""
    return signature in _remembered


def remember(verified: Iterable[tuple[SignatureOfCopy, bool]]) -> None:
    """Let `is_copy_signed` answer as was found elsewhere; the oldest answers are forgotten."""
    with _remembering:
        _remembered.update(verified)
        surplus = max(0, len(_remembered) - _MOST_REMEMBERED)
        for oldest in [*islice(_remembered, surplus)]:
            del _remembered[oldest]


def is_signed(key: bytes, signed: bytes, signature: bytes) -> bool:
    """Whether a key has signed these bytes."""
    try:
        _public(key).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=100)
def _public(key: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(key)
