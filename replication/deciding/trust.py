"""The trust of a node in the keys of authorities, which decides about the signatures of copies.

A key is trusted for one of three reasons: an operator has named the key, the authority has shown
the key at the first contact, or the previous key endorses the key. The last key of an authority
signs the whole history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from catalog.keys.entitysignature import SignatureOfCopy, is_copy_signed, is_signed
from catalog.model.authoritykey import KeyEntry, KeyHistory, number_of
from replication.deciding.copychecks import Copy
from replication.store.trustedkeys import TrustedKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The trusted keys, by authority and id; an empty key was revoked.

    Copies of an authority without an entry are accepted with or without signatures.
    """

    keys: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)

    @classmethod
    def of(cls, trusted: Iterable[TrustedKey]) -> Trust:
        keys: dict[str, dict[str, bytes]] = {}
        for each in trusted:
            key = each.public.key if each.revokedat is None else b""
            keys.setdefault(each.authority, {})[each.public.id] = key
        return cls(keys=keys)

    def is_pinned(self, authority: str) -> bool:
        """Whether only signed copies of an authority are accepted."""
        return authority in self.keys

    def fault_of(self, copy: Copy) -> str:
        """The reason why the signature of a copy is not accepted; "" if valid or not required.

        The digest of the copy must have been compared with the content before.
        """
        keys = self.keys.get(copy.authority)
        if keys is None:
            return ""
        if copy.signature is None:
            return "it has no signature, and this node trusts keys of its authority only"
        key = keys.get(copy.signedby)
        if key is None:
            return f"it is signed by the key {copy.signedby}, which this node does not trust"
        if not key:
            return f"it is signed by the key {copy.signedby}, which was revoked"
        if not is_copy_signed(key, copy.digest, copy.signature):
            return f"it was not signed by the key {copy.signedby}, as it says"
        return ""

    def to_verify(self, copies: Iterable[Copy]) -> Iterator[SignatureOfCopy]:
        """The keys, digests and signatures of copies whose signatures have to be verified."""
        for copy in copies:
            key = self.keys.get(copy.authority, {}).get(copy.signedby)
            if key and copy.signature is not None:
                yield key, copy.digest, copy.signature


def is_signed_better(held: Copy, incoming: Copy, *, has_precedence: bool) -> bool:
    """Whether the signature of an incoming copy replaces the signature of the equal held copy.

    Without keys, a node cannot verify signatures. The signature from the authority itself or by the
    later key wins, so that copies end with the same signature on every route. In a repair, the
    source wins.
    """
    if incoming.signature is None or incoming.signature == held.signature:
        return False
    if held.signature is None or has_precedence:
        return True
    order = number_of(incoming.signedby), incoming.signedby
    return order > (number_of(held.signedby), held.signedby)


def keys_of(entries: Iterable[KeyEntry]) -> dict[str, bytes]:
    """Keys by their ids; an empty key stands for a revoked key."""
    return {each.public.id: b"" if each.revokedat else each.public.key for each in entries}


def is_consistent(history: KeyHistory) -> bool:
    """Whether a history is signed by the last key, and the last key is not revoked."""
    last = history.keys[-1]
    return last.revokedat is None and is_signed(
        last.public.key, history.signed(), history.signature
    )


def is_endorsed(history: KeyHistory, keys: Mapping[str, bytes]) -> bool:
    """Whether a node that trusts some keys trusts, and revokes, the keys of a history as it says.

    Args:
        keys: the keys that the node knows, by id; a revoked key is empty.
    """
    return is_consistent(history) and history.current.id in _reached(history, keys)


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
