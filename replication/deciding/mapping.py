"""Maps the names of groups at the authority to local names. Pure.

Only the id of a group changes. Entities below keep the rest of the path, and every entity keeps the
origin, so the digest of a copy does not depend on the local name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from catalog.model.xid import is_valid_id
from catalog.store.links import LinkDefinition


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
