"""Decides whether an incoming copy is applied, given the entities of this node.

Only an entity's authority raises its epoch, so of two copies the one with the higher epoch is the
later one, whatever their ways and their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from catalog.model.entity import Entity, Origin, Tombstone

Copy = Entity | Tombstone


class Verdict(StrEnum):
    """The decision about an incoming copy. Only `APPLY` changes the entities of this node."""

    APPLY = "applied"
    """It is new: write it."""
    DELETED = "deleted"
    """The entity was deleted after this copy was made."""
    CURRENT = "current"
    """The same copy is here already."""
    STALE = "stale"
    """A later copy is here already."""
    DIVERGED = "diverged"
    """A copy with the same epoch and other content is here, and the sender has no precedence."""
    COLLIDED = "collided"
    """An entity of another authority has its xid."""
    OWN = "own"
    """This node is its authority."""
    REFUSED = "refused"
    """The policy does not admit its authority or its xid."""
    INVALID = "invalid"
    """It is malformed, its digest does not match its content, or its parent is not here."""


SETTLED = frozenset({Verdict.APPLY, Verdict.CURRENT, Verdict.STALE, Verdict.DELETED, Verdict.OWN})
"""Verdicts that end the conflict of an origin."""

CONFLICTS = frozenset({Verdict.DIVERGED, Verdict.COLLIDED, Verdict.INVALID})
"""Verdicts that an operator should see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFilter:
    """The copies that are admitted.

    Args:
        authorities: those whose entities are admitted; `None` admits all.
        scope: xids that are admitted with all below and above them; an empty one admits all.
    """

    authorities: frozenset[str] | None = None
    scope: tuple[str, ...] = ()

    def admits(self, copy: Copy | Origin) -> bool:
        by_authority = self.authorities is None or copy.authority in self.authorities
        return by_authority and is_in_scope(copy.xid, self.scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(CopyFilter):
    """The copies that a node admits, and those that win at equal epochs.

    Args:
        own: the authority of this node.
        sender: the authority of the catalog that sends; at equal epochs, its copies of its own
            entities win.
        is_trusted: at equal epochs, all copies of the sender win (a repair).
        is_recovering: this node takes its own entities back from its peers.
    """

    own: str
    sender: str = ""
    is_trusted: bool = False
    is_recovering: bool = False

    def has_precedence(self, copy: Copy) -> bool:
        return self.is_trusted or copy.authority == self.sender


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalState:
    """The entities of this node that an incoming copy is compared with.

    Args:
        held: the entity of the same origin, or its tombstone.
        occupant: the entity of another origin that has the copy's xid.
        parent: the live parent; `None` for a group, whose parent is the registry.
    """

    held: Copy | None = None
    occupant: Entity | None = None
    parent: Entity | None = None


def is_in_scope(xid: str, scope: tuple[str, ...]) -> bool:
    """Whether `xid` is at, below or above one of these paths, or there are none.

    Above, since the ancestors of a replica come with it.
    """
    return not scope or any(
        xid == path or xid.startswith(path + "/") or path.startswith(xid + "/") for path in scope
    )


def decide(local: LocalState, incoming: Copy, policy: Policy) -> Verdict:
    """Decide about one incoming copy."""
    if incoming.authority == policy.own and not policy.is_recovering:
        return Verdict.OWN
    if not policy.admits(incoming):
        return Verdict.REFUSED
    if isinstance(incoming, Tombstone):
        return _decide_deletion(local.held, incoming, policy)
    if incoming.digest != incoming.content_digest():
        return Verdict.INVALID
    if isinstance(local.held, Entity):
        return _decide_update(local.held, incoming, policy)
    if local.held is not None and incoming.epoch <= local.held.epoch:
        return Verdict.DELETED
    return _decide_arrival(local, incoming)


def _decide_deletion(held: Copy | None, incoming: Tombstone, policy: Policy) -> Verdict:
    if held is None or held.epoch < incoming.epoch:
        return Verdict.APPLY
    if held.epoch > incoming.epoch:
        return Verdict.STALE
    if isinstance(held, Tombstone):
        return Verdict.CURRENT
    return Verdict.APPLY if policy.has_precedence(incoming) else Verdict.DIVERGED


def _decide_update(held: Entity, incoming: Entity, policy: Policy) -> Verdict:
    if held.epoch < incoming.epoch:
        return Verdict.APPLY
    if held.epoch > incoming.epoch:
        return Verdict.STALE
    if held.digest == incoming.digest:
        return Verdict.CURRENT
    return Verdict.APPLY if policy.has_precedence(incoming) else Verdict.DIVERGED


def _decide_arrival(local: LocalState, incoming: Entity) -> Verdict:
    """An entity that is not here yet needs a free xid below a parent of the same authority."""
    if local.occupant is not None:
        return Verdict.COLLIDED
    if incoming.kind == "group":
        return Verdict.APPLY
    if local.parent is None:
        return Verdict.INVALID
    if local.parent.authority != incoming.authority:
        return Verdict.COLLIDED
    return Verdict.APPLY
