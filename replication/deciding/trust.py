"""The trust of a node in the keys of authorities, which decides about the signatures of copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from catalog.keys.entitysignature import SignatureOfCopy, is_copy_signed
from catalog.model.authoritykey import number_of
from catalog.model.entity import Entity, Tombstone
from replication.store.trustedkeys import TrustedKey

SignedCopy = Entity | Tombstone


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

    def fault_of(self, copy: SignedCopy) -> str:
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

    def to_verify(self, copies: Iterable[SignedCopy]) -> Iterator[SignatureOfCopy]:
        """The keys, digests and signatures of copies whose signatures have to be verified."""
        for copy in copies:
            key = self.keys.get(copy.authority, {}).get(copy.signedby)
            if key and copy.signature is not None:
                yield key, copy.digest, copy.signature


def is_signed_better(held: SignedCopy, incoming: SignedCopy, *, has_precedence: bool) -> bool:
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
