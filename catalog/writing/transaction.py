"""What interactions do to the catalog inside a transaction: load, decide, write."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from catalog.model.change import Change, changes_between
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity, Tombstone
from catalog.model.interaction import Interaction
from catalog.model.xid import Xid
from catalog.store.changes import Position
from catalog.store.database import Connection
from catalog.store.locks import Locked, Touched, lock_and_load
from catalog.store.writes import Write, write
from catalog.writing.content import StoredContent
from catalog.writing.crossreferences import target_in
from catalog.writing.formatcheck import DocumentChecker
from catalog.writing.planning import Planning

# Beyond so many locks it is cheaper, for everybody, to take the catalog whole.
_MOST_LOCKS = 200


class Reconfiguration(Protocol):
    """A configuration that an interaction puts in force together with what it writes."""

    @property
    def configuration(self) -> Configuration: ...

    def noted_in(self, changes: Sequence[Change], before: Configuration) -> list[Change]:
        """The changes of the interaction; the registry's names what is configured anew."""
        ...

    async def put_in_force(
        self,
        connection: Connection,
        before: Configuration,
        *,
        checker: DocumentChecker,
        interaction: str,
        now: datetime,
    ) -> None:
        """Bring every entity into line with the configuration, or refuse, and save it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an interaction did.

    `position` is where the change log shows it: a reader of the log that has come this
    far has seen everything of it. `overlooked` are read-only entities that it left alone.
    """

    interaction: str
    at: datetime
    position: Position
    before: Mapping[str, Entity]
    after: Mapping[str, Entity | Tombstone]
    changes: list[Change]
    overlooked: frozenset[str] = frozenset()

    def is_new(self, xid: Xid) -> bool:
        return str(xid) not in self.before and isinstance(self.after.get(str(xid)), Entity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What an interaction is going to do, since nothing speaks against it."""

    write: Write
    before: Mapping[str, Entity]
    after: Mapping[str, Entity | Tombstone]
    overlooked: frozenset[str]

    def done(self, position: Position) -> Outcome:
        return Outcome(
            interaction=self.write.interaction,
            at=self.write.at,
            position=position,
            before=self.before,
            after=self.after,
            changes=list(self.write.changes),
            overlooked=self.overlooked,
        )


@dataclass(slots=True, kw_only=True)
class WriteTransaction:
    """One transaction: each interaction is decided on what the ones before it leave.

    Args:
        configuration: the one that all of them were read with.
        becoming: the configuration that the only one asks for, which it was read with.
        checker: knows the formats of documents.
    """

    connection: Connection
    authority: str
    configuration: Configuration
    checker: DocumentChecker
    becoming: Reconfiguration | None = None
    _locked: Locked = field(init=False)
    _is_exclusive: bool = field(init=False)
    # By the group or the resource that a row is of.
    _held: dict[str, dict[str, Entity]] = field(init=False, default_factory=dict)
    _decisions: list[Decision] = field(init=False, default_factory=list)

    async def load(self, touched: Touched, *, patience_seconds: float = 0) -> None:
        """Lock what interactions touch, and read it.

        Raises:
            MustBeginAgain, ConfigurationChanged: as `lock_and_load`.
        """
        self._locked = await lock_and_load(
            self.connection, touched, patience_seconds=patience_seconds
        )
        self._is_exclusive = touched.catalog_exclusive
        for entity in self._locked.entities.values():
            self._held.setdefault(_owner(entity), {})[entity.xid] = entity

    async def decide(self, interaction: Interaction, touched: Touched) -> Decision:
        """What an interaction is to write, which is done once it is kept.

        Args:
            touched: by this one; it was loaded, alone or with more.

        Raises:
            XRegistryError: it is refused, with every violation found.
            MustBeginAgain: it has to be alone, with the catalog locked as a whole.
        """
        id, now = uuid.uuid4().hex, datetime.now(UTC)
        decided = await self._planning().decide(interaction, self._before(touched), now)
        before, after = decided.before, decided.planned.after
        changes = changes_between(
            {**decided.referred, **before}, after, self._configuration_after.model
        )
        if self.becoming is not None:
            changes = self.becoming.noted_in(changes, self.configuration)
        return Decision(
            write=Write(
                interaction=id,
                at=now,
                entities=[e for e in after.values() if isinstance(e, Entity)],
                tombstones=[t for t in after.values() if isinstance(t, Tombstone)],
                changes=changes,
                dropped_documents=decided.planned.dropped_documents,
                revived=list(decided.tombstones),
            ),
            before=before,
            after=after,
            overlooked=decided.overlooked,
        )

    def keep(self, decision: Decision) -> None:
        """Let the next interaction, which touches other resources, find this one done."""
        self._decisions.append(decision)
        for entity in decision.write.entities:
            if entity.kind in ("registry", "group"):
                self._held[entity.xid] = {entity.xid: entity}

    async def write(self) -> list[Outcome]:
        """Write what was kept, in this order; the caller commits and announces it.

        Raises:
            XRegistryError: the configuration is refused.
        """
        writes = [decision.write for decision in self._decisions]
        position = await write(self.connection, *writes)
        if self.becoming is not None:
            [only] = writes
            await self.becoming.put_in_force(
                self.connection,
                self.configuration,
                checker=self.checker,
                interaction=only.interaction,
                now=only.at,
            )
        return [decision.done(position) for decision in self._decisions]

    @property
    def _configuration_after(self) -> Configuration:
        return self.configuration if self.becoming is None else self.becoming.configuration

    def _planning(self) -> Planning:
        return Planning(
            holdings=StoredContent(self.connection),
            configuration=self._configuration_after,
            authority=self.authority,
            checker=self.checker,
            is_exclusive=self._is_exclusive,
            is_referred=self._locked.is_referred,
            has_lived=self._locked.has_lived,
        )

    def _before(self, touched: Touched) -> dict[str, Entity]:
        before: dict[str, Entity] = {}
        for owner in ("/", *touched.groups, *touched.resources):
            before |= self._held.get(owner, {})
        return before


def touched_by(interaction: Interaction, revision: int) -> Touched:
    """What an interaction is about to write.

    Args:
        revision: of the configuration that it was read with.
    """
    written = [upsert.xid for upsert in interaction.resources]
    targets = [xid for upsert in interaction.resources if (xid := target_in(upsert.meta))]
    deleted = [delete.xid for delete in interaction.deletes]
    groups = {str(upsert.xid) for upsert in interaction.groups}
    groups |= {str(xid.group) for xid in (*deleted, *targets)}
    resources = {str(xid.resource) for xid in (*written, *deleted, *targets) if xid.rid}
    return Touched(
        groups=frozenset(groups),
        resources=frozenset(resources),
        registry_exclusive=interaction.registry is not None
        or any(xid.kind == "group" for xid in deleted),
        groups_exclusive=any(upsert.body is not None for upsert in interaction.groups)
        or bool(deleted),
        catalog_exclusive=len(groups) + len(resources) > _MOST_LOCKS,
        revision=revision,
    )


def _owner(entity: Entity) -> str:
    return entity.xid.rsplit("/", 2)[0] if entity.kind == "version" else entity.xid
