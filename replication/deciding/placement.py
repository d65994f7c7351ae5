"""Places incoming copies: gives each copy a local xid. Pure.

Only new groups get local names from the mapping of a link. A stored group keeps the xid, and copies
of entities below follow the group, regardless of the link. Only the id of a group changes: entities
below keep the rest of the path, and every entity keeps the origin, so the digest of a copy does not
depend on the local name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from catalog.model.entity import Entity, Origin
from catalog.model.xid import group_path, is_valid_id
from catalog.store.links import LinkDefinition
from replication.deciding.copychecks import Copy, Incoming, MalformedCopy


class NoPlace(ValueError):
    """A mapping has no local name for an entity; the message says why."""


@dataclass(frozen=True, slots=True)
class GroupMapping:
    """The local names of groups.

    Args:
        prefix: precedes the id of each group that is not in `names`.
        names: the local path of a group by the path at the authority, such as
            `messagegroups/shop`. Local paths are unique, regardless of case.
    """

    prefix: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    _owners: Mapping[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        owners = {here.lower(): there for there, here in self.names.items()}
        object.__setattr__(self, "_owners", owners)

    def place(self, origin: str) -> str:
        """The local xid of an entity with the xid `origin` at the authority.

        Local xids are unique among the entities of an authority.

        Raises:
            NoPlace
        """
        if not (self.prefix or self.names):
            return origin
        _, groups, id, *below = origin.split("/", 3)
        there = f"{groups}/{id}"
        here = self.names.get(there)
        if here is None:
            here = f"{groups}/{self.prefix}{id}"
            if not is_valid_id(self.prefix + id):
                raise NoPlace(f"with the prefix {self.prefix}, the name of its group is too long")
            if here.lower() in self._owners:
                raise NoPlace(f"the link gives its name here to {self._owners[here.lower()]}")
        return "/".join(("", here, *below))


UNMAPPED = GroupMapping()
"""Leaves the names of groups unchanged."""


def mapping_of(definition: LinkDefinition) -> GroupMapping:
    """The mapping of a link."""
    return GroupMapping(prefix=definition.prefix, names=read_names(definition.map))


def read_names(pairs: Iterable[str]) -> dict[str, str]:
    """Read pairs as `messagegroups/shop=messagegroups/eu-shop`."""
    return {there: here for there, _, here in (pair.partition("=") for pair in pairs)}


def write_names(names: Mapping[str, str]) -> tuple[str, ...]:
    """Write the pairs that `read_names` reads, sorted by the path at the authority."""
    return tuple(f"{there}={here}" for there, here in sorted(names.items()))


def why_no_names(names: Mapping[str, str]) -> str:
    """The reason why a table of names is invalid; empty if it is valid."""
    for path in (*names, *names.values()):
        groups, _, id = path.partition("/")
        if not (is_valid_id(groups) and is_valid_id(id)):
            return f'"{path[:64]}" is not the path of a group, as messagegroups/shop'
    for there, here in names.items():
        if there.partition("/")[0] != here.partition("/")[0]:
            return f"{there} cannot become a group of another type, {here}"
    if len({here.lower() for here in names.values()}) < len(names):
        return "two groups cannot have one name"
    return ""


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
        published = copy.published
        target = _xid_here(copy.authority, published["xref"], mapping, held)
        # The original target is kept beside the local target.
        kept = None if target == published["xref"] else {"xref": published["xref"]}
        return replace(copy, attributes={**published, "xref": target}, replaced=kept)
    return copy


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
