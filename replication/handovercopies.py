"""The copies by which a group changes hands: made by its giver, checked by its taker. Pure.

Of each entity there are two: the tombstone of the giver's, and the taker's entity with the same
content and times. Its epoch is above those of the tombstone and of all that the taker ever deleted
there, so epochs ascend at every path, whoever follows whom.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from catalog.model.change import Change
from catalog.model.entity import Entity, Tombstone
from catalog.model.schema import Model
from replication.copychecks import Incoming, MalformedCopy, check_copies
from replication.placement import group_path
from replication.provenance import MOST_LEAP, Copy
from replication.trust import Trust

MOST_HANDED = 50_000
"""The most entities of a group that changes hands: one transaction writes them all."""


class Unfit(ValueError):
    """The copies of a group cannot be taken; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """The end of a giver's entities, and the taker's that take their places, in the same order."""

    ends: Sequence[Tombstone]
    heirs: Sequence[Entity]


def succeed(entities: Sequence[Entity], taker: str, floor: int, at: datetime) -> Succession:
    """Hand entities over to a taker.

    Args:
        entities: a group with all below it, parents first.
        floor: the taker has deleted nothing there above this epoch.

    Raises:
        Unfit: one is damaged.
    """
    for entity in entities:
        if not entity.is_intact():
            raise Unfit(f"the digest of {entity.xid} does not match its content")
    ends = [
        Tombstone(
            xid=entity.xid,
            kind=entity.kind,
            authority=entity.authority,
            origin=entity.origin,
            epoch=entity.epoch + 1,
            deletedat=at,
        )
        for entity in entities
    ]
    heirs = [
        _digested(
            replace(
                entity,
                authority=taker,
                epoch=max(end.epoch, floor) + 1,
                signature=None,
                signedby="",
            )
        )
        for entity, end in zip(entities, ends, strict=True)
    ]
    return Succession(ends=ends, heirs=heirs)


def provenance_told(changes: Iterable[Change]) -> list[Change]:
    """The changes of a node whose own entities become replicas, or the other way round."""
    return [
        replace(change, changed=tuple(sorted({*change.changed, "meta.readonly"})))
        if change.kind == "resource" and change.action == "updated" and change.changed
        else change
        for change in changes
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The copies that a taker expects: of a group `xid`, from a `giver` to itself, the `taker`.

    `trust` are the keys by which the giver signs both kinds of copies, if it is held to that.
    """

    xid: str
    giver: str
    taker: str
    floor: int
    model: Model
    trust: Trust

    def check(self, copies: Sequence[Incoming]) -> list[Copy]:
        """The copies without the giver's signatures of what is the taker's.

        Raises:
            Unfit
        """
        if len(copies) > 2 * MOST_HANDED:
            raise Unfit(f"it has more than {MOST_HANDED:,} entities")
        checked: list[Copy] = []
        for copy in check_copies(copies, self.model):
            if isinstance(copy, MalformedCopy):
                raise Unfit(f"{copy.origin or 'a line'}: {copy.reason}")
            checked.append(copy)
        ends = {copy.origin: copy for copy in checked if isinstance(copy, Tombstone)}
        heirs = {copy.origin: copy for copy in checked if isinstance(copy, Entity)}
        if self.xid not in heirs or ends.keys() != heirs.keys():
            raise Unfit("it did not come whole")
        if len(ends) + len(heirs) != len(checked):
            raise Unfit("something came twice")
        for copy in checked:
            self._check_one(copy)
        for origin, heir in heirs.items():
            least = max(ends[origin].epoch, self.floor)
            if not least < heir.epoch <= least + MOST_LEAP:
                raise Unfit(f"{origin} came with the epoch {heir.epoch}")
        return [
            replace(copy, signature=None, signedby="") if isinstance(copy, Entity) else copy
            for copy in checked
        ]

    def _check_one(self, copy: Copy) -> None:
        author = self.giver if isinstance(copy, Tombstone) else self.taker
        if copy.authority != author:
            raise Unfit(f"{copy.origin} came as that of {copy.authority}")
        if group_path(copy.origin) != self.xid:
            raise Unfit(f"{copy.origin} is not in the group")
        if isinstance(copy, Entity) and not copy.is_intact():
            raise Unfit(f"the digest of {copy.origin} does not match its content")
        if fault := self.trust.fault_of(replace(copy, authority=self.giver)):
            raise Unfit(f"{copy.origin}: {fault}")


def _digested(entity: Entity) -> Entity:
    return replace(entity, digest=entity.content_digest())
