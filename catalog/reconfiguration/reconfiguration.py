"""Puts a configuration in force after every entity complies with the model, of bounded size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from catalog.keys.entitysignature import EntitySigner
from catalog.model.caller import Author
from catalog.model.capabilities import Capabilities
from catalog.model.change import Change
from catalog.model.concorderrors import LimitExceeded
from catalog.model.configuration import Configuration
from catalog.reconfiguration.revalidation import Revalidation
from catalog.store import configuration as store
from catalog.store.configuration import StoredConfiguration
from catalog.store.database import Connection
from catalog.writing.documentchecks import KnownResults

# Building and showing a model of the largest size takes a second.
_MOST_TYPES = 250
_MOST_VALUES = 20_000


def check_model_size(source: Mapping[str, Any]) -> None:
    """Refuse a model that would take long to build and to show, before the build.

    An import counts as much as the largest type that could be imported. `source` is unchecked.

    Raises:
        LimitExceeded
    """
    groups = _objects(source.get("groups"))
    kinds = [kind for group in groups for kind in _objects(group.get("resources"))]
    named = (group.get("ximportresources") for group in groups)
    imports = sum(len(each) for each in named if isinstance(each, list))
    if len(groups) + len(kinds) + imports > _MOST_TYPES:
        raise _too_large(_MOST_TYPES, "types in its model")
    values = _values_in(source)
    if imports:
        values += imports * max(map(_values_in, kinds), default=0)
    if values > _MOST_VALUES:
        raise _too_large(_MOST_VALUES, "values in its model")


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """The values of the members of an object, restricted to objects."""
    members = value.values() if isinstance(value, Mapping) else ()
    return [member for member in members if isinstance(member, Mapping)]


def _values_in(value: Any) -> int:
    found = [value]
    for each in found:
        if isinstance(each, Mapping):
            found += each.values()
        elif isinstance(each, list):
            found += each
    return len(found)


def _too_large(limit: int, things: str) -> LimitExceeded:
    return LimitExceeded(limit=str(limit), things=things, setting="fixed")


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
