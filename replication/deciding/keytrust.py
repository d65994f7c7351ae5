"""Decides which keys of an authority a node may trust, given the keys trusted already.

A key is trusted for one of three reasons: an operator has named the key, the authority has shown
the key at the first contact, or the previous key endorses the key. The last key of an authority
signs the whole history.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from catalog.keys.entitysignature import is_signed
from catalog.model.authoritykey import KeyEntry, KeyHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChanges:
    """The keys of a history that may be trusted, and the revoked keys."""

    trusted: Collection[KeyEntry]
    revoked: Collection[KeyEntry]


def is_consistent(history: KeyHistory) -> bool:
    """Whether a history is signed by the last key, and the last key is not revoked."""
    last = history.keys[-1]
    return last.revokedat is None and is_signed(
        last.public.key, history.signed(), history.signature
    )


def key_changes(history: KeyHistory, keys: Mapping[str, bytes]) -> KeyChanges | None:
    """The keys that a node trusts or revokes by a history; `None` if the history is not trusted.

    Args:
        keys: the keys that the node knows, by id; a revoked key is empty.
    """
    if not is_consistent(history):
        return None
    if history.current.id not in _reached(history, keys):
        return None
    return KeyChanges(
        trusted=[entry for entry in history.keys if entry.revokedat is None],
        revoked=[entry for entry in history.keys if entry.revokedat is not None],
    )


def _reached(history: KeyHistory, keys: Mapping[str, bytes]) -> set[str]:
    """The ids of trusted keys, and of keys endorsed by a trusted key, directly or indirectly."""
    reached: set[str] = set()
    before: KeyEntry | None = None
    for entry in history.keys:
        public = entry.public
        # A revoked key is known, so an endorsement cannot make the key trusted again.
        if keys.get(public.id) == public.key or (
            public.id not in keys
            and before is not None
            and before.public.id in reached
            and entry.endorsement is not None
            and is_signed(before.public.key, entry.endorsed(history.authority), entry.endorsement)
        ):
            reached.add(public.id)
        before = entry
    return reached
