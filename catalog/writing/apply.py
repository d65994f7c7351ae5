"""Composes an apply: writes the changes in documents, and prunes entities without a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from catalog.model.entity import Entity
from catalog.model.errors import FirstViolations, UnknownId, XRegistryError
from catalog.model.interaction import Delete, Interaction
from catalog.model.schema import Model
from catalog.model.xid import Xid, group_path
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.locks import MustBeginAgain, Touched
from catalog.writing import versionorder
from catalog.writing.outcome import Outcome
from catalog.writing.writetransaction import MANY_ENTITIES, Composer, touched_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The entities to delete, and the entities that stay although no document has them.

    `left_alone` has entities of a different authority, `kept` groups with resources that stay.
    """

    deletes: tuple[Xid, ...] = ()
    left_alone: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def _named_in(interaction: Interaction) -> Iterator[Xid]:
    """The entities that an interaction writes, as far as it gives their ids."""
    yield from (group.xid for group in interaction.groups)
    for upsert in interaction.resources:
        yield upsert.xid
        yield from (upsert.xid.version(each.vid) for each in upsert.versions)
        default = (upsert.default or {}).get("versionid")
        if isinstance(default, str):
            yield upsert.xid.version(default)


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
        meta = upsert.meta or {}
        named: list[tuple[str, object]] = []
        if kind.versionmode == versionorder.MANUAL:
            named = [
                (str(upsert.xid.version(each.vid)), each.body.get("ancestorid"))
                for each in upsert.versions
            ]
        if meta.get(versionorder.STICKY) is True:
            named.append((f"{upsert.xid}/meta", meta.get(versionorder.ID)))
        found += [
            UnknownId(subject, singular="version", id=str(vid))
            for subject, vid in named
            if vid is not None and str(upsert.xid.version(str(vid))) in gone
        ]
    return found


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
        # The xids of the entities in the documents, and of the resources whose versions the
        # documents list: only versions of these resources are pruned.
        self._wanted = {str(xid) for xid in (*ownership.also, *_named_in(interaction))}
        self._listing = {str(xid.resource) for xid in ownership.also if xid.vid}
        self._listing |= {str(each.xid) for each in interaction.resources if each.versions}
        self._model = model
        self._authority = authority
        # The owned members of the set at the time of `compose`, for `confirm`.
        self._pruned_from: set[str] = set()

    @property
    def is_large(self) -> bool:
        return self.ownership.prunes or self.interaction.size > MANY_ENTITIES

    def locks(self) -> Touched:
        owned = self.ownership
        touched = touched_by(self._composed(), 0)
        return Touched(
            groups=touched.groups - {"/"},
            groups_exclusive=True,
            registry_exclusive=owned.prunes and bool(owned.scopes or owned.set),
            catalog_exclusive=touched.catalog_exclusive or Xid() in owned.scopes,
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
            # Hidden members stay, or else the client could take entities from a set unseen.
            unseen = {xid for xid in members if xid not in seen}
            await store.keep_members(connection, name, self._wanted | unseen)
        states = {**outcome.before, **outcome.after}
        brought = [
            xid
            for xid in self._wanted
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
        scopes = [*map(str, self.ownership.scopes)] or map(group_path, self._wanted)
        rows = await store.load_subtrees(connection, sorted(owned if name else {*scopes}))
        due = [
            row
            for row in rows
            if row.kind != "registry" and row.xid not in self._wanted
            if not name or row.xid in owned
            if row.kind != "version" or str(row.path.resource) in self._listing
        ]
        foreign = {row.path for row in due if row.authority != self._authority}
        doomed = {row.path for row in due} - foreign
        staying = {
            row.path.group for row in rows if row.kind == "resource" and row.path not in doomed
        }
        # A group stays with a resource that stays, lest the deletion of the group take it along.
        kept = doomed & staying
        return Pruned(
            deletes=tuple(roots_of(doomed - kept)),
            left_alone=tuple(map(str, roots_of(foreign))),
            kept=tuple(map(str, kept)),
        )

    async def _read_owned(self, connection: Connection) -> set[str]:
        """The xids to prune: the members of the applied set that the applied documents lack.

        Members that belong to another set, too, are excluded.
        """
        name = self.ownership.set
        due = {*await store.members_of(connection, name)} - self._wanted
        return due - await store.claimed_by_others(connection, name, due)
