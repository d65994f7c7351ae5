"""Signs what an authority publishes, and verifies what others have signed (ed25519)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from catalog.model.authoritykey import PublicKey, signed_copy

_SEED_BYTES = 32
# A page of the feed repeats groups and resources, and what was verified ahead is asked for later.
_MOST_REMEMBERED = 20_000


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


@lru_cache(maxsize=_MOST_REMEMBERED)
def is_copy_signed(key: bytes, digest: bytes, signature: bytes) -> bool:
    """Whether a key has signed an entity or a tombstone with this digest.

    It takes a tenth of a millisecond, without holding the interpreter; the last answers are
    remembered.
    """
    return is_signed(key, signed_copy(digest), signature)


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
