"""Keys that sign deliveries (Standard Webhooks 1.0)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

SignatureScheme = Literal["hmac-sha256", "ed25519"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key of one subscription.

    Args:
        id: names it within its subscription.
        scheme: the kind of its signatures.
        secret: for HMAC what both sides share, for ed25519 the seed of the private key.
        createdat: when it was made.
        endsat: when the node stops to sign with it; `None` for the current key.
    """

    id: str
    scheme: SignatureScheme
    secret: bytes = field(repr=False)
    createdat: datetime
    endsat: datetime | None = None

    def is_valid(self, at: datetime) -> bool:
        """Whether the node signs with it at some time."""
        return self.endsat is None or at < self.endsat
