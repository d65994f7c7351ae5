"""Encryption of secrets at rest: AES-256-GCM, with several keys for the rotation of keys."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION = b"\x01"
_ID_BYTES = 8
_KEY_BYTES = 32
# With random nonces of 96 bits, a key may encrypt 2**32 secrets (NIST SP 800-38D 8.3).
_NONCE_BYTES = 12
_PREFIX_BYTES = len(_VERSION) + _ID_BYTES
_HEADER_BYTES = _PREFIX_BYTES + _NONCE_BYTES
_MOST_KEYS = 16

_NO_KEY = (
    "this node does not have the key that the secret was encrypted with: store the secret again, "
    "or give the node its key back (CONCORD_ENCRYPTION_KEY)"
)
_DAMAGED = "the stored secret is damaged, or is not of this place: store it again"


class SecretUnreadable(Exception):
    """A stored secret cannot be opened.

    Args:
        reason: a sentence for users.
        cause: details for the log, with the id of the key, but without the key.
    """

    def __init__(self, reason: str, cause: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cause = cause


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """The column and row of a stored secret; the secret cannot be opened at a different place."""

    table: str
    id: str
    column: str

    def __bytes__(self) -> bytes:
        parts = [part.encode() for part in (self.table, self.id, self.column)]
        # With lengths, since two places must never have the same bytes.
        return b"".join(len(part).to_bytes(4) + part for part in parts)


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """A key of 256 bits; `id` identifies the key and reveals nothing about the secret."""

    id: str
    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> EncryptionKey:
        return cls.of(secrets.token_bytes(_KEY_BYTES))

    @classmethod
    def of(cls, secret: bytes) -> EncryptionKey:
        digest = hashlib.sha256(b"concord encryption key\n" + secret).digest()
        return cls(digest[:_ID_BYTES].hex(), secret)

    @classmethod
    def from_text(cls, text: str) -> EncryptionKey:
        """The key that is written as `text`.

        Raises:
            ValueError: the text is not a key; the error does not repeat the text.
        """
        try:
            secret = base64.b64decode(text.translate(_URL_SAFE), validate=True)
        except (binascii.Error, ValueError):
            secret = b""
        if len(secret) != _KEY_BYTES:
            raise ValueError("a key is 32 bytes in base64, as `concord encryption key` prints one")
        return cls.of(secret)

    @property
    def text(self) -> str:
        """The key in base64, which is secret."""
        return base64.urlsafe_b64encode(self.secret).decode()


_URL_SAFE = str.maketrans("-_", "+/")


def parse_keys(texts: Sequence[str]) -> tuple[EncryptionKey, ...]:
    """Read keys, of which the first key encrypts.

    Raises:
        ValueError: a text is not a key, or the number of keys is 0 or too large; the error repeats
            no text.
    """
    keys = tuple(dict.fromkeys(map(EncryptionKey.from_text, texts)))
    if not 1 <= len(keys) <= _MOST_KEYS:
        raise ValueError(f"there have to be 1 to {_MOST_KEYS} keys")
    return keys


class KeyRing:
    """The keys of a node: the first key encrypts, and every key decrypts.

    A sealed secret consists of a version, the id of the key, a nonce and the ciphertext. The
    version, the id and the place are authenticated with the ciphertext.

    Args:
        read: reads the keys. Called to seal a secret, and to open a secret with an unknown key, so
            that a running process learns of new keys.
    """

    def __init__(self, read: Callable[[], Sequence[EncryptionKey]]) -> None:
        self._read = read
        self._ciphers: dict[str, AESGCM] = {}

    def seal(self, secret: bytes, place: SecretPlace) -> bytes:
        """Encrypt a secret for one place; `store.secrets.seal` keeps the key until it is stored."""
        id = self.current_id
        cipher, nonce = self._ciphers[id], secrets.token_bytes(_NONCE_BYTES)
        header = _VERSION + bytes.fromhex(id)
        return header + nonce + cipher.encrypt(nonce, secret, header + bytes(place))

    def open(self, sealed: bytes, place: SecretPlace) -> bytes:
        """Decrypt a secret.

        Raises:
            SecretUnreadable: the key is unknown, or the sealed secret was changed or moved.
        """
        id = key_id(sealed)
        if id not in self._ciphers:
            self._learn()
        cipher = self._ciphers.get(id)
        if cipher is None:
            known = ", ".join(self._ciphers)
            raise SecretUnreadable(_NO_KEY, f"it needs the key {id}; the node has {known}")
        header, nonce = sealed[:_PREFIX_BYTES], sealed[_PREFIX_BYTES:_HEADER_BYTES]
        try:
            return cipher.decrypt(nonce, sealed[_HEADER_BYTES:], header + bytes(place))
        except InvalidTag:
            raise SecretUnreadable(_DAMAGED, f"its key is {id}") from None

    @property
    def current_id(self) -> str:
        """The id of the key that encrypts at the moment."""
        return self._learn()[0].id

    def _learn(self) -> Sequence[EncryptionKey]:
        keys = self._read()
        for key in keys:
            if key.id not in self._ciphers:
                self._ciphers[key.id] = AESGCM(key.secret)
        return keys


def key_id(sealed: bytes) -> str:
    """The id of the key that encrypted a secret.

    Raises:
        SecretUnreadable: the bytes are no sealed secret.
    """
    if len(sealed) < _HEADER_BYTES or not sealed.startswith(_VERSION):
        raise SecretUnreadable(_DAMAGED, "it has no header of a sealed secret")
    return sealed[len(_VERSION) : _PREFIX_BYTES].hex()
