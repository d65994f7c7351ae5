"""Places incoming copies: gives each copy a local xid. Pure.

A stored group keeps the xid, and copies of entities below follow the group, regardless of the link.
Only new groups get names from the mapping of a link.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from catalog.model.entity import Entity, Origin
from catalog.model.xid import group_path
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.deciding.mapping import GroupMapping, NoPlace
from replication.deciding.provenance import Copy


class PlacesChanged(Exception):
    """Groups have different xids than assumed when copies were placed.

    `held` are the xids that differ from the mapping, by the origin of the group.
    """

    def __init__(self, held: Mapping[Origin, str]) -> None:
        super().__init__("groups are elsewhere")
        self.held = held


def place_copies(
    copies: Iterable[Incoming], mapping: GroupMapping, held: Mapping[Origin, str]
) -> list[Incoming]:
    """Give copies local xids; return a `MalformedCopy` in place of a copy without a local name.

    Args:
        copies: checked copies.
        held: the xids of stored groups that differ from the mapping, by origin.
    """
    placed: list[Incoming] = []
    for copy in copies:
        try:
            placed.append(copy if isinstance(copy, MalformedCopy) else _placed(copy, mapping, held))
        except NoPlace as error:
            known = {"authority": copy.authority, "origin": copy.origin, "xid": copy.origin}
            placed.append(MalformedCopy(**known, epoch=copy.epoch, reason=str(error)))
    return placed


def groups_of(copies: Collection[Copy]) -> set[Origin]:
    """The origins of the groups of copies, and of the groups of cross references' targets."""
    groups = {Origin(copy.authority, group_path(copy.origin)) for copy in copies}
    for copy in copies:
        if isinstance(copy, Entity) and "xref" in copy.attributes:
            groups.add(Origin(copy.authority, group_path(copy.published["xref"])))
    return groups


def check_places(
    mapping: GroupMapping, assumed: Mapping[Origin, str], live: Mapping[Origin, str]
) -> None:
    """Check that groups have the xids assumed when copies were placed.

    Args:
        assumed: as `held` of `place_copies`.
        live: the xids of stored groups, by origin.

    Raises:
        PlacesChanged
    """
    held = {origin: xid for origin, xid in live.items() if _place(origin.xid, mapping) != xid}
    if held != assumed:
        raise PlacesChanged(held)


def _placed(copy: Copy, mapping: GroupMapping, held: Mapping[Origin, str]) -> Copy:
    xid = _xid_here(copy.authority, copy.origin, mapping, held)
    if xid != copy.xid:
        copy = replace(copy, xid=xid)
    if isinstance(copy, Entity) and copy.kind == "resource" and "xref" in copy.attributes:
        return refer(copy, _xid_here(copy.authority, copy.published["xref"], mapping, held))
    return copy


def refer(entity: Entity, target: str) -> Entity:
    """The cross reference with a local xid as target; the original target is kept beside."""
    published = entity.published
    is_same = target == published["xref"]
    kept = None if is_same else {"xref": published["xref"]}
    return replace(entity, attributes={**published, "xref": target}, replaced=kept)


def _xid_here(
    authority: str, origin: str, mapping: GroupMapping, held: Mapping[Origin, str]
) -> str:
    if held:
        group = group_path(origin)
        if (here := held.get(Origin(authority, group))) is not None:
            return here + origin.removeprefix(group)
    return mapping.place(origin)


def _place(origin: str, mapping: GroupMapping) -> str | None:
    try:
        return mapping.place(origin)
    except NoPlace:
        return None
