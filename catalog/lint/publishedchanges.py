"""Finds changes and removals of published versions that break the readers of a version.

A catalog compares a version only with the ancestors of the version. A version that is changed
under the same id, or removed, has readers as well, so the new state is compared with the former
state of the version.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass

import orjson

from catalog.formats import CheckedDocument, comparison
from catalog.formats.json_assertions import equal
from catalog.lint.finding import Finding, Severity
from catalog.lint.memorycatalog import MemoryCatalog
from catalog.model.capabilities import Capabilities
from catalog.model.entity import Entity
from catalog.model.schema import Model, ResourceType
from catalog.writing.compatibilitycheck import DIRECTIONS
from catalog.writing.formatcheck import DocumentChecker

_SOURCE = 'core/spec.md, "compatibility Attribute"'


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedChanges:
    """The state of a catalog before and after an import of documents.

    Args:
        before: the catalog in force.
        after: the catalog after the import.
        model: the model of both catalogs.
        capabilities: the supported checks of compatibility.
        checker: compares documents by formats.
        gone: the xids of entities that only the former state of the documents had.
    """

    before: MemoryCatalog
    after: MemoryCatalog
    model: Model
    capabilities: Capabilities
    checker: DocumentChecker
    gone: Collection[str]

    async def find(self, written: Collection[str]) -> AsyncIterator[Finding]:
        """Find faulty changes of the versions of written resources."""
        for xid in sorted(written):
            resource = self.after.entities[xid]
            if resource.kind != "resource" or xid not in self.before.entities:
                continue
            rule = str(resource.attributes.get("compatibility") or "none").lower()
            kind = self.model.resource_type(resource.path.groups, resource.path.resources)
            if rule == "none" or kind is None or not kind.validatecompatibility:
                continue
            for version in await self.before.load_subtrees([xid]):
                found = await self._compare(version, rule, kind) if version.xid != xid else None
                if found is not None:
                    yield found

    async def _compare(self, older: Entity, rule: str, kind: ResourceType) -> Finding | None:
        newer = self.after.entities[older.xid]
        if older.xid in self.gone:
            message = (
                f'Versions of this {kind.singular} are to be compatible ("{rule}"), and '
                "this one has readers: keep it beside those that follow it."
            )
            return Finding("warning", "version_removed", message, subject=older.xid, source=_SOURCE)
        if self._is_same(older, newer, kind):
            return None
        fault = await self._fault(older, newer, rule)
        message = (
            f"A published version is changed in place{fault}: leave it as it was, "
            f'and add a version after it ("{rule}").'
        )
        severity: Severity = "error" if fault else "warning"
        return Finding(severity, "version_changed", message, subject=older.xid, source=_SOURCE)

    def _is_same(self, older: Entity, newer: Entity, kind: ResourceType) -> bool:
        names = ("format", f"{kind.singular}url")
        if any(older.attributes.get(name) != newer.attributes.get(name) for name in names):
            return False
        if older.document_sha256 == newer.document_sha256:
            return True
        # Other blanks, or another order of keys, change nothing for readers of JSON.
        before, after = self.before.document(older.xid), self.after.document(newer.xid)
        return equal(_value(before), _value(after))

    async def _fault(self, older: Entity, newer: Entity, rule: str) -> str:
        """The reason why two states of a version are not compatible.

        Empty for compatible states, and for formats that cannot be compared.
        """
        format, former = newer.attributes.get("format", ""), older.attributes.get("format", "")
        if format.partition("/")[0].lower() != former.partition("/")[0].lower():
            return f', from the format "{former}" to "{format}"'
        if rule not in self.capabilities.rules_for(format):
            return ""
        contents = self.before.document(older.xid), self.after.document(newer.xid)
        documents = CheckedDocument.of(contents[0]), CheckedDocument.of(contents[1])
        for direction in DIRECTIONS[rule.removesuffix("_transitive")]:
            [fault] = await self.checker.answers([comparison(format, *documents, direction)])
            if fault:
                return f", and not compatible with itself ({direction}: {fault})"
        return ""


def _value(document: bytes) -> object:
    """The value of a JSON document; the bytes of a document that is not JSON."""
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError:
        return document
