"""Composes an apply: writes the changes in documents, and prunes entities without a document."""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalog.model.entity import Entity
from catalog.model.errors import FirstViolations
from catalog.model.interaction import Delete, Interaction
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.store import applysets
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.locks import MustBeginAgain, Touched
from catalog.writing.applypruning import Pruned, Wanted, lost_references, prune
from catalog.writing.outcome import Outcome
from catalog.writing.transaction import touched_by

_MOST_GROUPS = 100
_MANY_ENTITIES = 100


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


class Apply:
    """The composer of an interaction that writes only changes, with the deletes of pruning.

    After `compose`, `pruned` has the entities to delete and to keep.

    Args:
        interaction: the upserts, as read from the documents.
        authority: the node's authority.
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
            members = await applysets.members_of(connection, name)
            seen = await store.load(connection, members)
            unseen = {xid for xid in members if xid not in seen}
            await applysets.keep_members(connection, name, self._wanted.xids | unseen)
        states = {**outcome.before, **outcome.after}
        brought = [
            xid
            for xid in self._wanted.xids
            if isinstance(state := states.get(xid), Entity) and state.authority == self._authority
        ]
        await applysets.add_members(connection, name, brought)

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
        roots = sorted(owned) if name else self._roots()
        rows = await store.load_subtrees(connection, roots)
        return prune(
            {row.xid: row for row in rows},
            self._wanted,
            authority=self._authority,
            is_owned=(lambda xid: xid in owned) if name else (lambda _: True),
        )

    async def _read_owned(self, connection: Connection) -> set[str]:
        """The members of the set that belong to no other set and are not in the documents."""
        name = self.ownership.set
        due = {*await applysets.members_of(connection, name)} - self._wanted.xids
        return due - await applysets.claimed_by_others(connection, name, due)

    def _roots(self) -> list[str]:
        """The xids at and below which entities are owned."""
        if self.ownership.scopes:
            return sorted({str(xid) for xid in self.ownership.scopes})
        return sorted({str(Xid.parse(xid).group) for xid in self._wanted.xids})
