"""The one decision of replication: what to do with an incoming copy, given what is held here.

Everything else moves bytes. Only an entity's authority raises its epoch, so the copy with
the higher one is the later one, whatever way and in whatever order the two came.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from catalog.model.entity import Entity, Origin, Tombstone

Copy = Entity | Tombstone


class Verdict(StrEnum):
    """What becomes of an incoming copy. All but `apply` leave what is held as it is."""

    APPLY = "applied"
    """It is news: write it."""
    DELETED = "deleted"
    """The entity was deleted later than this copy was made."""
    CURRENT = "current"
    """The same is held already."""
    STALE = "stale"
    """A later one is held already."""
    DIVERGED = "diverged"
    """The epoch is the same and the content is not, and nobody with a say in it spoke."""
    COLLIDED = "collided"
    """Its place is taken by another authority's entity."""
    OWN = "own"
    """This node is its authority and needs nobody's word."""
    REFUSED = "refused"
    """The policy does not admit its authority or its place."""
    INVALID = "invalid"
    """It is malformed, its digest does not match its content, or its parent is not here."""


SETTLED = frozenset({Verdict.APPLY, Verdict.CURRENT, Verdict.STALE, Verdict.DELETED, Verdict.OWN})
"""Verdicts after which nothing is left to do about an origin."""

CONFLICTS = frozenset({Verdict.DIVERGED, Verdict.COLLIDED, Verdict.INVALID})
"""Verdicts that an operator should see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What may come in, and whose word counts.

    Args:
        own: the authority of this node.
        sender: the authority of the catalog that sends; at equal epochs its word about its
            own entities wins.
        authorities: whose entities may come; `None` admits everybody's.
        scope: xids that are admitted with all below and above them; none admits all.
        is_trusted: at equal epochs the sender is right about everything (a repair).
        is_recovering: this node takes its own entities back from its peers.
    """

    own: str
    sender: str = ""
    authorities: frozenset[str] | None = None
    scope: tuple[str, ...] = ()
    is_trusted: bool = False
    is_recovering: bool = False

    def admits(self, copy: Copy | Origin) -> bool:
        by_authority = self.authorities is None or copy.authority in self.authorities
        return by_authority and is_in_scope(copy.xid, self.scope)

    def has_a_say(self, copy: Copy) -> bool:
        return self.is_trusted or copy.authority == self.sender


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalState:
    """What this node holds where an incoming copy belongs.

    Args:
        held: the entity of the same origin, or its tombstone.
        occupant: the entity of another origin that has the copy's place.
        parent: the live parent; `None` for a group, whose parent is the registry.
    """

    held: Copy | None = None
    occupant: Entity | None = None
    parent: Entity | None = None


NOWHERE = LocalState()


def is_in_scope(xid: str, scope: tuple[str, ...]) -> bool:
    """Whether `xid` is at, below or above one of these paths; no path is everything.

    Above, since a replica's ancestors come with it.
    """
    return not scope or any(
        xid == path or xid.startswith(path + "/") or path.startswith(xid + "/") for path in scope
    )


def decide(place: LocalState, incoming: Copy, policy: Policy) -> Verdict:
    """Say what to do with `incoming`: design, section 6."""
    if incoming.authority == policy.own and not policy.is_recovering:
        return Verdict.OWN
    if not policy.admits(incoming):
        return Verdict.REFUSED
    if isinstance(incoming, Tombstone):
        return _decide_deletion(place.held, incoming, policy)
    if incoming.digest != incoming.content_digest():
        return Verdict.INVALID
    if isinstance(place.held, Entity):
        return _decide_update(place.held, incoming, policy)
    if place.held is not None and incoming.epoch <= place.held.epoch:
        return Verdict.DELETED
    return _decide_arrival(place, incoming)


def _decide_deletion(held: Copy | None, incoming: Tombstone, policy: Policy) -> Verdict:
    if held is None or held.epoch < incoming.epoch:
        return Verdict.APPLY
    if held.epoch > incoming.epoch:
        return Verdict.STALE
    if isinstance(held, Tombstone):
        return Verdict.CURRENT
    return Verdict.APPLY if policy.has_a_say(incoming) else Verdict.DIVERGED


def _decide_update(held: Entity, incoming: Entity, policy: Policy) -> Verdict:
    if held.epoch < incoming.epoch:
        return Verdict.APPLY
    if held.epoch > incoming.epoch:
        return Verdict.STALE
    if held.digest == incoming.digest:
        return Verdict.CURRENT
    return Verdict.APPLY if policy.has_a_say(incoming) else Verdict.DIVERGED


def _decide_arrival(place: LocalState, incoming: Entity) -> Verdict:
    """An entity that is not here yet needs a free place below its authority's own parent."""
    if place.occupant is not None:
        return Verdict.COLLIDED
    if incoming.kind == "group":
        return Verdict.APPLY
    if place.parent is None:
        return Verdict.INVALID
    if place.parent.authority != incoming.authority:
        return Verdict.COLLIDED
    return Verdict.APPLY
