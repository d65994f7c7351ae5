"""Finds out whether the link owns the groups and resources of a server.

A group or resource at the server that the link has not brought is foreign: the link never
overwrites or extends it. The link adopts equal entities: from then on, the link keeps them equal
and never deletes them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from catalog.model.xid import Xid
from replication.store.writtenentities import WrittenEntity
from replication.targets.target import Found, Item, Target

# A group is listed if the presence of so many of its resources is unknown.
_LISTED_FROM = 50
OTHERS = "the server has another one there, which this link did not bring"


@dataclass(slots=True, kw_only=True)
class HolderState:
    """A group or a resource at the server, and why nothing can be written (`fault`).

    `found` has the entities by path; `None` if the server was not asked.
    """

    is_there: bool = False
    found: Mapping[str, Found] | None = None
    fault: str = ""


class Listing:
    """The resources of the last requested group, from a single listing."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._group = ""
        self._found: Mapping[str, Mapping[str, Found]] = {}

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        """The entities of a resource, by path."""
        if str(holder.group) != self._group:
            self._found = await self._target.find_below(holder.group)
            self._group = str(holder.group)
        return self._found.get(str(holder), {})


class ServerOwnership:
    """The groups and resources of a batch.

    Args:
        rows: the entities that the link has written to the server.
        mark: the mark in the entities that the link brings.
        listing: a listing of groups; without a listing, resources are requested singly unless there
            are many.
        compares: request every entity, even if the link has written it.
    """

    def __init__(
        self,
        target: Target,
        items: Sequence[Item],
        rows: Sequence[WrittenEntity],
        mark: str,
        *,
        listing: Listing | None,
        compares: bool,
    ) -> None:
        self._target = target
        self._mark = mark
        self._rows = {row.holder for row in rows}
        self._listing = listing or Listing(target)
        self._lists_all = listing is not None
        self._listed = _groups_to_list(items, self._rows)
        self._ownership = {
            row.holder: HolderState(is_there=True) for row in rows if row.digest and not compares
        }

    def __getitem__(self, item: Item) -> HolderState:
        return self._ownership[item.holder]

    async def settle(self, item: Item, items: Sequence[Item]) -> None:
        """Find out once whether the link owns the group or resource of an item."""
        if item.holder in self._ownership:
            return
        xid = Xid.parse(item.holder)
        above = self._ownership.get(str(xid.group)) if xid.rid else None
        if above is not None and above.fault:
            fault = "its group cannot be written: " + above.fault
            self._ownership[item.holder] = HolderState(fault=fault)
            return
        found: Mapping[str, Found] = {}
        if above is None:
            found = await self._target.find(xid)
        elif above.is_there:
            is_listed = self._lists_all or str(xid.group) in self._listed
            found = await (self._listing if is_listed else self._target).find(xid)
        self._ownership[item.holder] = owned = HolderState(is_there=bool(found), found=found)
        if found and item.holder not in self._rows:
            members = [each for each in items if each.holder == item.holder]
            owned.fault = "" if await self._is_adoptable(members, found) else OTHERS

    async def _is_adoptable(self, items: Sequence[Item], found: Mapping[str, Found]) -> bool:
        """Whether the entities belong to an earlier link with this id, or equal the items."""
        if any(each.owner == self._mark for each in found.values()):
            return True
        wanted = {self._target.path_of(item): item for item in items}
        equal = {
            path
            for path, there in found.items()
            if path in wanted and await self._is_equal(wanted[path], path, there)
        }
        others = {path for path, each in found.items() if each.is_version} - equal
        return bool(equal) and not others

    async def is_same(self, item: Item, written: WrittenEntity, there: Found) -> bool:
        """Whether the server has an item unchanged; an equal tag excludes a later write."""
        is_untouched = there.tag != "" and there.tag == written.tag
        if is_untouched and written.digest == item.digest:
            return True
        return await self._is_equal(item, written.path, there)

    async def _is_equal(self, item: Item, path: str, there: Found) -> bool:
        if there.shape != item.shape:
            return False
        expected = item.entity.document_sha256
        if expected is None:
            return True
        return hashlib.sha256(await self._target.read_document(path)).digest() == expected


def _groups_to_list(items: Sequence[Item], known: Collection[str]) -> set[str]:
    """The groups with many resources whose presence at the server is unknown."""
    unknown = {item.holder for item in items if item.xid.rid and item.holder not in known}
    counted = Counter(str(Xid.parse(holder).group) for holder in unknown)
    return {group for group, number in counted.items() if number >= _LISTED_FROM}
