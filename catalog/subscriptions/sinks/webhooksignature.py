"""Signs deliveries, and makes the keys for signatures (Standard Webhooks 1.0)."""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks import Webhook

from catalog.model.sinkterms import SignatureScheme, SigningKey

# Both schemes take 32 bytes: as a secret for HMAC, and as the seed of a private key.
_SECRET_BYTES = 32
_KEY_ID_BYTES = 6


class Signer:
    """Signs with every valid key of a subscription, the current key first."""

    def __init__(self, keys: Sequence[SigningKey]) -> None:
        current_first = sorted(keys, key=lambda key: key.createdat, reverse=True)
        self._signing = [(key, _signing(key)) for key in current_first]

    def headers(self, id: str, at: datetime, body: bytes) -> Mapping[str, str]:
        """The headers that sign a request; no headers without a valid key.

        Args:
            id: the event's id, or `batch_id` of several events; the same in each attempt.
            at: the time of the attempt.
            body: the content before any content coding: a receiver's framework decodes the content
                first, and verifiers take text.

        Raises:
            UnicodeDecodeError: the body is not UTF-8, as events in JSON always are.
        """
        valid = [sign for key, sign in self._signing if key.is_valid(at)]
        if not valid:
            return {}
        time = str(int(at.timestamp()))
        signatures = (sign(id, at, body) for sign in valid)
        return {
            "webhook-id": id,
            "webhook-timestamp": time,
            "webhook-signature": " ".join(signatures),
        }


def batch_id(ids: Sequence[str]) -> str:
    """The `webhook-id` of a batch, from the ids of its events: the same in each attempt."""
    if len(ids) == 1:
        return ids[0]
    # The lengths keep lists of ids apart whose texts would be the same when joined.
    text = "".join(f"{len(id)}:{id}" for id in ids)
    return f"batch_{hashlib.sha256(text.encode()).hexdigest()}"


def make_key(scheme: SignatureScheme, now: datetime) -> SigningKey:
    """A new key of random bytes."""
    return SigningKey(
        id=secrets.token_hex(_KEY_ID_BYTES),
        scheme=scheme,
        secret=secrets.token_bytes(_SECRET_BYTES),
        createdat=now,
    )


def shared_secret(key: SigningKey) -> str | None:
    """The key by which a receiver verifies HMAC, `whsec_…`; `None` for other schemes."""
    return f"whsec_{b64encode(key.secret).decode()}" if key.scheme == "hmac-sha256" else None


def public_key(key: SigningKey) -> str | None:
    """The key by which a receiver verifies ed25519, `whpk_…`; `None` for other schemes."""
    if key.scheme != "ed25519":
        return None
    public = Ed25519PrivateKey.from_private_bytes(key.secret).public_key()
    return f"whpk_{b64encode(public.public_bytes_raw()).decode()}"


def _signing(key: SigningKey) -> Callable[[str, datetime, bytes], str]:
    if key.scheme == "hmac-sha256":
        webhook = Webhook(key.secret)
        return lambda id, at, body: webhook.sign(id, at, body.decode())
    private = Ed25519PrivateKey.from_private_bytes(key.secret)

    def sign(id: str, at: datetime, body: bytes) -> str:
        signature = private.sign(f"{id}.{int(at.timestamp())}.".encode() + body)
        return f"v1a,{b64encode(signature).decode()}"

    return sign
