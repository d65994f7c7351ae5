"""Applies the interactions of one process: alone, composed, as a dry run, or by group commit.

Most interactions with documents bring new documents together with the format. Checking new
documents before the transaction saves a second run of the transaction, so the checks are predicted
from the interaction alone. A prediction may be wrong: the same document may be stored already, and
a version may get the format from the group.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from structlog.contextvars import bind_contextvars

from catalog.formats.checker import Check, CheckedDocument, validation
from catalog.load.workthread import aside, is_long
from catalog.model.caller import EVERYTHING
from catalog.model.concorderrors import HandoverUnderWay
from catalog.model.configuration import Configuration
from catalog.model.documentforms import decode_document, document_bytes, document_names
from catalog.model.errors import XRegistryError
from catalog.model.interaction import Body, Interaction, ResourceUpsert, VersionDocument
from catalog.model.schema import ResourceType
from catalog.store.authoritykeys import OwnSigners
from catalog.store.database import Database
from catalog.store.locks import MustBeginAgain
from catalog.telemetry.processmetrics import ProcessMetrics
from catalog.telemetry.tracing import Tracing
from catalog.writing.documentchecks import CheckedRequests, KnownResults, RequestChecks
from catalog.writing.groupcommit import GroupCommit, is_small
from catalog.writing.largewrite import LargeWrite
from catalog.writing.outcome import Outcome
from catalog.writing.permission import check_writes
from catalog.writing.transaction import (
    Composed,
    Composer,
    Condition,
    Reconfiguration,
    WriteTransaction,
    touched_by,
)


def predicted_checks(interaction: Interaction, configuration: Configuration) -> list[Check]:
    """The validations of the documents in an interaction; none if only changes are written."""
    if interaction.writes_only_changes:
        return []
    found = []
    for upsert in interaction.resources:
        kind = configuration.model.groups[upsert.xid.groups].resources[upsert.xid.resources]
        for body, document in _versions_in(upsert) if kind.validateformat else ():
            format = body.get("format")
            if isinstance(format, str) and configuration.capabilities.validates(format):
                content = _content_of(body, kind, document)
                found += (
                    [validation(format, CheckedDocument.of(content))] if content is not None else []
                )
    return found


def _versions_in(upsert: ResourceUpsert) -> Iterator[tuple[Body, VersionDocument | None]]:
    yield from ((version.body, version.document) for version in upsert.versions)
    if upsert.default is not None:
        yield upsert.default, upsert.document


def _content_of(body: Body, kind: ResourceType, document: VersionDocument | None) -> bytes | None:
    if document is not None:
        return document.body
    value, encoded, _ = document_names(kind)
    # The transaction reports a malformed document, with the subject of the error.
    with contextlib.suppress(ValueError):
        if body.get(encoded) is not None:
            return decode_document(body[encoded])
        if body.get(value) is not None:
            contenttype = str(body.get("contenttype") or "application/json")
            return document_bytes(kind, contenttype, body[value])
    return None


# Attempts under locks. The last attempt locks the whole catalog.
_MOST_ATTEMPTS = 3
# Plans without locks. If entities keep changing while a large interaction is planned, the
# interaction is decided under locks instead.
_MOST_PLANS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeparateWrite:
    """The attempts to apply one interaction, each in transactions of its own.

    Documents are checked between transactions: if documents are still to be checked, the
    transaction is rolled back, and run again once the results are known.
    """

    database: Database
    signers: OwnSigners
    checks: RequestChecks
    configuration: Configuration
    composer: Composer
    condition: Condition | None
    reconfiguration: Reconfiguration | None = None
    is_dry: bool = False

    async def apply(self) -> Outcome:
        is_planned = self.reconfiguration is None and (self.is_dry or self.composer.is_large)
        for attempt in range(-_MOST_PLANS if is_planned else 0, _MOST_ATTEMPTS):
            is_last = attempt == _MOST_ATTEMPTS - 1
            lock_and_write = partial(self._lock_and_write, is_last=is_last)
            try:
                result = await self.checks.complete(
                    self._plan_and_write if attempt < 0 else lock_and_write
                )
            except MustBeginAgain:
                continue
            except HandoverUnderWay as error:
                await self._keep_unseen(error.arguments["group"])
                raise
            if not self.is_dry:
                self.database.signal.set(result.changes)
            return result
        raise AssertionError("nothing changes under a lock on the whole catalog")

    async def _keep_unseen(self, group: str) -> None:
        """Refuse a client without the right to write to a group that is being handed over.

        The lock fails before the rights are checked, and its error would reveal the handover.
        """
        if (scope := self.database.caller.writes) is not EVERYTHING:
            async with self.database.transaction() as connection:
                await check_writes(connection, scope, [group])

    async def _plan_and_write(self, results: KnownResults) -> Outcome:
        large = LargeWrite(
            node=self.database.node,
            caller=self.database.caller,
            configuration=self.configuration,
            signers=self.signers,
            composer=self.composer,
            condition=self.condition,
        )
        async with self.database.overview() as connection:
            plan = await large.plan(connection, results)
        if self.is_dry:
            return plan.outcome
        async with self.database.transaction(is_noted=False) as connection:
            return await large.write(connection, plan)

    async def _lock_and_write(self, results: KnownResults, *, is_last: bool) -> Outcome:
        locks = replace(self.composer.locks(), revision=self.configuration.revision)
        if is_last:
            locks = replace(locks, catalog_exclusive=True)
        async with self.database.transaction(is_noted=False) as connection:
            transaction = WriteTransaction(
                connection=connection,
                node=self.database.node,
                caller=self.database.caller,
                configuration=self.configuration,
                results=results,
                signers=self.signers,
                reconfiguration=self.reconfiguration,
            )
            [result] = await transaction.run([self.composer], locks, condition=self.condition)
            if not isinstance(result, Outcome):
                raise result
            return result


class Writer:
    """Applies each interaction as a whole or not at all, for the caller of `database`."""

    def __init__(
        self,
        database: Database,
        group_commit: GroupCommit,
        checked_requests: CheckedRequests,
        signers: OwnSigners,
        metrics: ProcessMetrics,
        tracing: Tracing,
    ) -> None:
        self._database = database
        self._checked_requests = checked_requests
        self._signers = signers
        self._group_commit = group_commit
        self._count = metrics.count_write
        self._tracing = tracing

    async def apply(
        self,
        configuration: Configuration,
        interaction: Interaction,
        reconfiguration: Reconfiguration | None = None,
        *,
        condition: Condition | None = None,
    ) -> Outcome:
        """Apply an interaction.

        Args:
            configuration: the configuration in force when the request was read.
            reconfiguration: the configuration that the request asks for, with which the
                interaction was read.
            condition: called once the touched entities are locked; may refuse the interaction.
                Called again if documents had to be checked.

        Raises:
            XRegistryError: the interaction is refused, with every violation found.
            ConfigurationChanged: the configuration changed; nothing was written, and the caller
                has to read the request again.
        """
        return await self._counted(
            self._apply(configuration, interaction, reconfiguration, condition)
        )

    async def _apply(
        self,
        configuration: Configuration,
        interaction: Interaction,
        reconfiguration: Reconfiguration | None,
        condition: Condition | None,
    ) -> Outcome:
        revision = configuration.revision
        touched = await aside(interaction.size, touched_by, interaction, revision)
        if reconfiguration is not None:
            touched = replace(touched, catalog_exclusive=True)
        elif condition is None and not is_long() and is_small(interaction, configuration.model):
            outcome = await self._group_commit.apply(configuration, Composed(interaction, touched))
            if outcome is not None:
                # The batch used the node's database, so the commit has to be noted for the caller:
                # a later error of the request must not report that nothing was written.
                self._database.has_committed = True
                return outcome
        # A change of the configuration checks documents throughout the catalog, so the time limit
        # of a request would not fit.
        checks = self._checked_requests.begin(
            self._database.caller.client, is_bounded=reconfiguration is None
        )
        if reconfiguration is None:
            await checks.answers(predicted_checks(interaction, configuration))
        write = _SeparateWrite(
            database=self._database,
            signers=self._signers,
            checks=checks,
            configuration=configuration,
            composer=Composed(interaction, touched),
            condition=condition,
            reconfiguration=reconfiguration,
        )
        return await write.apply()

    async def apply_composed(
        self,
        configuration: Configuration,
        composer: Composer,
        *,
        condition: Condition | None = None,
        is_dry: bool = False,
    ) -> Outcome:
        """Apply the interaction that `composer` composes under locks.

        Args:
            is_dry: decide and check the interaction without writing.

        Raises:
            XRegistryError, ConfigurationChanged: as `apply`, and every error of `composer`.
        """
        write = _SeparateWrite(
            database=self._database,
            signers=self._signers,
            checks=self._checked_requests.begin(self._database.caller.client),
            configuration=configuration,
            composer=composer,
            condition=condition,
            is_dry=is_dry,
        )
        return await (write.apply() if is_dry else self._counted(write.apply()))

    async def _counted(self, applying: Awaitable[Outcome]) -> Outcome:
        """Apply an interaction, count the result, and log the id of the interaction."""
        with self._tracing.within("write") as span:
            try:
                outcome = await applying
            except XRegistryError:
                self._count("refused")
                raise
            self._count("written" if outcome.changes else "unchanged")
            bind_contextvars(interaction=outcome.interaction)
            told = {"concord.interaction": outcome.interaction}
            span.note({**told, "concord.changes": len(outcome.changes)})
            return outcome
