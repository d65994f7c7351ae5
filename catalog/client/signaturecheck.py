"""Verifies signatures of deliveries on the receiving side (Standard Webhooks 1.0).

VerificationError
├── SignatureInvalid   the request must not be trusted
└── KeyUnusable        the text is not a key, or needs a library that is not installed
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

TOLERANCE = timedelta(minutes=5)
"""The largest age of a valid request, as in the libraries of the standard."""

_TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
_LONGEST_HEADER = 8192
_SECRET_BYTES = range(24, 65)
_PUBLIC_BYTES = 32
_MOST_KEYS = 8
_HMAC, _ED25519 = "v1", "v1a"
_NAMES = ("webhook-id", "webhook-timestamp", "webhook-signature")


class VerificationError(Exception):
    """A request could not be verified; `hint` names a possible cause."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class SignatureInvalid(VerificationError):
    """The sender of a request does not have the key, or the request was changed or is too old."""


class KeyUnusable(VerificationError):
    """The text is not a usable key of Standard Webhooks; the error does not repeat the text."""


def verify(
    headers: Mapping[str, str],
    body: bytes,
    key: str,
    *,
    tolerance: timedelta = TOLERANCE,
    now: datetime | None = None,
) -> None:
    """Return if a key signed the request; the `webhook-id` of the sender is then safe to use.

    Args:
        headers: the headers of the request; the case of names makes no difference.
        body: the body of the request, byte for byte, after decoding the content coding (gzip).
        key: `whsec_…` (HMAC-SHA256) or `whpk_…` (ed25519); during a rotation several keys,
            separated by spaces, of which one has to fit.
        tolerance: the largest difference between the time of the request and `now`.
        now: the time of the check; by default the current time.

    Raises:
        SignatureInvalid: the request was not verified; the message says why.
        KeyUnusable: `key` is not a key, or needs a library that is not installed.
    """
    keys = _keys(key)
    id, timestamp, signatures = _signing_headers(headers)
    if not _TIMESTAMP.fullmatch(timestamp):
        raise SignatureInvalid("The header webhook-timestamp is not a number of seconds.")
    age = (now or datetime.now(UTC)).timestamp() - int(timestamp)
    seconds = tolerance.total_seconds()
    # Servers such as aiohttp decode header bytes that are not UTF-8 to surrogates.
    content = f"{id}.{timestamp}.".encode("utf-8", "surrogateescape") + body
    given = [_decoded(each) for each in signatures.split(" ")]
    # The time is checked last: an unsigned request is a worse finding than a late request.
    if not any(_fits(scheme, secret, content, given) for scheme, secret in keys):
        raise SignatureInvalid(
            "No signature fits the key, the id, the time and the body.",
            _why_none_fits([scheme for scheme, _ in keys], [version for version, _ in given]),
        )
    if abs(age) > seconds:
        when = f"{abs(age):.0f} seconds {'old' if age > 0 else 'in the future'}"
        raise SignatureInvalid(
            f"The signature fits, but the request is {when}; {seconds:.0f} are tolerated.",
            "It may be a copy that somebody sends again, or a clock is wrong.",
        )


def _signing_headers(headers: Mapping[str, str]) -> tuple[str, str, str]:
    found = {name: value for name, value in headers.items() if name.lower() in _NAMES}
    values = {name.lower(): value for name, value in found.items()}
    if len(values) < len(found):
        raise SignatureInvalid("A header of the signature is there twice.")
    missing = [name for name in _NAMES if not values.get(name)]
    if missing:
        raise SignatureInvalid(
            f"The request is not signed: it has no header {' and no header '.join(missing)}.",
        )
    if any(len(value) > _LONGEST_HEADER for value in values.values()):
        raise SignatureInvalid("A header of the signature is too long.")
    id, timestamp, signatures = (values[name] for name in _NAMES)
    return id, timestamp, signatures


def _keys(text: str) -> list[tuple[str, bytes]]:
    words = text.split()
    if not 1 <= len(words) <= _MOST_KEYS:
        raise KeyUnusable(f"There is no key, or more than {_MOST_KEYS} of them.", _KEY_HINT)
    return [_key(word) for word in words]


_KEY_HINT = (
    "A key begins with whsec_ (HMAC-SHA256, as the answer that made it shows it once) "
    "or with whpk_ (ed25519, as the subscription shows it)."
)


def _key(text: str) -> tuple[str, bytes]:
    if text.startswith("whsk_"):
        raise KeyUnusable("This is a private key (whsk_), which only the sender has.", _KEY_HINT)
    prefix, mark, encoded = text.partition("_")
    unpadded = encoded.rstrip("=")
    try:
        # Senders may omit the padding.
        secret = b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True)
    except ValueError:
        raise KeyUnusable("The key is not Base64 after its prefix.", _KEY_HINT) from None
    if (prefix, mark) == ("whsec", "_") and len(secret) in _SECRET_BYTES:
        return _HMAC, secret
    if (prefix, mark) == ("whpk", "_") and len(secret) == _PUBLIC_BYTES:
        return _ED25519, secret
    raise KeyUnusable("This is not a key of Standard Webhooks, or not a whole one.", _KEY_HINT)


def _decoded(signature: str) -> tuple[str, bytes]:
    version, _, encoded = signature.partition(",")
    try:
        return version, b64decode(encoded, validate=True)
    except ValueError:
        return version, b""


def _fits(scheme: str, key: bytes, content: bytes, given: Sequence[tuple[str, bytes]]) -> bool:
    candidates = [signature for version, signature in given if version == scheme]
    if scheme == _HMAC:
        expected = hmac.new(key, content, hashlib.sha256).digest()
        return any(hmac.compare_digest(expected, each) for each in candidates)
    return any(_is_signed(key, content, each) for each in candidates)


def _is_signed(key: bytes, content: bytes, signature: bytes) -> bool:
    # Programs that verify no ed25519 signatures need not load or install the library.
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ModuleNotFoundError as error:
        raise KeyUnusable(
            "A key that begins with whpk_ (ed25519) needs the library cryptography.",
            "Install the library with: pip install 'concord-client[signatures]'",
        ) from error

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


def _why_none_fits(wanted: Sequence[str], given: Sequence[str]) -> str:
    if not set(wanted) & set(given):
        names = {_HMAC: "HMAC-SHA256 (v1)", _ED25519: "ed25519 (v1a)"}
        kinds = " and ".join(names[each] for each in dict.fromkeys(wanted))
        return f"The request has no signature of the key's kind, {kinds}."
    return (
        "Another key signed it, or something was changed on the way; the body has to be what "
        "came, byte for byte, not JSON that was written anew."
    )
