"""Composes an apply: writes the changes in documents, and prunes entities not in them."""

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
        prunes: delete entities that are owned and not in the documents.
        scopes: entities at or below these are owned. Without scopes and without a set, the
            content of the groups in the documents is owned.
        set: entities are owned that earlier applies brought under this name, unless another
            set has them as well. The entities of this apply are added to the set.
        also: entities that the documents have and the interaction does not write.
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
        authority: this node's.
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
        # Of the set, as `compose` read it.
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
        """Find what to delete; what its client does not see is left, and stays in its set."""
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
        """The members of the set that no other set has, and the documents do not have."""
        name = self.ownership.set
        due = {*await applysets.members_of(connection, name)} - self._wanted.xids
        return due - await applysets.claimed_by_others(connection, name, due)

    def _roots(self) -> list[str]:
        """The xids at and below which everything is owned."""
        if self.ownership.scopes:
            return sorted({str(xid) for xid in self.ownership.scopes})
        return sorted({str(Xid.parse(xid).group) for xid in self._wanted.xids})
