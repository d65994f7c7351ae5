"""Finds the entities that an apply prunes: entities of the catalog that no document has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from catalog.model.entity import Entity
from catalog.model.errors import UnknownId, XRegistryError
from catalog.model.interaction import Body, Interaction, ResourceUpsert
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.writing import versionorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The xids of the entities in documents.

    `listing` has the resources whose versions the documents list; only versions of resources in
    `listing` are pruned.
    """

    xids: frozenset[str]
    listing: frozenset[str]

    @classmethod
    def of(cls, interaction: Interaction, also: Iterable[Xid]) -> Wanted:
        """The entities that an interaction writes, and the entities in `also`."""
        xids = {*map(str, also)}
        listing = {str(xid.resource) for xid in also if xid.vid}
        for group in interaction.groups:
            xids.add(str(group.xid))
        for upsert in interaction.resources:
            xids.add(str(upsert.xid))
            listing |= {str(upsert.xid)} if upsert.versions else set()
            xids |= {str(upsert.xid.version(vid)) for vid in _versions_named(upsert)}
        return cls(xids=frozenset(xids), listing=frozenset(listing))


def _versions_named(upsert: ResourceUpsert) -> Iterable[str]:
    yield from (version.vid for version in upsert.versions)
    vid = (upsert.default or {}).get("versionid")
    if isinstance(vid, str):
        yield vid


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The entities to delete, and the entities that stay although no document has them.

    Args:
        left_alone: the xids of entities of a different authority.
        kept: the xids of groups with resources that stay.
    """

    deletes: tuple[Xid, ...] = ()
    left_alone: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def prune(
    stored: Mapping[str, Entity], wanted: Wanted, *, authority: str, is_owned: Callable[[str], bool]
) -> Pruned:
    """Find the entities to delete.

    Args:
        stored: the groups with every entity below, by xid.
        authority: the node's authority.
        is_owned: whether the apply owns the entity at an xid, so that it may be deleted.
    """
    due = [entity for xid, entity in stored.items() if is_owned(xid) and _is_due(entity, wanted)]
    foreign = {entity.xid: entity.path for entity in due if entity.authority != authority}
    doomed = {entity.xid: entity.path for entity in due if entity.xid not in foreign}
    staying = {
        str(entity.path.group)
        for entity in stored.values()
        if entity.kind == "resource" and entity.xid not in doomed
    }
    kept = [xid for xid, path in doomed.items() if path.kind == "group" and xid in staying]
    for xid in kept:
        del doomed[xid]
    return Pruned(
        deletes=tuple(roots_of(doomed.values())),
        left_alone=tuple(map(str, roots_of(foreign.values()))),
        kept=tuple(kept),
    )


def _is_due(entity: Entity, wanted: Wanted) -> bool:
    if entity.xid in wanted.xids or entity.kind == "registry":
        return False
    return entity.kind != "version" or str(entity.path.resource) in wanted.listing


def roots_of(xids: Iterable[Xid]) -> list[Xid]:
    """The given xids without those below a given group, in order."""
    given = {*xids}
    return sorted((xid for xid in given if not xid.rid or xid.group not in given), key=str)


def lost_references(
    interaction: Interaction, deletes: Iterable[Xid], model: Model
) -> list[XRegistryError]:
    """The errors of documents that name deleted versions as ancestors or as default version."""
    gone = {str(xid) for xid in deletes if xid.vid}
    found: list[XRegistryError] = []
    for upsert in interaction.resources if gone else ():
        kind = model.groups[upsert.xid.groups].resources[upsert.xid.resources]
        if kind.versionmode == versionorder.MANUAL:
            bodies = ((upsert.xid.version(each.vid), each.body) for each in upsert.versions)
            found += [
                _unknown(str(xid), body["ancestorid"])
                for xid, body in bodies
                if _names(upsert, body, "ancestorid", gone)
            ]
        meta = upsert.meta or {}
        if meta.get(versionorder.STICKY) is True and _names(upsert, meta, versionorder.ID, gone):
            found.append(_unknown(f"{upsert.xid}/meta", meta[versionorder.ID]))
    return found


def _names(upsert: ResourceUpsert, body: Body, name: str, gone: set[str]) -> bool:
    return str(upsert.xid.version(str(body.get(name, "")))) in gone


def _unknown(subject: str, vid: str) -> XRegistryError:
    return UnknownId(subject, singular="version", id=vid)
