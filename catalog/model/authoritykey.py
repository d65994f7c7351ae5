"""The keys by which authorities sign published entities, and the key history of an authority.

The name of a key is a number, which counts the keys of the authority, and the key itself: a public
key of ed25519 is as short as a fingerprint.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from catalog.model.digest import canonical
from catalog.model.timestamps import format_time, parse_time

KEY_BYTES = 32
SIGNATURE_BYTES = 64
MOST_KEYS = 100
"""The most keys that a history may have."""
_SCHEME = "ed25519"
_TEXT = re.compile(r"ed25519:([1-9][0-9]{0,8}):([A-Za-z0-9_-]{43})")
_ID = re.compile(r"[1-9][0-9]{0,8}-[0-9a-f]{16}")
# Signed bytes begin with a purpose and a form version, so that a signature for one purpose never
# verifies for a different purpose.
_COPY = b"concord copy\x00\x01"
_KEY = b"concord key\x00\x01"
_HISTORY = b"concord keys\x00\x01"


@dataclass(frozen=True, slots=True, order=True)
class PublicKey:
    """An ed25519 public key of an authority."""

    number: int
    key: bytes

    @property
    def id(self) -> str:
        """The short name by which a signed copy refers to the key."""
        return f"{self.number}-{hashlib.sha256(self.key).hexdigest()[:16]}"

    def __str__(self) -> str:
        return f"{_SCHEME}:{self.number}:{_as_text(self.key)}"

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Parse the text that `str` returns; any other text is a ValueError."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError("a key looks like ed25519:1:…, as `concord signing show` prints it")
        return cls(int(found[1]), _bytes(found[2], KEY_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """A key in the history of its authority.

    Args:
        endorsement: the signature by the preceding key; `None` for the first key.
        retiredat: the time when the key stopped signing; earlier signatures stay valid.
        revokedat: the time when every signature of the key became invalid.
    """

    public: PublicKey
    createdat: datetime
    endorsement: bytes | None = None
    retiredat: datetime | None = None
    revokedat: datetime | None = None

    def endorsed(self, authority: str) -> bytes:
        """The bytes that the preceding key signs."""
        form = {
            "authority": authority,
            "createdat": format_time(self.createdat),
            "key": str(self.public),
        }
        return _KEY + canonical(form)

    def as_json(self) -> dict[str, Any]:
        shown = {"key": str(self.public), "id": self.public.id}
        times = {"createdat": self.createdat, "retiredat": self.retiredat}
        for name, at in {**times, "revokedat": self.revokedat}.items():
            if at is not None:
                shown[name] = format_time(at)
        if self.endorsement is not None:
            shown["endorsement"] = _as_text(self.endorsement)
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHistory:
    """The keys of an authority, oldest first, signed by the last key at the time `at`."""

    authority: str
    keys: Sequence[KeyEntry]
    at: datetime
    signature: bytes = b""

    @property
    def current(self) -> PublicKey:
        """The key that signs the history and, unless retired, the entities of the authority."""
        return self.keys[-1].public

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(entry.public.id for entry in self.keys)

    @property
    def order(self) -> tuple[int, datetime]:
        """The sort key of an authority's histories; later histories are greater."""
        return self.current.number, self.at

    def signed(self) -> bytes:
        """The bytes that the last key signs."""
        form = self.as_json()
        del form["signature"]
        return _HISTORY + canonical(form)

    def as_json(self) -> dict[str, Any]:
        return {
            "authority": self.authority,
            "at": format_time(self.at),
            "keys": [entry.as_json() for entry in self.keys],
            "signature": _as_text(self.signature),
        }


def signed_copy(digest: bytes) -> bytes:
    """The bytes that an authority signs for an entity or a tombstone with a digest."""
    return _COPY + digest


def is_key_id(text: object) -> bool:
    """Whether a text may be the id of a key."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def number_of(id: str) -> int:
    """The number of the key with an id; 0 for an empty id."""
    return int(id.partition("-")[0] or 0)


def read_history(data: object) -> KeyHistory:
    """Read a history from a remote catalog, without verifying signatures.

    Raises:
        ValueError: the history is malformed.
    """
    if not isinstance(data, Mapping):
        raise ValueError("it is no history of keys")
    authority, keys = data.get("authority"), data.get("keys")
    if not isinstance(authority, str) or not 0 < len(authority) <= 1024:
        raise ValueError("it has no authority")
    if not isinstance(keys, list) or not 0 < len(keys) <= MOST_KEYS:
        raise ValueError(f"it needs to have 1 to {MOST_KEYS} keys")
    history = KeyHistory(
        authority=authority,
        keys=[_read_entry(each) for each in keys],
        at=_time(data, "at"),
        signature=_bytes(data.get("signature"), SIGNATURE_BYTES),
    )
    numbers = [entry.public.number for entry in history.keys]
    if numbers != sorted(set(numbers)):
        raise ValueError("its keys are not in order")
    return history


def _read_entry(data: object) -> KeyEntry:
    if not isinstance(data, Mapping) or not isinstance(data.get("key"), str):
        raise ValueError("it has something else than keys")
    entry = KeyEntry(public=PublicKey.parse(data["key"]), createdat=_time(data, "createdat"))
    if "endorsement" in data:
        entry = replace(entry, endorsement=_bytes(data["endorsement"], SIGNATURE_BYTES))
    if "retiredat" in data:
        entry = replace(entry, retiredat=_time(data, "retiredat"))
    if "revokedat" in data:
        entry = replace(entry, revokedat=_time(data, "revokedat"))
    return entry


def _time(data: Mapping[str, object], name: str) -> datetime:
    text = data.get(name)
    if not isinstance(text, str):
        raise ValueError(f'it has no "{name}"')
    return parse_time(text)


def _as_text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _bytes(text: object, length: int) -> bytes:
    if not isinstance(text, str):
        raise ValueError("a text was expected")
    try:
        value = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise ValueError("it is not base64") from error
    if len(value) != length:
        raise ValueError(f"{length} bytes were expected")
    return value
