"""Changes of published entities by documents: the fields, the broken readers, and the users."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from catalog.formats.checker import CheckedDocument, Direction, comparison
from catalog.formats.json_assertions import equal
from catalog.indexing.references import references_of
from catalog.lint.fieldchanges import FieldChange, field_changes
from catalog.lint.lintedcatalog import MemoryCatalog
from catalog.model.change import differences_between
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.schema import ResourceType
from catalog.model.xid import Xid, group_path, resource_of
from catalog.writing.validation import COMPATIBILITY, DIRECTIONS, FORMAT, DocumentChecker

# Attributes that follow from the versions of a resource and from checks.
_FOLLOWING = frozenset(
    {"ancestorid", "defaultversionid"}
    | {f"{check}{end}" for check in (COMPATIBILITY, FORMAT) for end in ("", "reason")}
)
_LONGEST_VALUE = 200
# The members with a text or number in the order of the JSON form.
_MEMBERS = ("file", "line", "pointer", "subject", "kind", "former", "rule", "reason")


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
        told = {name: value for name in _MEMBERS if (value := getattr(self, name))}
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
        if self.have_equal_documents(older, newer):
            if not fields and former == newer.xid:
                return None
            return DocumentChange(subject=newer.xid, former=former, fields=fields)
        # The rule is that before the import, since documents may lower the rule.
        rule = self.rule_of(resource)
        directions = self.directions_of(rule, older, newer)
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

    def kind_of(self, entity: Entity) -> ResourceType | None:
        """The type of a resource, or of the resource of a version."""
        path = entity.path
        return self.configuration.model.resource_type(path.groups, path.resources)

    def rule_of(self, resource: Entity) -> str:
        """The rule of compatibility in force; empty without a rule."""
        kind = self.kind_of(resource)
        rule = str(resource.attributes.get("compatibility") or "none").lower()
        return rule if kind is not None and kind.validatecompatibility and rule != "none" else ""

    def directions_of(self, rule: str, older: Entity, newer: Entity) -> tuple[Direction, ...]:
        """The directions in which two versions can be compared; none if their formats forbid it."""
        format = str(newer.attributes.get("format", ""))
        if not rule or not have_one_format(older, newer):
            return ()
        if rule not in self.configuration.capabilities.rules_for(format):
            return ()
        return DIRECTIONS[rule.removesuffix("_transitive")]

    def have_equal_documents(self, older: Entity, newer: Entity) -> bool:
        """Whether the documents of two versions differ in nothing that a reader notices."""
        if older.document_sha256 == newer.document_sha256:
            return True
        return _are_equal(self.before.document(older.xid), self.after.document(newer.xid))

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


def have_one_format(older: Entity, newer: Entity) -> bool:
    """Whether the formats of two versions differ in the version of the format at most."""
    former, format = (str(each.attributes.get("format", "")) for each in (older, newer))
    return former.partition("/")[0].lower() == format.partition("/")[0].lower()


def _are_equal(older: bytes, newer: bytes) -> bool:
    """Whether two documents differ in blanks and the order of keys only."""
    try:
        return equal(orjson.loads(older), orjson.loads(newer))
    except orjson.JSONDecodeError:
        return older == newer


DEPTH = 3
"""How far references are followed: a schema, its message, and the endpoint of the message."""


def users_in(
    memory: MemoryCatalog, name: str, owners: Iterable[str], bases: Sequence[str] = ()
) -> Mapping[str, tuple[User, ...]]:
    """The entities that refer to resources or groups, directly or through others.

    A reference to a group is one to each entity of the group.

    Args:
        name: the name of the catalog.
        owners: the xids of the resources and groups.
        bases: the URLs of the catalog's root, without a trailing slash.
    """
    sources = _sources_by_target(memory, bases)
    return {
        owner: tuple(User(catalog=name, xid=xid) for xid in _reaching(owner, sources))
        for owner in dict.fromkeys(owners)
    }


def _sources_by_target(
    memory: MemoryCatalog, bases: Sequence[str]
) -> Mapping[str, Mapping[str, None]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for xid in sorted(memory.entities):
        entity = memory.entities[xid]
        source = resource_of(xid)
        for reference in references_of(replace(entity, document=memory.document(xid) or None)):
            key = reference.key
            for base in bases:
                key = key.removeprefix(base) if key.startswith(f"{base}/") else key
            if key.startswith("/") and resource_of(key) != source:
                found[resource_of(key)][source] = None
    return found


def _reaching(owner: str, sources: Mapping[str, Mapping[str, None]]) -> Sequence[str]:
    reached = {owner: None}
    frontier = [owner]
    for _ in range(DEPTH):
        found = {
            source: None
            for xid in frontier
            for target in (xid, group_path(xid))
            for source in sources.get(target, {})
        }
        frontier = [xid for xid in found if xid not in reached]
        reached |= dict.fromkeys(frontier)
    return [xid for xid in reached if xid != owner]
