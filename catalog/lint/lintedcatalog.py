"""Applies documents to a catalog in memory as a node would, and collects the violations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from catalog.formats import COMPATIBILITIES, FORMATS, Check
from catalog.lint.declaredentities import entity_of
from catalog.lint.memorycatalog import MemoryCatalog
from catalog.model.caller import node_caller
from catalog.model.capabilities import offered_with
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, FirstViolations, XRegistryError
from catalog.model.interaction import Interaction
from catalog.writing.decider import Decider
from catalog.writing.formatcheck import DocumentChecker
from catalog.writing.transaction import touched_by

HERE = "urn:concord:lint"
# The capabilities of a fresh node.
CAPABILITIES = offered_with(FORMATS, COMPATIBILITIES).initially
_START = datetime(2000, 1, 1, tzinfo=UTC)
# The most attempts to apply a document; each attempt leaves out the entities that were refused.
_MOST_ROUNDS = 20


class AcceptingChecker:
    """Accepts every document, for a state that is in force already."""

    async def answers(self, checks: Sequence[Check]) -> Sequence[str]:
        return [""] * len(checks)


@dataclass(slots=True, kw_only=True)
class LintedCatalog:
    """A catalog to which documents are applied in order."""

    configuration: Configuration
    memory: MemoryCatalog = field(default_factory=MemoryCatalog)
    written: set[str] = field(default_factory=set)
    _applied: int = 0
    # The first written spelling of an id, by collection and id in lower case.
    _ids: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if "/" not in self.memory.entities:
            self.memory.add(_registry())

    async def apply(
        self, groups: Mapping[str, Any], checker: DocumentChecker
    ) -> list[XRegistryError]:
        """Import a document without the entities that a node would refuse.

        The epochs of the document are ignored, because they are the epochs of another catalog.

        Args:
            groups: the collections of groups of the document, by plural.
            checker: checks documents by formats.

        Returns:
            the violations without repetitions, including violations that appear only when faulty
            entities are removed.
        """
        interaction, found = self._read(groups)
        for _ in range(_MOST_ROUNDS):
            try:
                found += await self._write(interaction, checker)
                break
            except XRegistryError as error:
                violations = error.violations or (error,)
                found += violations
                if not _leave_out(interaction, violations):
                    break
        return list({(each.type, each.subject, each.title): each for each in found}.values())

    def _read(self, groups: Mapping[str, Any]) -> tuple[Interaction, list[XRegistryError]]:
        model, found = self.configuration.model, list[XRegistryError]()
        interaction = Interaction(caller=node_caller(), ignore=frozenset({"epoch"}))
        for plural, collection in groups.items():
            try:
                interaction.post_registry(model, {plural: collection})
            except XRegistryError as error:
                found.append(error)
        found += interaction.violations
        interaction.violations = FirstViolations()
        return interaction, found

    async def _write(
        self, interaction: Interaction, checker: DocumentChecker
    ) -> list[XRegistryError]:
        """Write the entities of a document; return the faults that a node's database would find."""
        decider = Decider(
            content=self.memory,
            configuration=self.configuration,
            authority=HERE,
            checker=checker,
            is_exclusive=True,
            is_referred=True,
            has_lived=False,
        )
        self._applied += 1
        before = self.memory.touched(touched_by(interaction, self.configuration.revision))
        now = _START + timedelta(seconds=self._applied)
        outcome = await decider.decide(interaction, before, now)
        self.memory.put(outcome)
        self.written |= outcome.after.keys()
        return [*self._equal_but_for_case(outcome.after)]

    def _equal_but_for_case(self, written: Iterable[str]) -> Iterator[XRegistryError]:
        for xid in written:
            collection, _, id = xid.rpartition("/")
            other = self._ids.setdefault((collection, id.lower()), id)
            if other != id:
                detail = f'the id "{id}" differs from that of "{other}" in case only'
                yield BadRequest(xid, error_detail=detail)


def _registry() -> Entity:
    return Entity(
        xid="/",
        kind="registry",
        authority=HERE,
        origin="/",
        epoch=1,
        attributes={"registryid": "lint"},
        createdat=_START,
        modifiedat=_START,
    ).sealed()


def _leave_out(interaction: Interaction, violations: Sequence[XRegistryError]) -> bool:
    """Remove the resources and groups that violations are about.

    Returns:
        Whether a resource or group was removed.
    """
    found = filter(None, (entity_of(violation.subject) for violation in violations))
    refused = {xid.resource if xid.rid else xid for xid in found}
    size = len(interaction.groups) + len(interaction.resources)
    interaction.groups = [each for each in interaction.groups if each.xid not in refused]
    interaction.resources = [
        each for each in interaction.resources if refused.isdisjoint({each.xid, each.xid.group})
    ]
    return len(interaction.groups) + len(interaction.resources) < size
