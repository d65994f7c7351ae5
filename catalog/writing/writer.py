"""The one way in which requests change the catalog: each is an interaction, whole or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol, TypeAlias, TypeVar

from catalog.model.configuration import Configuration
from catalog.model.interaction import Interaction
from catalog.store.database import Connection, Database
from catalog.store.locks import MustBeginAgain, Touched
from catalog.writing.formatcheck import DocumentChecker
from catalog.writing.groupcommit import GroupCommit, can_share
from catalog.writing.transaction import (
    Decision,
    Outcome,
    Reconfiguration,
    WriteTransaction,
    touched_by,
)

T = TypeVar("T")

# Raises what refuses the request.
Condition: TypeAlias = Callable[[Connection], Awaitable[None]]


class Composer(Protocol):
    """Asks for what depends on more of the catalog than it writes."""

    def foresee(self) -> Touched:
        """Which groups it is going to write, as far as it knows: better once it has composed.

        Beyond so many it is to ask for the catalog as a whole.
        """
        ...

    async def compose(self, connection: Connection) -> Interaction:
        """What to write; nobody else writes in the foreseen groups from now on.

        It is called anew where it asks for more than was foreseen. Locks of its own, which
        it takes before anything else, are the last that the transaction takes.
        """
        ...

    async def conclude(self, connection: Connection, outcome: Outcome) -> None:
        """Take part in the transaction once everything is written, before it is committed."""
        ...


class Writer:
    """Applies the interactions of one process.

    Args:
        checker: knows the formats of documents.
    """

    def __init__(self, database: Database, checker: DocumentChecker) -> None:
        self._database = database
        self._checker = checker
        self._shared = GroupCommit(database, checker)

    async def apply(
        self,
        configuration: Configuration,
        interaction: Interaction,
        becoming: Reconfiguration | None = None,
        *,
        condition: Condition | None = None,
    ) -> Outcome:
        """Apply a request whole, or not at all.

        Args:
            configuration: the one in force when the request was read.
            becoming: the configuration that the request asks for, which the interaction was
                read with.
            condition: is asked once what the request touches is locked, and may refuse it.

        Raises:
            XRegistryError: the request is refused; it carries every violation found.
            Reconfigurationd: nothing was written; the request is to be read again.
        """
        touched = touched_by(interaction, configuration.revision)
        if becoming is None and condition is None and can_share(interaction, configuration.model):
            outcome = await self._shared.apply(configuration, interaction, touched)
            if outcome is not None:
                return outcome
        whole = replace(touched, catalog_exclusive=True)
        for attempt in (touched if becoming is None else whole, whole):
            try:
                return await self._apply_alone(
                    configuration, interaction, attempt, becoming, condition
                )
            except MustBeginAgain:
                continue
        raise AssertionError("nothing can change under a lock on the whole catalog")

    async def apply_composed(
        self,
        configuration: Configuration,
        composer: Composer,
        *,
        condition: Condition | None = None,
    ) -> Outcome:
        """Apply whole, or not at all, what `composer` finds to be asked for.

        The groups that it writes are locked while it looks, so it has to foresee them.

        Args:
            condition: is asked once all that is to be written is locked, and may refuse it.

        Raises:
            XRegistryError, Reconfigurationd: as `apply`; and whatever `composer` raises.
                Nothing was written.
        """
        outcome = await self._compose(
            configuration,
            composer,
            lambda locked: self._apply_under(configuration, composer, locked, condition),
        )
        self._database.signal.set(outcome.changes)
        return outcome

    async def foretell_composed(self, configuration: Configuration, composer: Composer) -> Decision:
        """What `apply_composed` would do: everything is decided and checked, nothing written.

        Raises:
            XRegistryError, Reconfigurationd: as `apply_composed`.
        """
        return await self._compose(
            configuration,
            composer,
            lambda locked: self._foretell_under(configuration, composer, locked),
        )

    async def _compose(
        self,
        configuration: Configuration,
        composer: Composer,
        work: Callable[[Touched], Awaitable[T]],
    ) -> T:
        """Work under the locks that a composer foresees, until these are enough."""
        for is_whole in (False, False, True):
            foreseen = composer.foresee()
            locked = replace(
                foreseen,
                groups_exclusive=True,
                catalog_exclusive=foreseen.catalog_exclusive or is_whole,
                revision=configuration.revision,
            )
            try:
                return await work(locked)
            except MustBeginAgain:
                continue
        raise AssertionError("nothing can change under a lock on the whole catalog")

    async def _apply_under(
        self,
        configuration: Configuration,
        composer: Composer,
        locked: Touched,
        condition: Condition | None,
    ) -> Outcome:
        async with self._database.transaction() as connection:
            work = self._work(connection, configuration)
            work.keep(await _decide_composed(work, composer, locked, condition))
            [outcome] = await work.write()
            await composer.conclude(connection, outcome)
        return outcome

    async def _foretell_under(
        self, configuration: Configuration, composer: Composer, locked: Touched
    ) -> Decision:
        async with self._database.transaction() as connection:
            return await _decide_composed(self._work(connection, configuration), composer, locked)

    async def _apply_alone(
        self,
        configuration: Configuration,
        interaction: Interaction,
        touched: Touched,
        becoming: Reconfiguration | None,
        condition: Condition | None,
    ) -> Outcome:
        async with self._database.transaction() as connection:
            work = self._work(connection, configuration, becoming)
            await work.load(touched)
            if condition is not None:
                await condition(connection)
            outcome = await _complete(work, interaction, touched)
        self._database.signal.set(outcome.changes)
        return outcome

    def _work(
        self,
        connection: Connection,
        configuration: Configuration,
        becoming: Reconfiguration | None = None,
    ) -> WriteTransaction:
        return WriteTransaction(
            connection=connection,
            authority=self._database.node.authority,
            configuration=configuration,
            checker=self._checker,
            becoming=becoming,
        )


async def _complete(work: WriteTransaction, interaction: Interaction, touched: Touched) -> Outcome:
    work.keep(await work.decide(interaction, touched))
    [outcome] = await work.write()
    return outcome


async def _decide_composed(
    work: WriteTransaction, composer: Composer, locked: Touched, condition: Condition | None = None
) -> Decision:
    await work.load(locked)
    interaction = await composer.compose(work.connection)
    touched = touched_by(interaction, work.configuration.revision)
    if not _covers(locked, touched):
        raise MustBeginAgain
    if condition is not None:
        await condition(work.connection)
    # All of these locks are held already, so it waits for nobody.
    whole = locked.catalog_exclusive
    touched = replace(touched, groups_exclusive=True, catalog_exclusive=whole)
    if touched.resources or not touched.groups <= locked.groups:
        await work.load(touched)
    return await work.decide(interaction, touched)


def _covers(locked: Touched, touched: Touched) -> bool:
    """Whether locks on whole groups, beside which resources need none, are all that is needed."""
    return locked.catalog_exclusive or (
        touched.groups <= locked.groups
        and (locked.registry_exclusive or not touched.registry_exclusive)
    )
