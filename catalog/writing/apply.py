"""Composes an apply: writes the changes in documents, and prunes entities without a document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from catalog.model.entity import Entity
from catalog.model.errors import FirstViolations, UnknownId, XRegistryError
from catalog.model.interaction import Body, Delete, Interaction, ResourceUpsert
from catalog.model.schema import Model
from catalog.model.xid import Xid, group_path
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.locks import MustBeginAgain, Touched
from catalog.writing import versionorder
from catalog.writing.outcome import Outcome
from catalog.writing.transaction import Composer, touched_by

_MOST_GROUPS = 100
_MANY_ENTITIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The xids of the entities in documents; only versions of resources in `listing` are pruned.

    `listing` has the resources whose versions the documents list.
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
            default = (upsert.default or {}).get("versionid")
            vids = [version.vid for version in upsert.versions]
            vids += [default] if isinstance(default, str) else []
            xids |= {str(upsert.xid.version(vid)) for vid in vids}
        return cls(xids=frozenset(xids), listing=frozenset(listing))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The entities to delete, and the entities that stay although no document has them.

    `left_alone` has entities of a different authority, `kept` groups with resources that stay.
    """

    deletes: tuple[Xid, ...] = ()
    left_alone: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def prune(
    stored: Mapping[str, Entity], wanted: Wanted, *, authority: str, is_owned: Callable[[str], bool]
) -> Pruned:
    """Find the entities to delete, among groups with every entity below.

    Args:
        authority: the node's authority, of which all deleted entities are.
        is_owned: whether the apply owns the entity at an xid, so that it may be deleted.
    """
    due = [
        entity
        for xid, entity in stored.items()
        if is_owned(xid) and xid not in wanted.xids and entity.kind != "registry"
        if entity.kind != "version" or str(entity.path.resource) in wanted.listing
    ]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The entities that an apply owns, and may therefore prune.

    Args:
        prunes: delete owned entities that are not in the documents.
        scopes: the xids at and below which entities are owned. Without scopes and without a set,
            the content of the groups in the documents is owned.
        set: the name of a set. Entities that earlier applies brought under the name are owned,
            unless another set has them as well. The apply adds its entities to the set.
        also: entities that are in the documents and not written by the interaction.
    """

    prunes: bool = False
    scopes: tuple[Xid, ...] = ()
    set: str = ""
    also: tuple[Xid, ...] = ()


class Apply(Composer):
    """The composer of an interaction that writes only changes, with the deletes of pruning.

    After `compose`, `pruned` has the entities to delete and to keep. `interaction` has the upserts,
    as read from the documents.
    """

    def __init__(
        self, interaction: Interaction, ownership: Ownership, model: Model, authority: str
    ) -> None:
        self.interaction = interaction
        self.ownership = ownership
        self.pruned = Pruned()
        self._wanted = Wanted.of(interaction, ownership.also)
        self._model = model
        self._authority = authority
        # The owned members of the set at the time of `compose`, for `confirm`.
        self._pruned_from: set[str] = set()

    @property
    def is_large(self) -> bool:
        return self.ownership.prunes or self.interaction.size > _MANY_ENTITIES

    def locks(self) -> Touched:
        owned = self.ownership
        groups = set(touched_by(self._composed(), 0).groups)
        return Touched(
            groups=frozenset(groups - {"/"}),
            groups_exclusive=True,
            registry_exclusive=owned.prunes and bool(owned.scopes or owned.set),
            catalog_exclusive=len(groups) > _MOST_GROUPS or Xid() in owned.scopes,
        )

    async def compose(self, connection: Connection) -> Interaction:
        if self.ownership.prunes:
            self.pruned = await self._prune(connection)
        return self._composed()

    async def confirm(self, connection: Connection) -> None:
        # A concurrent apply may have changed the sets, and so the owned entities, since `compose`.
        is_of_set = self.ownership.prunes and self.ownership.set
        if is_of_set and await self._read_owned(connection) != self._pruned_from:
            raise MustBeginAgain

    async def conclude(self, connection: Connection, outcome: Outcome) -> None:
        name = self.ownership.set
        if not name:
            return
        if self.ownership.prunes:
            members = await store.members_of(connection, name)
            seen = await store.load(connection, members)
            unseen = {xid for xid in members if xid not in seen}
            await store.keep_members(connection, name, self._wanted.xids | unseen)
        states = {**outcome.before, **outcome.after}
        brought = [
            xid
            for xid in self._wanted.xids
            if isinstance(state := states.get(xid), Entity) and state.authority == self._authority
        ]
        await store.add_members(connection, name, brought)

    def _composed(self) -> Interaction:
        deletes = self.pruned.deletes
        violations = FirstViolations(self.interaction.violations)
        violations += lost_references(self.interaction, deletes, self._model)
        return replace(
            self.interaction,
            deletes=[Delete(xid=xid, must_exist=False) for xid in deletes],
            violations=violations,
        )

    async def _prune(self, connection: Connection) -> Pruned:
        """Find the entities to delete.

        Entities hidden from the client are neither deleted nor removed from the set.
        """
        name = self.ownership.set
        owned: set[str] = set()
        if name:
            owned = self._pruned_from = await self._read_owned(connection)
        scopes = [*map(str, self.ownership.scopes)] or map(group_path, self._wanted.xids)
        rows = await store.load_subtrees(connection, sorted(owned if name else {*scopes}))
        return prune(
            {row.xid: row for row in rows},
            self._wanted,
            authority=self._authority,
            is_owned=(lambda xid: xid in owned) if name else (lambda _: True),
        )

    async def _read_owned(self, connection: Connection) -> set[str]:
        """The members of the set that belong to no other set and are not in the documents."""
        name = self.ownership.set
        due = {*await store.members_of(connection, name)} - self._wanted.xids
        return due - await store.claimed_by_others(connection, name, due)
