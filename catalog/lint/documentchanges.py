"""Changes of published entities by documents: which fields differ, and whether readers break."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from catalog.formats.checker import CheckedDocument, Direction, comparison
from catalog.formats.json_assertions import equal
from catalog.lint.fieldchanges import FieldChange, field_changes
from catalog.lint.lintedcatalog import MemoryCatalog
from catalog.model.change import differences_between
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.xid import Xid, resource_of
from catalog.writing.validation import COMPATIBILITY, DIRECTIONS, FORMAT, DocumentChecker

# Attributes that follow from the versions of a resource and from checks.
_FOLLOWING = frozenset(
    {"ancestorid", "defaultversionid"}
    | {f"{check}{end}" for check in (COMPATIBILITY, FORMAT) for end in ("", "reason")}
)
_LONGEST_VALUE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """An entity that refers to a changed entity, directly or through others.

    Args:
        catalog: the URL, revision or file where the entity was found.
        xid: the path of the entity there.
    """

    catalog: str
    xid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """A change of an entity that the base of the comparison has.

    Args:
        subject: the xid of the group, resource or version that is changed, new or removed.
        former: the xid of the entity that was compared with the subject; empty for a removal.
        rule: the rule of compatibility in force; empty without a rule.
        is_compatible: whether the rule holds; `None` without a rule, or if nothing can be compared.
        reason: the faults, if the rule is broken.
        fields: the fields of the schema that differ, and the attributes.
        users: the entities that refer to the resource or group.
    """

    subject: str
    former: str = ""
    rule: str = ""
    is_compatible: bool | None = None
    reason: str = ""
    fields: tuple[FieldChange, ...] = ()
    users: tuple[User, ...] = ()
    file: str = ""
    pointer: str = ""
    line: int = 0

    @property
    def owner(self) -> str:
        """The xid of the resource or group that the users refer to."""
        return resource_of(self.subject)

    @property
    def verdict(self) -> str:
        """Whether readers break, in a word or two."""
        if not self.former:
            return "gone"
        if self.is_compatible is None:
            return f"not compared ({self.rule})" if self.rule else "no rule"
        return f"compatible ({self.rule})" if self.is_compatible else f"breaking ({self.rule})"

    def as_json(self) -> dict[str, Any]:
        shown = {
            "file": self.file,
            "line": self.line,
            "pointer": self.pointer,
            "subject": self.subject,
            "kind": self.kind,
            "former": self.former,
            "rule": self.rule,
            "reason": self.reason,
        }
        told = {name: value for name, value in shown.items() if value}
        if self.is_compatible is not None:
            told["compatible"] = self.is_compatible
        told["fields"] = [each.as_json() for each in self.fields]
        told["users"] = [{"catalog": each.catalog, "xid": each.xid} for each in self.users]
        return told

    @property
    def kind(self) -> str:
        """What happens to the subject: `removed`, `changed` in place, or `added`."""
        if not self.former:
            return "removed"
        return "changed" if self.former == self.subject else "added"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFinder:
    """Compares the state of a catalog before and after an import of documents.

    Args:
        before: the catalog in force.
        after: the catalog that the documents intend, even if a catalog would refuse a part.
        configuration: the model of both catalogs, and the supported checks of compatibility.
        checker: compares documents by formats.
    """

    before: MemoryCatalog
    after: MemoryCatalog
    configuration: Configuration
    checker: DocumentChecker

    async def find(
        self, written: Collection[str], gone: Collection[str]
    ) -> AsyncIterator[DocumentChange]:
        """Find the changes of groups and versions, in the order of xids.

        Args:
            written: the xids of entities that documents declare.
            gone: the xids of entities that documents no longer declare.
        """
        for xid in sorted({*written, *gone}):
            if xid in gone:
                if xid in self.before.entities and str(Xid.parse(xid).parent) not in gone:
                    yield DocumentChange(subject=xid)
                continue
            entity = self.after.entities.get(xid)
            if entity is None or entity.kind not in ("group", "resource"):
                continue
            if xid not in self.before.entities:
                continue
            former = self.before.entities[xid]
            if fields := self._attributes(former, entity):
                yield DocumentChange(subject=xid, former=xid, fields=fields)
            if entity.kind == "group":
                continue
            for version in await self.after.load_subtrees([xid]):
                if version.kind == "version":
                    change = await self._of_version(version, former)
                    if change is not None:
                        yield change

    async def _of_version(self, newer: Entity, resource: Entity) -> DocumentChange | None:
        former = newer.xid
        if newer.xid not in self.before.entities:
            former = f"{resource.xid}/versions/{newer.attributes.get('ancestorid')}"
        older = self.before.entities.get(former)
        if older is None:
            return None
        fields = self._attributes(older, newer)
        documents = self.before.document(older.xid), self.after.document(newer.xid)
        if older.document_sha256 == newer.document_sha256 or are_equal(*documents):
            is_new = former != newer.xid
            return (
                DocumentChange(subject=newer.xid, former=former, fields=fields)
                if fields or is_new
                else None
            )
        rule, directions = self._rule(newer, older, resource)
        format = str(newer.attributes.get("format", ""))
        compared = [
            (each, direction)
            for each in self._predecessors(older, rule)
            for direction in directions
        ]
        document = CheckedDocument.of(documents[1])
        faults = await self.checker.answers(
            [
                comparison(format, self._document(each), document, direction)
                for each, direction in compared
            ]
        )
        reasons = [
            f"{direction}, with {each.path.vid}: {fault}"
            for (each, direction), fault in zip(compared, faults, strict=True)
            if fault
        ]
        found = await field_changes(
            *documents,
            format=format,
            directions=directions,
            faults=[fault for fault in faults if fault],
            checker=self.checker,
        )
        return DocumentChange(
            subject=newer.xid,
            former=former,
            rule=rule,
            is_compatible=not reasons if directions else None,
            reason="; ".join(reasons),
            fields=(*found, *fields),
        )

    def _rule(
        self, newer: Entity, older: Entity, resource: Entity
    ) -> tuple[str, tuple[Direction, ...]]:
        """The rule in force, and the directions in which the two versions can be compared.

        Args:
            resource: the resource before the import, since documents may lower the rule.
        """
        path = resource.path
        kind = self.configuration.model.resource_type(path.groups, path.resources)
        rule = str(resource.attributes.get("compatibility") or "none").lower()
        if rule == "none" or kind is None or not kind.validatecompatibility:
            return "", ()
        format, former = (str(each.attributes.get("format", "")) for each in (newer, older))
        is_comparable = format.partition("/")[0].lower() == former.partition("/")[0].lower()
        if not is_comparable or rule not in self.configuration.capabilities.rules_for(format):
            return rule, ()
        return rule, DIRECTIONS[rule.removesuffix("_transitive")]

    def _predecessors(self, older: Entity, rule: str) -> list[Entity]:
        """The versions that a rule compares with the version after `older`, the last one first."""
        found = [older]
        while rule.endswith("_transitive"):
            vid = found[-1].attributes.get("ancestorid")
            former = self.before.entities.get(f"{resource_of(older.xid)}/versions/{vid}")
            if former is None or former in found or not self.before.document(former.xid):
                break
            found.append(former)
        return found

    def _document(self, version: Entity) -> CheckedDocument:
        return CheckedDocument.of(self.before.document(version.xid))

    def _attributes(self, older: Entity, newer: Entity) -> tuple[FieldChange, ...]:
        """The attributes that differ, as if both were states of one entity."""
        same = replace(
            newer,
            xid=older.xid,
            attributes=_lasting(newer.attributes),
            createdat=older.createdat,
            modifiedat=older.modifiedat,
        )
        former = replace(older, attributes=_lasting(older.attributes))
        found = differences_between(
            {older.xid: former}, {older.xid: same}, self.configuration.model
        )
        return tuple(
            FieldChange(".".join(value.path), _short(value.old), _short(value.new))
            for each in found
            for value in each.values
        )


def _lasting(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in _FOLLOWING}


def _short(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def are_equal(older: bytes, newer: bytes) -> bool:
    """Whether two documents differ in blanks and the order of keys only."""
    try:
        return equal(orjson.loads(older), orjson.loads(newer))
    except orjson.JSONDecodeError:
        return older == newer
