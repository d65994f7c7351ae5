"""Keys that sign deliveries (Standard Webhooks 1.0)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

SignatureScheme = Literal["hmac-sha256", "ed25519"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key of a subscription.

    Args:
        id: the name of the key within the subscription.
        scheme: the kind of signatures.
        secret: the shared secret for HMAC, or the seed of the private key for ed25519.
        createdat: the time when the key was made.
        endsat: the time when the node stops signing with the key; `None` for the current key.
    """

    id: str
    scheme: SignatureScheme
    secret: bytes = field(repr=False)
    createdat: datetime
    endsat: datetime | None = None

    def is_valid(self, at: datetime) -> bool:
        """Whether the node signs with the key at a given time."""
        return self.endsat is None or at < self.endsat
