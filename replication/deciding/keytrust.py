"""Decides which keys of an authority a node may trust, by those that it trusts already.

A key is trusted for a reason: an operator has named it, its authority has shown it at the first
contact, or the key before it stands for it. The last key of an authority speaks about all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from catalog.keys.entitysignature import is_signed
from catalog.model.authoritykey import KeyEntry, KeyHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChanges:
    """The keys of a history that may be trusted, and those that were revoked."""

    trusted: Collection[KeyEntry]
    revoked: Collection[KeyEntry]


def is_consistent(history: KeyHistory) -> bool:
    """Whether a history is signed by its last key, which it does not call revoked."""
    last = history.keys[-1]
    return last.revokedat is None and is_signed(
        last.public.key, history.signed(), history.signature
    )


def key_changes(history: KeyHistory, keys: Mapping[str, bytes]) -> KeyChanges | None:
    """The keys that a node trusts or revokes by a history; `None` if it trusts none of its keys.

    Args:
        keys: by id, with empty ones in place of those that were revoked.
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
    """The keys that are trusted, or that a trusted key stands for, directly or by others."""
    reached: set[str] = set()
    before: KeyEntry | None = None
    for entry in history.keys:
        public = entry.public
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
