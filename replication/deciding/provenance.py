"""The provenance of copies: which sender may speak for which authority.

A source is pinned to an authority. A policy says which copies a link may bring, and which copies
win over held copies. `replication/deciding/trust.py` checks the signatures of authorities.
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from catalog.client import ClientError
from catalog.model.entity import Origin, Tombstone
from catalog.model.linkterms import RELAY
from catalog.model.xid import group_path
from catalog.store import linksources
from catalog.store.database import Connection
from catalog.store.links import FormerSelection, Link, LinkDefinition
from replication.deciding.copychecks import Copy
from replication.deciding.selection import is_selected
from replication.deciding.trust import Trust
from replication.store.handovers import Reservation

MOST_LEAP = 2**52 + 2**32
"""The limit by which an epoch may exceed the held epoch; without a held copy, the held epoch is 0.

An import may begin at 2**52, since some catalogs count by time; 2**32 writes may follow the import.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFilter:
    """The copies that are admitted.

    Args:
        authorities: the authorities whose entities are admitted; `None` admits every authority.
        scope: origins that are admitted with every entity below and above; an empty scope admits
            every origin.
        types: types whose entities are admitted with every entity below and above; empty types
            admit every type.
        labels: for comparisons only; a single copy does not show whether labels select it.
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
    """The copies that a node admits, and the copies that win over held copies.

    Args:
        own: the node's authority.
        sender: the authority to which the sending catalog is pinned; at equal epochs, copies of
            the sender's authority win.
        direct: the copies that links of the node bring from the authorities themselves; a relay
            may not bring the copies.
        overruled: the digests of held copies that the sender replaces at every epoch, if the
            sender is the authority; damaged copies have the empty digest.
        is_trusted: at equal epochs, every copy of the sender wins (a repair).
        is_recovering: the node recovers its own entities from peers.
        trust: the keys with which copies of authorities have to be signed.
        reserved: the groups to be taken over by handovers. The paths are closed to further groups,
            and no entity of a promised group is deleted before the handover.
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
        """The reservation of the group at or above a local path."""
        if not self.reserved:
            return None
        group = group_path(xid).lower()
        return next((each for each in self.reserved if each.xid.lower() == group), None)

    def keeps_out(self, incoming: Copy) -> bool:
        """Whether the path of a copy is reserved for a group of a different origin."""
        kept = self.reservation_of(incoming.xid)
        if kept is None or self.is_recovering:
            return False
        group = group_path(incoming.origin)
        return (incoming.authority, group) != (kept.authority, kept.xid)

    def awaits(self, end: Tombstone) -> bool:
        """Whether a tombstone belongs to a group that is promised to the node."""
        kept = self.reservation_of(end.origin)
        return kept is not None and kept.is_promised and kept.authority == end.authority

    def is_own(self, authority: str) -> bool:
        """Whether the node is the authority, and takes no copies of the authority's entities."""
        return authority == self.own and not self.is_recovering

    def is_own_word(self, copy: Copy | Origin) -> bool:
        """Whether the sender is the authority of the copy."""
        return copy.authority == self.sender

    def has_precedence(self, copy: Copy) -> bool:
        """Whether the copy wins at equal epochs."""
        return self.is_trusted or self.is_own_word(copy)

    def overrules(self, held: Copy, incoming: Copy) -> bool:
        """Whether the incoming copy wins at every epoch."""
        return self.is_own_word(incoming) and held.digest in self.overruled


def may_bring(copy: Copy | Origin, policy: Policy) -> bool:
    """Whether a policy admits a copy, and no link brings the copy from the authority itself."""
    return policy.admits(copy) and not is_told_directly(copy, policy)


def is_told_directly(copy: Copy | Origin, policy: Policy) -> bool:
    """Whether the sender is a relay, and another link brings the copy from the authority itself."""
    if not policy.direct or policy.is_own_word(copy):
        return False
    return any(each.admits(copy) for each in policy.direct)


def is_leap(held: Copy | None, incoming: Copy, policy: Policy) -> bool:
    """Whether an epoch is too far above the held epoch to result from writes.

    A forged epoch would keep out every later copy of the authority. In a repair, the epoch from the
    authority itself is accepted.
    """
    if policy.is_trusted and policy.is_own_word(incoming):
        return False
    return incoming.epoch > (0 if held is None else held.epoch) + MOST_LEAP


