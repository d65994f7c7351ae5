"""The copies by which a group changes hands: made by the giver, checked by the taker. Pure.

Each entity has two copies: a tombstone of the giver, and an entity of the taker with the same
content and times. For each earlier deletion by the giver, the taker gets a tombstone. The epochs of
the taker's copies are above the epochs of the giver's tombstones, and above the epochs of the
taker's earlier deletions in the group, so epochs ascend at every path for every follower.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from catalog.model.change import Change
from catalog.model.entity import Entity, Tombstone
from catalog.model.schema import Model
from catalog.model.xid import group_path
from replication.deciding.batch import end_of
from replication.deciding.copychecks import Copy, Incoming, MalformedCopy, check_copies
from replication.deciding.provenance import MOST_LEAP
from replication.deciding.trust import Trust

MOST_HANDED = 50_000
"""The limit of entities, including deleted entities, of a group that changes hands: the whole group
is written in one transaction."""
MOST_COPIES = 2 * MOST_HANDED
Handed = TypeVar("Handed", Entity, Tombstone)


class Unfit(ValueError):
    """The copies of a group cannot be taken; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """The tombstones of the giver's entities, and the taker's entities in the same order.

    `remembered` are the taker's tombstones for earlier deletions.
    """

    ends: Sequence[Tombstone]
    successors: Sequence[Entity]
    remembered: Sequence[Tombstone]


def succeed(
    entities: Sequence[Entity], deleted: Sequence[Tombstone], taker: str, floor: int, at: datetime
) -> Succession:
    """Hand entities over to a taker.

    Args:
        entities: a group with every entity below, parents first.
        deleted: tombstones of earlier deletions in the group.
        floor: the highest epoch of the taker's deletions in the group.

    Raises:
        Unfit: an entity is damaged.
    """
    for entity in entities:
        if not entity.is_intact():
            raise Unfit(f"the digest of {entity.xid} does not match its content")

    def of_taker(copy: Handed, epoch: int) -> Handed:
        epoch = max(epoch, floor) + 1
        return replace(copy, authority=taker, epoch=epoch, signature=None, signedby="")

    ends = [end_of(entity, at, entity.epoch + 1) for entity in entities]
    return Succession(
        ends=ends,
        successors=[
            of_taker(entity, end.epoch).sealed() for entity, end in zip(entities, ends, strict=True)
        ],
        remembered=[of_taker(each, each.epoch) for each in deleted],
    )


def taking_told(changes: Iterable[Change], own: str) -> list[Change]:
    """The changes of a taker; earlier deletions become `handed`, so that no subscriber is told."""
    return provenance_told(
        replace(change, action="handed")
        if change.action == "deleted" and change.authority == own
        else change
        for change in changes
    )


def provenance_told(changes: Iterable[Change]) -> list[Change]:
    """The changes of a node whose own entities become replicas, or whose replicas become own.

    An update of a resource also names the changed attribute `meta.readonly`.
    """
    return [
        replace(change, changed=tuple(sorted({*change.changed, "meta.readonly"})))
        if change.kind == "resource" and change.action == "updated" and change.changed
        else change
        for change in changes
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The copies that a taker expects: the group `xid`, handed over from `giver` to `taker`.

    `trust` are the keys with which the giver has to sign both kinds of copies, if the taker
    requires signatures of the giver.
    """

    xid: str
    giver: str
    taker: str
    floor: int
    model: Model
    trust: Trust

    def check(self, copies: Sequence[Incoming]) -> list[Copy]:
        """Check the copies; return the copies without the giver's signatures of taker's copies.

        Raises:
            Unfit
        """
        if len(copies) > MOST_COPIES:
            raise Unfit(f"it has more than {MOST_HANDED:,} entities")
        checked: list[Copy] = []
        for copy in check_copies(copies, self.model):
            if isinstance(copy, MalformedCopy):
                raise Unfit(f"{copy.origin or 'a line'}: {copy.reason}")
            checked.append(copy)
        ends = {c.origin: c for c in checked if self._is_end(c)}
        successors = {c.origin: c for c in checked if isinstance(c, Entity)}
        living = ends.keys() | successors.keys()
        remembered = {c.origin: c for c in checked if c.origin not in living}
        if self.xid not in successors or ends.keys() != successors.keys():
            raise Unfit("it did not come whole")
        if len(ends) + len(successors) + len(remembered) != len(checked):
            raise Unfit("something came twice")
        for copy in checked:
            self._check_one(copy)
        for origin, successor in successors.items():
            least = max(ends[origin].epoch, self.floor)
            if not least < successor.epoch <= least + MOST_LEAP:
                raise Unfit(f"{origin} came with the epoch {successor.epoch}")
        # Only the taker may sign the taker's copies.
        return [
            copy if self._is_end(copy) else replace(copy, signature=None, signedby="")
            for copy in checked
        ]

    def _is_end(self, copy: Copy) -> bool:
        return isinstance(copy, Tombstone) and copy.authority == self.giver

    def _check_one(self, copy: Copy) -> None:
        if not self._is_end(copy) and copy.authority != self.taker:
            raise Unfit(f"{copy.origin} came as that of {copy.authority}")
        if group_path(copy.origin) != self.xid:
            raise Unfit(f"{copy.origin} is not in the group")
        # If the taker has keys of the giver, the giver has to sign its tombstones and the copies
        # that are to be the taker's.
        keys = self.trust.keys.get(self.giver)
        fault = "" if keys is None else Trust(keys={copy.authority: keys}).fault_of(copy)
        if fault:
            raise Unfit(f"{copy.origin}: {fault}")
