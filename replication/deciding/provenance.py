"""Decides whether the sender of a copy may speak for the copy's authority.

Every copy passes `may_bring` on its way in. `replication/deciding/trust.py` says what an
authority has signed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.xid import group_path
from replication.deciding.selection import is_selected
from replication.deciding.trust import Trust
from replication.store.handovers import Reservation

Copy = Entity | Tombstone

MOST_LEAP = 2**52 + 2**32
"""The most by which an epoch may be above the one here; nothing here counts as 0.

An import may begin at 2**52, since some catalogs count by the time; 2**32 writes may follow it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFilter:
    """The copies that are admitted.

    Args:
        authorities: those whose entities are admitted; `None` admits all.
        scope: origins that are admitted with all below and above them; an empty one admits all.
        types: types whose entities are admitted with all below and above them, in the same way.
        labels: for comparisons; a copy alone does not say whether they select it.
    """

    authorities: frozenset[str] | None = None
    scope: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def admits(self, copy: Copy | Origin) -> bool:
        by_authority = self.authorities is None or copy.authority in self.authorities
        path = copy.xid if isinstance(copy, Origin) else copy.origin
        return by_authority and is_selected(path, self.scope, self.types)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(CopyFilter):
    """The copies that a node admits, and those that win over the ones that it holds.

    Args:
        own: the authority of this node.
        sender: the authority that the sending catalog is pinned to; at equal epochs, its copies
            of its own entities win.
        direct: the copies that come from their authorities themselves, by links of this node:
            no relay may bring them.
        overruled: the digests of copies here that the sender's word about its own entities
            replaces whatever their epochs; the empty digest is that of damaged ones.
        is_trusted: at equal epochs, all copies of the sender win (a repair).
        is_recovering: this node takes its own entities back from its peers.
        trust: the keys by which authorities sign what is taken of them.
        reserved: the groups that are to come by handovers. No other ones come to their paths, and
            nothing of a promised one is deleted before.
    """

    own: str
    sender: str = ""
    direct: tuple[CopyFilter, ...] = ()
    overruled: frozenset[bytes] = frozenset()
    is_trusted: bool = False
    is_recovering: bool = False
    trust: Trust = field(default_factory=Trust)
    reserved: tuple[Reservation, ...] = ()

    def reservation_of(self, xid: str) -> Reservation | None:
        """The reservation of the group at or above a path here."""
        if not self.reserved:
            return None
        group = group_path(xid).lower()
        return next((each for each in self.reserved if each.xid.lower() == group), None)

    def keeps_out(self, incoming: Copy) -> bool:
        """Whether the path of a copy is reserved for a group of another origin."""
        kept = self.reservation_of(incoming.xid)
        if kept is None or self.is_recovering:
            return False
        group = group_path(incoming.origin)
        return (incoming.authority, group) != (kept.authority, kept.xid)

    def awaits(self, end: Tombstone) -> bool:
        """Whether a tombstone is of a group that is promised to this node."""
        kept = self.reservation_of(end.origin)
        return kept is not None and kept.is_promised and kept.authority == end.authority

    def is_own(self, authority: str) -> bool:
        """Whether this node is the authority, and takes no copies of its own entities."""
        return authority == self.own and not self.is_recovering

    def is_own_word(self, copy: Copy | Origin) -> bool:
        """Whether the sender is the authority of the copy."""
        return copy.authority == self.sender

    def has_precedence(self, copy: Copy) -> bool:
        """Whether the copy wins at equal epochs."""
        return self.is_trusted or self.is_own_word(copy)

    def overrules(self, held: Copy, incoming: Copy) -> bool:
        """Whether the incoming copy wins at any epoch."""
        return self.is_own_word(incoming) and held.digest in self.overruled


def may_bring(copy: Copy | Origin, policy: Policy) -> bool:
    """Whether a policy admits a copy, and no source speaks for the copy's authority directly."""
    return policy.admits(copy) and not is_told_directly(copy, policy)


def is_told_directly(copy: Copy | Origin, policy: Policy) -> bool:
    """Whether a relay sends a copy that another source brings from its authority itself."""
    if not policy.direct or policy.is_own_word(copy):
        return False
    return any(each.admits(copy) for each in policy.direct)


def is_leap(held: Copy | None, incoming: Copy, policy: Policy) -> bool:
    """Whether an epoch is too far above the one here to have grown by writes.

    A forged epoch would keep out all that the authority writes later. In a repair, the authority
    itself is believed.
    """
    if policy.is_trusted and policy.is_own_word(incoming):
        return False
    return incoming.epoch > (0 if held is None else held.epoch) + MOST_LEAP
