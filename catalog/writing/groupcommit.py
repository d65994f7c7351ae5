"""Small interactions that come at the same time share a transaction, which costs more than they.

While some transactions are under way, those that come meanwhile wait for the next. Each is
still refused or applied for itself, with an epoch, a time and events of its own; they only
take their locks, are read and are committed together.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from catalog.model.configuration import Configuration
from catalog.model.errors import XRegistryError
from catalog.model.interaction import Interaction
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.store.database import Database, has_committed
from catalog.store.locks import MustBeginAgain, Touched
from catalog.writing.crossreferences import target_in
from catalog.writing.formatcheck import DocumentChecker
from catalog.writing.transaction import Decision, Outcome, WriteTransaction

# What is larger would make the others wait.
_MOST_ENTITIES = 8
_MOST_TOGETHER = 16
# While the database works on one transaction, this process works on others. With more of them
# at a time, fewer interactions would share each.
_MOST_TRANSACTIONS = 3
# Whoever waits longer for another's lock does so alone.
_PATIENCE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Waiting:
    configuration: Configuration
    interaction: Interaction
    touched: Touched
    # What came of it; `None` if it has to be applied alone.
    outcome: asyncio.Future[Outcome | None]

    def settle(self, outcome: Outcome | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, error: BaseException) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)


class _Unfit(Exception):
    """Some interactions can't be applied together."""


class GroupCommit:
    """Those of one process.

    Args:
        checker: knows the formats of documents.
    """

    def __init__(self, database: Database, checker: DocumentChecker) -> None:
        self._database = database
        self._checker = checker
        self._waiting: list[_Waiting] = []
        # Resources that a transaction is about to write.
        self._taken: set[str] = set()
        self._running: set[asyncio.Task[None]] = set()

    async def apply(
        self, configuration: Configuration, interaction: Interaction, touched: Touched
    ) -> Outcome | None:
        """Apply an interaction that `can_share` allows.

        Who is cancelled while it waits for its turn is not applied; later, it may be.

        Returns:
            what it did, or `None` if it did nothing and has to be applied alone.

        Raises:
            XRegistryError: it is refused.
        """
        outcome: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(configuration, interaction, touched, outcome))
        if len(self._running) < _MOST_TRANSACTIONS:
            self._running.add(asyncio.create_task(self._run()))
        applied = await outcome
        has_committed.set(applied is not None)
        return applied

    async def _run(self) -> None:
        """Apply what waits, and what comes meanwhile."""
        task = asyncio.current_task()
        assert task is not None, "it is run as one"
        try:
            while batch := self._take():
                try:
                    await self._apply_batch(batch)
                finally:
                    self._taken.difference_update(*(each.touched.resources for each in batch))
        finally:
            self._running.discard(task)

    def _take(self) -> list[_Waiting]:
        """The next ones, in their order: no two of one resource, all of one configuration."""
        batch: list[_Waiting] = []
        later: list[_Waiting] = []
        taken = set(self._taken)
        for each in self._waiting:
            if each.outcome.done():
                continue
            is_free = taken.isdisjoint(each.touched.resources)
            taken |= each.touched.resources
            first = batch[0] if batch else each
            fits = each.configuration is first.configuration and len(batch) < _MOST_TOGETHER
            (batch if is_free and fits else later).append(each)
        self._waiting = later
        self._taken.update(*(each.touched.resources for each in batch))
        return batch

    async def _apply_batch(self, batch: Sequence[_Waiting]) -> None:
        try:
            done = await self._apply_together(batch)
        except _Unfit:
            for each in batch:
                each.settle(None)
        except BaseException as error:
            for each in batch:
                each.fail(error)
            if not isinstance(error, Exception):
                raise
        else:
            self._database.signal.set([change for _, one in done for change in one.changes])
            for each, outcome in done:
                each.settle(outcome)

    async def _apply_together(self, batch: Sequence[_Waiting]) -> list[tuple[_Waiting, Outcome]]:
        """Apply those that are neither refused nor to be applied alone, and tell the others.

        Raises:
            _Unfit: nothing was written, be it for the sake of one of them.
        """
        async with self._database.transaction() as connection:
            work = WriteTransaction(
                connection=connection,
                authority=self._database.node.authority,
                configuration=batch[0].configuration,
                checker=self._checker,
            )
            try:
                touched = reduce(operator.or_, (each.touched for each in batch))
                await work.load(touched, patience_seconds=_PATIENCE_SECONDS)
                kept = [each for each in batch if await _is_kept(work, each)]
                outcomes = await work.write() if kept else []
            except Exception as error:
                raise _Unfit from error
        return list(zip(kept, outcomes, strict=True))


async def _is_kept(work: WriteTransaction, waiting: _Waiting) -> bool:
    """Whether an interaction is part of the work; if not, it is told why."""
    try:
        decision = await work.decide(waiting.interaction, waiting.touched)
    except XRegistryError as refusal:
        waiting.fail(refusal)
        return False
    except MustBeginAgain:
        waiting.settle(None)
        return False
    if _is_reference(decision):
        waiting.settle(None)
        return False
    work.keep(decision)
    return True


def _is_reference(decision: Decision) -> bool:
    """Whether it was decided by what a cross reference shows, which another may be writing."""
    return any("xref" in entity.attributes for entity in decision.before.values())


def can_share(interaction: Interaction, model: Model) -> bool:
    """Whether it is small, soon decided, and decided by what it touches alone."""
    return (
        len(interaction.groups) + len(interaction.resources) <= _MOST_ENTITIES
        and interaction.registry is None
        and not interaction.deletes
        and not any(group.body is not None for group in interaction.groups)
        and not any(target_in(upsert.meta) for upsert in interaction.resources)
        and not any(_is_checked(upsert.xid, model) for upsert in interaction.resources)
    )


def _is_checked(resource: Xid, model: Model) -> bool:
    """Whether documents are read, which may take a while."""
    kind = model.groups[resource.groups].resources[resource.resources]
    return kind.validateformat or kind.validatecompatibility
