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

from structlog.contextvars import bind_contextvars

from catalog.formats.checker import Check, CheckedDocument, validation
from catalog.load.workthread import aside, is_long
from catalog.model.configuration import Configuration
from catalog.model.documentforms import decode_document, document_bytes, document_names
from catalog.model.errors import XRegistryError
from catalog.model.interaction import Body, Interaction, ResourceUpsert, VersionDocument
from catalog.model.schema import ResourceType
from catalog.store.authoritykeys import OwnSigners
from catalog.store.database import Database
from catalog.telemetry.processmetrics import ProcessMetrics
from catalog.telemetry.tracing import Tracing
from catalog.writing.documentchecks import CheckedRequests
from catalog.writing.groupcommit import GroupCommit, is_small
from catalog.writing.outcome import Outcome
from catalog.writing.separatewrite import SeparateWrite
from catalog.writing.writetransaction import (
    Composed,
    Composer,
    Condition,
    Reconfiguration,
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


@dataclass(slots=True)
class Writer:
    """Applies each interaction as a whole or not at all, for the caller of `database`."""

    database: Database
    group_commit: GroupCommit
    checked_requests: CheckedRequests
    signers: OwnSigners
    metrics: ProcessMetrics
    tracing: Tracing

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
            outcome = await self.group_commit.apply(configuration, Composed(interaction, touched))
            if outcome is not None:
                # The batch used the node's database, so the commit has to be noted for the caller:
                # a later error of the request must not report that nothing was written.
                self.database.has_committed = True
                return outcome
        # A change of the configuration checks documents throughout the catalog, so the time limit
        # of a request would not fit.
        checks = self.checked_requests.begin(
            self.database.caller.client, is_bounded=reconfiguration is None
        )
        if reconfiguration is None:
            await checks.answers(predicted_checks(interaction, configuration))
        write = SeparateWrite(
            database=self.database,
            signers=self.signers,
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
        write = SeparateWrite(
            database=self.database,
            signers=self.signers,
            checks=self.checked_requests.begin(self.database.caller.client),
            configuration=configuration,
            composer=composer,
            condition=condition,
            is_dry=is_dry,
        )
        return await (write.apply() if is_dry else self._counted(write.apply()))

    async def _counted(self, applying: Awaitable[Outcome]) -> Outcome:
        """Apply an interaction, count the result, and log the id of the interaction."""
        with self.tracing.within("write") as span:
            try:
                outcome = await applying
            except XRegistryError:
                self.metrics.count_write("refused")
                raise
            self.metrics.count_write("written" if outcome.changes else "unchanged")
            bind_contextvars(interaction=outcome.interaction)
            told = {"concord.interaction": outcome.interaction}
            span.note({**told, "concord.changes": len(outcome.changes)})
            return outcome
