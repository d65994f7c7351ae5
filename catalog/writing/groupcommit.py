"""Commits small concurrent interactions together, since the commit dominates the cost.

While transactions are running, new interactions wait for the next transaction. Each interaction is
still refused or written separately, with a separate epoch, time and events; the batch only shares
the locking, the reading, the writing and the commit.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from structlog.contextvars import clear_contextvars

from catalog.model.caller import node_caller
from catalog.model.configuration import Configuration
from catalog.model.interaction import Interaction
from catalog.model.schema import Model
from catalog.model.tracecontext import current_trace
from catalog.store.authoritykeys import OwnSigners
from catalog.store.database import Database, SharedDatabase
from catalog.store.locks import MustBeginAgain
from catalog.writing.crossreferences import target_in
from catalog.writing.documentchecks import CheckedRequests, KnownResults
from catalog.writing.outcome import Outcome
from catalog.writing.writetransaction import Composed, WriteTransaction

# Larger interactions would delay the rest of a batch.
_MOST_ENTITIES = 8
_MOST_TOGETHER = 16
# While the database works on one transaction, the process prepares the next. With more
# transactions at a time, fewer interactions would share each.
_MOST_TRANSACTIONS = 3
# A batch that waits longer for a lock is split, and each interaction is applied alone.
_PATIENCE_SECONDS = 0.1
# The client of a batch, so that the connection counts for no client with a request in the batch.
_ALL_CLIENTS = "*"


@dataclass(frozen=True, slots=True)
class _Waiting:
    configuration: Configuration
    composed: Composed
    # `None` if the interaction has to be applied alone.
    outcome: asyncio.Future[Outcome | None]

    @property
    def resources(self) -> frozenset[str]:
        return self.composed.touched.resources

    def settle(self, result: Outcome | BaseException | None) -> None:
        if self.outcome.done():
            return
        if isinstance(result, BaseException):
            self.outcome.set_exception(result)
        else:
            self.outcome.set_result(result)


class _Unfit(Exception):
    """Nothing of a batch was written, possibly because of a single interaction."""


class GroupCommit:
    """The small interactions of one process."""

    def __init__(
        self, database: SharedDatabase, checked_requests: CheckedRequests, signers: OwnSigners
    ) -> None:
        caller = replace(node_caller(), client=_ALL_CLIENTS)
        self._database = Database(database, caller)
        self._checked_requests = checked_requests
        self._signers = signers
        self._waiting: list[_Waiting] = []
        # Resources that a running transaction writes.
        self._taken: set[str] = set()
        self._running: set[asyncio.Task[None]] = set()

    async def apply(self, configuration: Configuration, composed: Composed) -> Outcome | None:
        """Apply an interaction that `is_small`.

        If the caller is cancelled while the interaction waits for a transaction, the interaction is
        not applied; after a later cancellation, the interaction may be applied.

        Returns:
            the outcome, or `None` if nothing was written and the caller has to apply the
            interaction alone.

        Raises:
            XRegistryError: the interaction is refused.
        """
        # A batch is decided in a task of its own, which has none of the traces of its requests.
        composed.interaction.trace = current_trace.get()
        outcome: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(configuration, composed, outcome))
        if len(self._running) < _MOST_TRANSACTIONS:
            self._running.add(asyncio.create_task(self._run()))
        return await outcome

    async def _run(self) -> None:
        """Apply waiting interactions until the queue is empty."""
        # The task works for many requests, so logs and traces must not name the request that
        # happened to start the task.
        clear_contextvars()
        current_trace.set(None)
        task = asyncio.current_task()
        assert task is not None, "it is run as a task"
        try:
            while batch := self._take():
                try:
                    await self._apply_batch(batch)
                finally:
                    self._taken.difference_update(*(each.resources for each in batch))
        finally:
            self._running.discard(task)

    def _take(self) -> list[_Waiting]:
        """Take the next interactions in order, of different resources and one configuration.

        An interaction that has to wait keeps its resources taken for the rest of the pass, so that
        later interactions with the same resources do not overtake.
        """
        batch: list[_Waiting] = []
        later: list[_Waiting] = []
        taken = set(self._taken)
        for each in self._waiting:
            # The client has gone, so that the interaction must not be applied any more.
            if each.outcome.done():
                continue
            is_free = taken.isdisjoint(each.resources)
            taken |= each.resources
            first = batch[0] if batch else each
            fits = each.configuration is first.configuration and len(batch) < _MOST_TOGETHER
            (batch if is_free and fits else later).append(each)
        # No step above awaits, so that no interaction is added to the queue meanwhile.
        self._waiting = later
        self._taken.update(*(each.resources for each in batch))
        return batch

    async def _apply_batch(self, batch: Sequence[_Waiting]) -> None:
        try:
            results = await self._write(batch)
        except _Unfit:
            for each in batch:
                each.settle(None)
        except BaseException as error:
            for each in batch:
                each.settle(error)
            # A cancellation has to end the task, too.
            if not isinstance(error, Exception):
                raise
        else:
            # Before the clients are answered: a read after the answer must not find an answer in
            # the cache that the write has made obsolete.
            outcomes = (each for each in results if isinstance(each, Outcome))
            self._database.signal.set([change for each in outcomes for change in each.changes])
            for each, result in zip(batch, results, strict=True):
                each.settle(None if isinstance(result, MustBeginAgain) else result)

    async def _write(self, batch: Sequence[_Waiting]) -> Sequence[Outcome | Exception]:
        async with self._database.transaction() as connection:
            transaction = WriteTransaction(
                connection=connection,
                database=self._database,
                configuration=batch[0].configuration,
                results=KnownResults(self._checked_requests.begin(_ALL_CLIENTS)),
                signers=self._signers,
            )
            try:
                return await transaction.run(
                    [each.composed for each in batch],
                    reduce(operator.or_, (each.composed.touched for each in batch)),
                    patience_seconds=_PATIENCE_SECONDS,
                )
            except Exception as error:
                # An error of the commit, which is the end of the outer block, is not caught here:
                # the writes may be in the database already, and must not be applied again.
                raise _Unfit from error


def is_small(interaction: Interaction, model: Model) -> bool:
    """Whether an interaction is quick to decide: few touched entities, no checks of documents."""
    xids = (upsert.xid for upsert in interaction.resources)
    kinds = (model.groups[xid.groups].resources[xid.resources] for xid in xids)
    return (
        len(interaction.groups) + len(interaction.resources) <= _MOST_ENTITIES
        and interaction.registry is None
        and not interaction.deletes
        and not any(group.body is not None for group in interaction.groups)
        and not any(target_in(upsert.meta) for upsert in interaction.resources)
        and not any(kind.validateformat or kind.validatecompatibility for kind in kinds)
    )
