"""Applies the rules of the domains to entities, by the types of the entities in a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.formats.checker import Check
from catalog.model.attributes import PROVENANCE
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.rules.endpointrules import check_endpoint
from catalog.rules.fault import EntityLookup, Fault, Rule, Subject
from catalog.rules.messagerules import (
    DATASCHEMA_INVALID,
    check_message,
    check_of_schema,
    check_selectors,
)
from catalog.rules.referencerules import check_bases, check_format, check_references

_Check = Callable[[Subject, EntityLookup], Iterator[Fault]]

# A type of a model belongs to a domain if the type has these attributes, with or without more.
_GROUPS: Mapping[str, tuple[frozenset[str], _Check]] = {
    "endpoints": (frozenset({"usage", "protocol"}), check_endpoint),
    "messagegroups": (frozenset({"envelope", "protocol"}), check_selectors),
}
_MESSAGE = frozenset({"envelope", "protocol", "dataschemauri"})
PROVENANCE_IGNORED = Rule("provenance_ignored", 'CloudEvents Registry 0.5, "origin"')


def check_provenance(given: Mapping[str, Any], kept: Mapping[str, Any]) -> Iterator[Fault]:
    """Check that a catalog keeps the authority and origin that a document or request gives."""
    for name in sorted(PROVENANCE & given.keys()):
        if given[name] is not None and name not in kept:
            yield PROVENANCE_IGNORED.broken(
                f"/{name}", f"The {name} is not kept: only links bring entities of others."
            )


@dataclass(frozen=True, slots=True)
class DomainRules:
    """The rules of the domains for the types of a model."""

    model: Model

    def examine(self, subject: Subject, lookup: EntityLookup) -> list[Fault]:
        """Find the faults of a group or a version, except the faults of references."""
        xid = subject.xid
        if self._is_message(xid):
            return [*check_message(subject, lookup), *check_bases(subject, lookup)]
        names, check = _GROUPS.get(xid.groups, (frozenset(), None))
        kind = self.model.group_type(xid.groups) if xid.kind == "group" else None
        if check is None or kind is None or not names <= kind.attributes.keys():
            return []
        return [*check(subject, lookup)]

    def examine_references(self, subject: Subject, lookup: EntityLookup) -> list[Fault]:
        """Find the faults of the references of a group, a resource or a version."""
        found = [*check_references(subject, lookup)]
        return [*found, *check_format(subject, lookup)] if self._is_message(subject.xid) else found

    async def examine_schemas(
        self,
        subjects: Iterable[Subject],
        answers: Callable[[list[Check]], Awaitable[Sequence[str]]],
    ) -> list[tuple[Xid, Fault]]:
        """Find the faults of the schemas that versions of messages, among the subjects, embed.

        `answers` runs checks of documents, and returns the fault of each document, or "".
        """
        found = [
            (subject, check)
            for subject in subjects
            if self._is_message(subject.xid) and (check := check_of_schema(subject)) is not None
        ]
        faults = await answers([check for _, check in found]) if found else ()
        return [
            (
                subject.xid,
                DATASCHEMA_INVALID.broken(
                    "/dataschema", f"It is no {subject.text('dataschemaformat')}: {fault}"
                ),
            )
            for (subject, _), fault in zip(found, faults, strict=True)
            if fault
        ]

    def _is_message(self, xid: Xid) -> bool:
        if xid.resources != "messages" or xid.kind != "version":
            return False
        kind = self.model.resource_type(xid.groups, xid.resources)
        return kind is not None and kind.attributes.keys() >= _MESSAGE
