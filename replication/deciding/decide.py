"""Decides whether an incoming copy is applied, given the entities of this node.

Only an entity's authority raises its epoch, so of two copies the one with the higher epoch is the
later one, whatever their ways and their order. Where another catalog may have forged the copy
here, the authority's own word is the later one (`Policy.overruled`).
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog.model.entity import Entity, Tombstone
from catalog.operations.feed import Verdict
from replication.deciding.provenance import Copy, Policy, is_leap, is_told_directly
from replication.deciding.trust import is_signed_better

SETTLED = frozenset(
    {
        Verdict.APPLY,
        Verdict.CURRENT,
        Verdict.SIGNED,
        Verdict.STALE,
        Verdict.DELETED,
        Verdict.OWN,
    }
)
"""Verdicts that end the conflict of an origin."""

NOT_BROUGHT = frozenset({Verdict.REFUSED, Verdict.DIRECT})
"""Verdicts about copies that a link is not to bring. They end its own conflict of an origin, and
those of no other link."""

CONFLICTS = frozenset(
    {
        Verdict.DIVERGED,
        Verdict.COLLIDED,
        Verdict.INVALID,
        Verdict.AHEAD,
        Verdict.LEAPT,
        Verdict.UNSIGNED,
        Verdict.FORGED,
        Verdict.AWAITED,
    }
)
"""Verdicts that an operator should see."""


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


def decide(local: LocalState, incoming: Copy, policy: Policy) -> Verdict:
    """Decide about one incoming copy, which `replication.deciding.copychecks` has found valid."""
    held = local.held
    if policy.is_own(incoming.authority):
        return Verdict.OWN
    if not policy.admits(incoming):
        return Verdict.REFUSED
    if is_told_directly(incoming, policy):
        return Verdict.DIRECT
    if policy.trust.fault_of(signed_as(held, incoming, policy)):
        return Verdict.UNSIGNED if incoming.signature is None else Verdict.FORGED
    if is_leap(held, incoming, policy):
        return Verdict.LEAPT
    if isinstance(incoming, Tombstone):
        return _decide_deletion(held, incoming, policy)
    if isinstance(held, Entity):
        return _decide_update(held, incoming, policy)
    if held is not None and incoming.epoch <= held.epoch and not policy.overrules(held, incoming):
        return Verdict.AHEAD if policy.is_own_word(incoming) else Verdict.DELETED
    return _decide_arrival(local, incoming, policy)


def signed_as(held: Copy | None, incoming: Copy, policy: Policy) -> Copy:
    """The copy whose signature counts: the one here if that is the same, and rightly signed."""
    if held is None or not policy.trust.is_pinned(incoming.authority):
        return incoming
    is_same = held.digest == incoming.digest
    return held if is_same and not policy.trust.fault_of(held) else incoming


def _decide_same(held: Copy, incoming: Copy, policy: Policy) -> Verdict:
    """Of two signatures of one copy, a right one is kept, and of right ones the later."""
    if policy.trust.fault_of(incoming):
        return Verdict.CURRENT
    if not policy.trust.fault_of(held):
        has_precedence = policy.has_precedence(incoming)
        if not is_signed_better(held, incoming, has_precedence=has_precedence):
            return Verdict.CURRENT
    return Verdict.SIGNED


def _decide_deletion(held: Copy | None, incoming: Tombstone, policy: Policy) -> Verdict:
    if held is None:
        return Verdict.APPLY
    if held.digest == incoming.digest:
        return _decide_same(held, incoming, policy)
    if isinstance(held, Entity) and policy.awaits(incoming):
        return Verdict.AWAITED
    return _decide_replacement(held, incoming, policy)


def _decide_update(held: Entity, incoming: Entity, policy: Policy) -> Verdict:
    if held.epoch == incoming.epoch and held.digest == incoming.digest:
        return _decide_same(held, incoming, policy)
    return _decide_replacement(held, incoming, policy)


def _decide_replacement(held: Copy, incoming: Copy, policy: Policy) -> Verdict:
    """Of two different copies, the one with the higher epoch wins, unless it is overruled."""
    if held.epoch < incoming.epoch or policy.overrules(held, incoming):
        return Verdict.APPLY
    if held.epoch > incoming.epoch:
        return Verdict.AHEAD if policy.is_own_word(incoming) else Verdict.STALE
    return Verdict.APPLY if policy.has_precedence(incoming) else Verdict.DIVERGED


def _decide_arrival(local: LocalState, incoming: Entity, policy: Policy) -> Verdict:
    """An entity that is not here yet needs a free xid below a parent of the same authority."""
    if local.occupant is not None or policy.keeps_out(incoming):
        return Verdict.COLLIDED
    if incoming.kind == "group":
        return Verdict.APPLY
    if local.parent is None:
        return Verdict.INVALID
    if local.parent.authority != incoming.authority:
        return Verdict.COLLIDED
    if local.parent.origin != incoming.origin.rsplit("/", 2)[0]:
        return Verdict.COLLIDED
    return Verdict.APPLY
