"""Decides whether an incoming copy is applied, given the entities of the node.

Only the authority of an entity raises the epoch, so of two copies the copy with the higher epoch is
later, regardless of route and order of arrival. If a third catalog may have forged the held copy,
a copy from the authority is the later copy (`Policy.overruled`).
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog.model.entity import Entity, Tombstone
from catalog.operations.feed import Verdict
from replication.deciding.copychecks import Copy
from replication.deciding.provenance import Policy, is_leap, is_told_directly
from replication.deciding.trust import is_signed_better

SETTLED = frozenset(
    {Verdict.APPLY, Verdict.CURRENT, Verdict.SIGNED, Verdict.STALE, Verdict.DELETED, Verdict.OWN}
)
"""Verdicts that end the conflict of an origin."""

NOT_BROUGHT = frozenset({Verdict.REFUSED, Verdict.DIRECT})
"""Verdicts about copies that a link may not bring. A verdict ends the conflict of an origin for the
same link only."""

CONFLICTS = frozenset(Verdict) - SETTLED - NOT_BROUGHT
"""Verdicts that an operator should see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalState:
    """The entities of the node to compare with an incoming copy.

    Args:
        held: the entity or the tombstone of the same origin.
        occupant: the entity of a different origin at the xid of the copy, regardless of case.
        parent: the live parent; `None` for a group, whose parent is the registry.
    """

    held: Copy | None = None
    occupant: Entity | None = None
    parent: Entity | None = None


def decide(local: LocalState, incoming: Copy, policy: Policy) -> Verdict:
    """Decide about one incoming copy that `replication.deciding.copychecks` has found valid."""
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
        is_same = held.epoch == incoming.epoch and held.digest == incoming.digest
        return (_decide_same if is_same else _decide_replacement)(held, incoming, policy)
    if held is not None and incoming.epoch <= held.epoch and not policy.overrules(held, incoming):
        return Verdict.AHEAD if policy.is_own_word(incoming) else Verdict.DELETED
    return _decide_arrival(local, incoming, policy)


def signed_as(held: Copy | None, incoming: Copy, policy: Policy) -> Copy:
    """The copy whose signature counts: the held copy if it is equal and correctly signed.

    So a relay that sends an equal copy without a valid signature causes no conflict.
    """
    if held is None or not policy.trust.is_pinned(incoming.authority):
        return incoming
    is_same = held.digest == incoming.digest
    return held if is_same and not policy.trust.fault_of(held) else incoming


def _decide_same(held: Copy, incoming: Copy, policy: Policy) -> Verdict:
    """Decide about equal copies: a valid signature is kept, and of valid signatures the later."""
    if policy.trust.fault_of(incoming):
        return Verdict.CURRENT
    has_precedence = policy.has_precedence(incoming)
    is_better = is_signed_better(held, incoming, has_precedence=has_precedence)
    return Verdict.SIGNED if is_better or policy.trust.fault_of(held) else Verdict.CURRENT


def _decide_deletion(held: Copy | None, incoming: Tombstone, policy: Policy) -> Verdict:
    if held is None:
        return Verdict.APPLY
    if held.digest == incoming.digest:
        return _decide_same(held, incoming, policy)
    if isinstance(held, Entity) and policy.awaits(incoming):
        return Verdict.AWAITED
    return _decide_replacement(held, incoming, policy)


def _decide_replacement(held: Copy, incoming: Copy, policy: Policy) -> Verdict:
    """Decide between different copies: the higher epoch wins, unless the held copy is overruled."""
    if held.epoch < incoming.epoch or policy.overrules(held, incoming):
        return Verdict.APPLY
    if held.epoch > incoming.epoch:
        return Verdict.AHEAD if policy.is_own_word(incoming) else Verdict.STALE
    return Verdict.APPLY if policy.has_precedence(incoming) else Verdict.DIVERGED


def _decide_arrival(local: LocalState, incoming: Entity, policy: Policy) -> Verdict:
    """Decide about a new entity, which needs a free xid below a parent of the same authority."""
    if local.occupant is not None or policy.keeps_out(incoming):
        return Verdict.COLLIDED
    if incoming.kind == "group":
        return Verdict.APPLY
    if local.parent is None:
        return Verdict.INVALID
    above = incoming.authority, incoming.origin.rsplit("/", 2)[0]
    is_below = (local.parent.authority, local.parent.origin) == above
    return Verdict.APPLY if is_below else Verdict.COLLIDED
