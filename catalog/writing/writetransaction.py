"""The transaction of a write: lock, compose, decide, write, conclude."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

from catalog.keys.entitysignature import EntitySigner
from catalog.load.workthread import aside
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.errors import XRegistryError
from catalog.model.interaction import Interaction
from catalog.model.xid import parent_of
from catalog.store.authoritykeys import OwnSigners
from catalog.store.changes import LogCursor, read_newest
from catalog.store.connections import seen_by
from catalog.store.database import Connection, Database
from catalog.store.locks import Locked, MustBeginAgain, Refusal, Touched, lock_and_load
from catalog.store.writes import write
from catalog.writing.content import StoredContent
from catalog.writing.crossreferences import target_in
from catalog.writing.decider import Decider
from catalog.writing.documentchecks import KnownResults
from catalog.writing.outcome import Outcome
from catalog.writing.writescope import check_interaction, seen_among

# With more resources, their groups are locked, and with more groups, the whole catalog.
_MOST_LOCKS = 200
MANY_ENTITIES = 100
"""Interactions with more entities are planned outside of locks."""
CLOSED_TO_CLIENTS: frozenset[Refusal] = frozenset({"closed", "model", "reserved"})
"""The positions of the gate, and the reservations, at which clients may not write entities."""

# Raises an error to refuse the request.
Condition: TypeAlias = Callable[[Connection], Awaitable[None]]


class Composer(ABC):
    """Composes an interaction that depends on more entities than the interaction writes.

    The composer runs in the task of the client, and reads only entities that the client may see.
    """

    @property
    def is_large(self) -> bool:
        """Whether the write is planned at a snapshot, without locks (`SeparateWrite`).

        Then `compose` reads the snapshot. By the time of `confirm`, entities that `compose` read
        and the interaction does not touch may have changed.
        """
        return False

    @abstractmethod
    def locks(self) -> Touched:
        """The locks that `compose` and the interaction need, as far as known.

        Called again after `compose` if the locks did not suffice. Asks for the whole catalog
        instead of too many groups.
        """

    @abstractmethod
    async def compose(self, connection: Connection) -> Interaction:
        """Compose the interaction under the locks of `locks`.

        A composer that needs further locks takes them before reading; the transaction waits for no
        lock after `compose`.
        """

    async def confirm(self, connection: Connection) -> None:  # noqa: B027
        """Verify under locks that an interaction composed without locks is still right.

        Raises:
            MustBeginAgain: the interaction has to be composed again.
        """

    async def conclude(self, connection: Connection, outcome: Outcome) -> None:  # noqa: B027
        """Take part in the transaction between the last write and the commit."""


@dataclass(frozen=True, slots=True)
class Composed(Composer):
    """The composer of an interaction that depends only on the entities that it touches."""

    interaction: Interaction
    touched: Touched

    @property
    def is_large(self) -> bool:
        deletes = self.interaction.deletes
        return self.interaction.size > MANY_ENTITIES or any(
            delete.xid.kind == "group" for delete in deletes
        )

    def locks(self) -> Touched:
        return self.touched

    async def compose(self, connection: Connection) -> Interaction:
        return self.interaction


class Reconfiguration(Protocol):
    """A configuration that an interaction puts in force together with the writes."""

    @property
    def configuration(self) -> Configuration: ...

    @property
    def differences(self) -> frozenset[str]:
        """The names of the parts that differ from the configuration in force."""
        ...

    async def put_in_force(
        self,
        connection: Connection,
        before: Configuration,
        written: Outcome,
        *,
        results: KnownResults,
        signer: EntitySigner | None,
    ) -> None:
        """Adapt every entity to the configuration, or refuse the configuration, and save both.

        Args:
            before: the configuration in force.
            written: the interaction, whose author and time the adapted entities get.

        Raises:
            ChecksDue: documents have to be checked first.
        """
        ...


@dataclass(slots=True, kw_only=True)
class WriteTransaction:
    """One transaction: each interaction is decided on the state after the interaction before.

    Args:
        database: the database, for the caller whose view of the catalog composers read.
        configuration: the configuration with which the interactions were read.
        reconfiguration: the configuration that a single interaction asks for, with which the
            interaction was read.
    """

    connection: Connection
    database: Database
    configuration: Configuration
    results: KnownResults
    signers: OwnSigners
    reconfiguration: Reconfiguration | None = None
    _locked: Locked = field(init=False)
    _locks: Touched = field(init=False)
    # By the group or the resource that an entity belongs to.
    _stored: dict[str, dict[str, Entity]] = field(init=False, default_factory=dict)

    async def run(
        self,
        batch: Sequence[Composer],
        locks: Touched,
        *,
        condition: Condition | None = None,
        patience_seconds: float = 0,
    ) -> list[Outcome | XRegistryError | MustBeginAgain]:
        """Lock, decide every interaction, and write the interactions that are not refused.

        The caller opens and commits the transaction.

        Args:
            batch: interactions of different resources.
            locks: the locks for the whole batch.
            condition: may refuse an interaction, once the entities to write are locked.
            patience_seconds: as in `lock_and_load`.

        Returns:
            for each interaction the outcome, the error of the refusal, or `MustBeginAgain` if the
            interaction has to be written alone or needs further locks.

        Raises:
            MustBeginAgain, ConfigurationChanged, CatalogRecovering, HandoverUnderWay: as
                `lock_and_load`.
            ChecksDue: nothing was written, since documents have to be checked first.
            XRegistryError: the reconfiguration is refused.
        """
        await self._load(locks, patience_seconds)
        results: list[Outcome | XRegistryError | MustBeginAgain] = []
        for composer in batch:
            try:
                outcome = await self._decide(composer, condition)
                # Another interaction of the batch may write the target of a cross reference.
                if len(batch) > 1 and any("xref" in e.attributes for e in outcome.before.values()):
                    raise MustBeginAgain
                results.append(outcome)
                self._keep(outcome)
            except (XRegistryError, MustBeginAgain) as refusal:
                results.append(refusal)
        # Before the rows are written: a document without a result has counted as good so far.
        self.results.raise_due()
        written = [each for each in results if isinstance(each, Outcome)]
        if not written:
            return results
        signer = await self.signers.get(self.connection, self._locked.signing_key)
        position = await write(self.connection, *written, signer=signer)
        if self.reconfiguration is not None:
            await self.reconfiguration.put_in_force(
                self.connection, self.configuration, *written, results=self.results, signer=signer
            )
            # The reconfiguration may have logged further changes.
            position = await read_newest(self.connection)
        cursor = LogCursor.at(self.database.node.instance, position)
        results = [
            replace(each, cursor=cursor) if isinstance(each, Outcome) else each for each in results
        ]
        for composer, each in zip(batch, results, strict=True):
            if isinstance(each, Outcome) and not isinstance(composer, Composed):
                async with seen_by(self.connection, self.database.caller):
                    await composer.conclude(self.connection, each)
        return results

    async def _load(self, locks: Touched, patience_seconds: float = 0) -> None:
        self._locks = locks
        # A change of the model alone is admitted at the position `model` of the gate.
        is_of_model = self.reconfiguration is not None and not (locks.groups or locks.resources)
        refused_at = frozenset[Refusal]({"closed"}) if is_of_model else CLOSED_TO_CLIENTS
        self._locked = await lock_and_load(
            self.connection,
            replace(locks, refused_at=refused_at),
            patience_seconds=patience_seconds,
        )
        entities = self._locked.entities.values()
        await aside(len(entities), self._file, entities)

    def _file(self, entities: Iterable[Entity]) -> None:
        for entity in entities:
            owner = parent_of(entity.xid) if entity.kind == "version" else entity.xid
            self._stored.setdefault(owner, {})[entity.xid] = entity

    def _held(self, touched: Touched) -> dict[str, Entity]:
        stored: dict[str, Entity] = {}
        for owner in ("/", *touched.groups, *touched.resources):
            stored |= self._stored.get(owner, {})
        return stored

    async def _decide(self, composer: Composer, condition: Condition | None) -> Outcome:
        interaction = await self._compose(composer)
        # First of all checks, since the others could reveal entities hidden from the client.
        await check_interaction(self.connection, interaction)
        if isinstance(composer, Composed):
            touched = composer.touched
        else:
            revision = self.configuration.revision
            touched = await aside(interaction.size, touched_by, interaction, revision)
        if not self._locks.suffice_for(touched):
            raise MustBeginAgain
        if condition is not None:
            async with seen_by(self.connection, interaction.caller):
                await condition(self.connection)
        if not (
            touched.groups <= self._locks.groups and touched.resources <= self._locks.resources
        ):
            # The locks on the groups or the catalog cover the entities, so the call does not wait.
            await self._load(
                replace(
                    touched,
                    groups_exclusive=self._locks.groups_exclusive,
                    catalog_exclusive=self._locks.catalog_exclusive,
                )
            )
        count = len(self._locked.entities) + len(touched.groups) + len(touched.resources)
        stored = await aside(count, self._held, touched)
        stored = await seen_among(self.connection, interaction.caller.sees, stored)
        decider = Decider(
            content=StoredContent(self.connection, interaction.caller),
            configuration=(self.reconfiguration or self).configuration,
            authority=self.database.node.authority,
            checker=self.results,
            is_exclusive=self._locks.catalog_exclusive,
            is_referred=self._locked.is_referred,
            has_lived=self._locked.has_lived,
        )
        # The time is read under the locks, so that the later of two writes has the later time.
        outcome = await decider.decide(interaction, stored, datetime.now(UTC))
        if self.reconfiguration is None:
            return outcome
        names = self.reconfiguration.differences
        changes = [
            replace(change, changed=tuple(sorted({*change.changed, *names})))
            if change.kind == "registry"
            else change
            for change in outcome.changes
        ]
        return replace(outcome, changes=changes)

    async def _compose(self, composer: Composer) -> Interaction:
        if isinstance(composer, Composed):
            return composer.interaction
        async with seen_by(self.connection, self.database.caller):
            return await composer.compose(self.connection)

    def _keep(self, outcome: Outcome) -> None:
        """Let the next interaction, which touches different resources, begin with the outcome."""
        for entity in outcome.entities:
            if entity.kind in ("registry", "group"):
                self._stored[entity.xid] = {entity.xid: entity}


def touched_by(interaction: Interaction, revision: int) -> Touched:
    """The entities that an interaction, read with the revision of a model, is about to write."""
    written = [upsert.xid for upsert in interaction.resources]
    metas = (upsert.meta for upsert in interaction.resources if upsert.meta is not None)
    targets = [xid for meta in metas if (xid := target_in(meta))]
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
        or bool(deleted)
        or len(resources) > _MOST_LOCKS,
        catalog_exclusive=len(groups) > _MOST_LOCKS,
        revision=revision,
    )