def policy_of(definition: LinkDefinition, *, own: str, source: str) -> Policy:
    """The policy for the copies of a link of the authority `own`.

    A source sends entities of the pinned authority only, unless the link lists authorities.

    Args:
        source: the authority to which the source is pinned.
    """
    return Policy(
        own=own,
        sender=source,
        authorities=admitted(definition, source),
        scope=definition.scope,
        types=definition.types,
        labels=definition.labels,
    )


def filter_of(definition: LinkDefinition | FormerSelection, source: str) -> CopyFilter:
    """The copies that a link admits, given the authority to which the source is pinned."""
    return CopyFilter(
        authorities=admitted(definition, source), scope=definition.scope, types=definition.types
    )


async def policy_within(
    connection: Connection, policy: Policy, authorities: Collection[str] | None
) -> Policy:
    """The policy of a link, narrowed by what other links bring from the authorities themselves.

    Args:
        authorities: the authorities of the copies that the policy will be asked about; `None` for
            every authority.
    """
    wanted = None if authorities is None else {*authorities} - {policy.sender}
    if wanted is not None and not wanted:
        return policy
    filters = [
        replace(filter_of(definition, authority), authorities=frozenset({authority}))
        for authority, definition in await linksources.pinned_to(connection, wanted)
        if (brought := admitted(definition, authority)) is None or authority in brought
    ]
    return replace(policy, direct=tuple(filters))


async def meet_claim(connection: Connection, link: Link, claimed: str) -> None:
    """Check that the source of a link may be, or stay, pinned to the claimed authority.

    Raises:
        ClientError: an operator has to decide.
    """
    check_claim(link, claimed)
    source, is_named = link.definition.source, link.authority is not None
    fault, advice = await why_not_pinned(connection, link.id, source, claimed, is_named=is_named)
    if fault:
        advice = advice or _advice(link.id, claimed)
        raise ClientError(f"{source} cannot be followed: {fault}.", advice)


def met(link: Link, instance: uuid.UUID, authority: str, loss: str) -> Link:
    """The link after the first contact with the source.

    Args:
        loss: why the source has lost data; "" if it has not.
    """
    pinned = link.authority or authority
    return replace(link, instance=instance, authority=pinned, loss=loss or None)


def check_claim(link: Link, claimed: str) -> None:
    """Check that a source claims the authority to which it is pinned.

    Raises:
        ClientError: the source claims a different authority.
    """
    if link.authority not in (None, claimed):
        raise ClientError(
            f"The source is pinned to the authority {link.authority}, and claims to be {claimed}.",
            _advice(link.id, claimed),
        )


async def why_not_pinned(
    connection: Connection, link: str, source: str, authority: str, *, is_named: bool
) -> tuple[str, str]:
    """The reason why a source's claim to an authority is refused, and advice; "" if accepted.

    A node has one source per authority. The operator has to name an authority that the node knows
    already, unless the authority is the URL of the source, since the source gets control of the
    stored copies of the authority.

    Args:
        is_named: the operator has named the authority; without advice, the operator may name it.
    """
    claim = await linksources.read_claim(connection, link, authority, source)
    if claim.rival is not None:
        fault = f'link "{claim.rival}" follows the authority {authority} from another source'
        return fault, f"Remove the wrong one: `concord link remove {claim.rival}`."
    if claim.is_known and not (is_named or claim.is_shared or authority.rstrip("/") == source):
        return f"it claims to be {authority}, an authority that is known here already", ""
    return "", ""


def admitted(definition: LinkDefinition | FormerSelection, source: str) -> frozenset[str] | None:
    """The authorities of the copies that a link may bring; `None` for every authority.

    Args:
        source: the authority to which the source is pinned.
    """
    if definition.authorities == RELAY:
        return None
    return frozenset(definition.authorities or (source,))


def _advice(link: str, authority: str) -> str:
    # The authority is a text from a remote party, and operators copy commands into shells.
    return f"If it is, run `concord link set {link} --pin {shlex.quote(authority)}`."
