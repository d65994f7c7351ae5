"""Puts a configuration in force after every entity complies with the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from catalog.configuring.revalidation import Revalidation
from catalog.keys.entitysignature import EntitySigner
from catalog.model.author import Author
from catalog.model.capabilities import Capabilities
from catalog.model.change import Change
from catalog.model.configuration import Configuration
from catalog.store import configuration as store
from catalog.store.configuration import StoredConfiguration
from catalog.store.database import Connection
from catalog.writing.documentchecks import KnownResults


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationChange:
    """The configuration that a request asks for.

    `differences` names the parts that differ from the configuration in force, `offered` has the
    capabilities that the server supports, and `authority` is the authority of the node.
    """

    configuration: Configuration
    differences: frozenset[str]
    offered: Capabilities
    authority: str

    def noted_in(self, changes: Sequence[Change]) -> list[Change]:
        """The changes, with the reconfigured parts added to the change of the registry."""
        names = self.differences
        return [
            replace(change, changed=tuple(sorted({*change.changed, *names})))
            if change.kind == "registry"
            else change
            for change in changes
        ]

    async def put_in_force(
        self,
        connection: Connection,
        before: Configuration,
        *,
        results: KnownResults,
        interaction: str,
        author: Author,
        now: datetime,
        signer: EntitySigner | None,
    ) -> None:
        """Put the configuration in force, after the writes of the interaction.

        The caller holds the lock on the whole catalog. Reads only the entities whose type differs,
        or whose documents become checkable.

        Raises:
            ModelComplianceError: entities do not comply; has a limited number of violations.
            CapabilityError: entities do not comply, although the model stays the same.
            ChecksDue: documents have to be checked first.
        """
        after, capabilities = self.configuration, self.configuration.capabilities
        await Revalidation(
            connection=connection,
            before=before,
            after=after,
            authority=self.authority,
            results=results,
            interaction=interaction,
            author=author,
            now=now,
            signer=signer,
        ).run()
        # Stored as `None`, so that the node gets the capabilities that a later release adds.
        is_initial = capabilities == self.offered.initially
        stored = StoredConfiguration(
            modelsource=after.model.source,
            resolved=after.resolved,
            capabilities=None if is_initial else capabilities.as_json(),
            revision=after.revision,
        )
        await store.save(connection, stored)
