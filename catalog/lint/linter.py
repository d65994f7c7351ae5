"""Lints documents as one set: imports the set into a catalog in memory, and checks the result.

A catalog compares a version only with the ancestors of the version. A published version that is
changed under the same id, or removed, has readers as well, so the linter compares the new state
with the former state of the version, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal

from catalog.documents.asyncapi.toentities import KEPT
from catalog.documents.rewriter import OLDER, RC4_ATTRIBUTES
from catalog.formats.checker import CheckedDocument, comparison
from catalog.lint.declaredentities import DeclaredEntities, entity_of
from catalog.lint.documentchanges import (
    ChangeFinder,
    DocumentChange,
    User,
    have_one_format,
    users_in,
)
from catalog.lint.lintedcatalog import AcceptingChecker, KnownEntities, LintedCatalog, MemoryCatalog
from catalog.messages.message import pointer
from catalog.model.attributes import active_definitions
from catalog.model.configuration import Configuration
from catalog.model.dotpath import Index, Key, read_path
from catalog.model.entity import Entity
from catalog.model.errors import Readonly, XRegistryError
from catalog.model.schema import Attribute, Definitions, Model
from catalog.model.xid import Xid
from catalog.rules.domainrules import DomainRules, check_provenance
from catalog.rules.fault import Fault, Subject
from catalog.rules.referencerules import references_of
from catalog.writing.validation import COMPATIBILITY, FORMAT, DocumentChecker

Severity = Literal["error", "warning", "note"]
# The members in the order of the JSON form.
_MEMBERS = ("file", "line", "pointer", "subject", "severity", "rule", "message", "source")
_SOURCE = 'core/spec.md, "compatibility Attribute"'


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a document; an error would be refused by a catalog, or break readers.

    Args:
        severity: the severity.
        message: the text of the finding.
        file: the name of the document.
        subject: the xid of the entity; empty for the document itself.
        pointer: a JSON pointer into the document, where the member may be missing.
        rule: the name of the rule.
        source: the section of the specification, if the rule is not the engine's.
        line: the line in the file, counted from 1; 0 if the line is unknown.
    """

    severity: Severity
    rule: str
    message: str
    file: str = ""
    subject: str = ""
    pointer: str = ""
    source: str = ""
    line: int = 0

    def as_json(self) -> dict[str, Any]:
        return {name: value for name in _MEMBERS if (value := getattr(self, name))}


# Extensions in which migrations, older editions and dialects keep values without a native form.
_CONCORDS = frozenset({OLDER, RC4_ATTRIBUTES, KEPT, "discovery", "messagecatalog", "registry04"})
# The least similarity of an unknown name to the known name that a finding suggests.
_LIKENESS = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class LintBase:
    """The base of a comparison with documents, such as a catalog or a git revision.

    Args:
        name: the URL or the revision of the base; empty without a base.
        documents: the entities of the base.
        is_former: whether the base is the former state of the documents, so that entities
            missing from the documents are gone.
        absent: the xids of groups that certainly do not exist.
        authorities: the authorities of replicas, by xid.
        urls: the URLs of the catalog's root, without a trailing slash.
    """

    name: str = ""
    documents: Sequence[DeclaredEntities] = ()
    is_former: bool = False
    absent: frozenset[str] = frozenset()
    authorities: dict[str, str] = field(default_factory=dict)
    urls: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Linter:
    """Checks one set of documents.

    Args:
        documents: the documents, in the order of the import.
        configuration: the model, and the supported checks.
        checker: checks documents by formats.
        base: the base of the comparison.
        explained: the files and pointers of unknown attributes with other findings.
        changes: receives the changes of entities that the base has. The users of the entities are
            those in the base, unless the base is a running catalog, which has further users.
    """

    documents: Sequence[DeclaredEntities]
    configuration: Configuration
    checker: DocumentChecker
    base: LintBase = field(default_factory=LintBase)
    explained: Collection[tuple[str, str]] = ()
    changes: list[DocumentChange] = field(default_factory=list)
    _findings: list[Finding] = field(default_factory=list)

    async def run(self) -> list[Finding]:
        """Return the findings, each with the document of the finding if the document is known."""
        before = await self._in_force()
        after = LintedCatalog(configuration=self.configuration, memory=before.memory.copy())
        for document in self.documents:
            for violation in await after.apply(document.groups, self.checker):
                if not _is_left_alone(document, violation):
                    self._findings.append(_refused(document, violation))
        gone = self._gone(after)
        lookup = self._lookup(after, gone)
        rules = DomainRules(self.configuration.model)
        written = [_subject(after.memory.entities[xid]) for xid in sorted(after.written - {"/"})]
        for subject in written:
            broken = rules.examine(subject, lookup) + rules.examine_references(subject, lookup)
            for fault in broken:
                finding = _warning(str(subject.xid), fault)
                self._findings.append(self._place(finding, fault.pointer))
            self._findings += self._unchecked(after.memory.entities[str(subject.xid)])
        for at, fault in await rules.examine_schemas(written, self.checker.answers):
            self._findings.append(self._place(_warning(str(at), fault), fault.pointer))
        self._findings += self._unknown(after)
        self._findings += self._dropped(after)
        self._findings += self._elsewhere(after, lookup)
        self._findings += self._twice()
        finder = self._finder(before.memory, after.memory)
        declared = self._declared() & after.memory.entities.keys()
        async for finding in _published_changes(finder, declared, gone):
            self._findings.append(self._place(finding))
        if self.base.name:
            await self._find_changes(before.memory, gone)
        return self._findings

    def _finder(self, before: MemoryCatalog, after: MemoryCatalog) -> ChangeFinder:
        return ChangeFinder(
            before=before, after=after, configuration=self.configuration, checker=self.checker
        )

    async def _find_changes(self, before: MemoryCatalog, gone: Collection[str]) -> None:
        """Find the changes that the documents intend, with those that a catalog would refuse."""
        intended = LintedCatalog(configuration=self.configuration, memory=before.copy())
        for document in self.documents:
            await intended.apply(document.groups, AcceptingChecker())
        finder = self._finder(before, intended.memory)
        found = [change async for change in finder.find(self._declared(), gone)]
        users: Mapping[str, tuple[User, ...]] = {}
        if not self.base.urls:
            users = users_in(before, self.base.name, [change.owner for change in found])
        for change in found:
            place = self._place(Finding("note", "", "", subject=change.subject))
            self.changes.append(
                replace(
                    change,
                    file=place.file,
                    pointer=place.pointer,
                    users=users.get(change.owner, ()),
                )
            )

    async def _in_force(self) -> LintedCatalog:
        catalog = LintedCatalog(configuration=self.configuration)
        for document in self.base.documents:
            for violation in await catalog.apply(document.groups, AcceptingChecker()):
                message = (
                    f"Nothing was compared with this in {self.base.name}, since "
                    f"it is faulty there: {violation.title}"
                )
                self._findings.append(
                    Finding("note", "base_unusable", message, subject=violation.subject)
                )
        for xid, authority in self.base.authorities.items():
            if (entity := catalog.memory.entities.get(xid)) is not None:
                catalog.memory.add(replace(entity, authority=authority))
        return catalog

    def _gone(self, after: LintedCatalog) -> frozenset[str]:
        """The xids of entities that only the former state of the documents had."""
        if not self.base.is_former:
            return frozenset()
        bodies = [body for document in self.documents for body in document.bodies.items()]
        # A resource without `versions` stands for the default version.
        plain = [Xid.parse(xid) for xid, body in bodies if not body.get("versions")]
        found = (after.memory.version(xid) for xid in plain if xid.kind == "resource")
        implied = {each.xid for each in found if each is not None}
        before = {xid for document in self.base.documents for xid in document.pointers}
        return frozenset(before - self._declared() - implied)

    def _declared(self) -> set[str]:
        return {xid for document in self.documents for xid in document.pointers}

    def _lookup(self, after: LintedCatalog, gone: frozenset[str]) -> KnownEntities:
        declared = self._declared()
        here = declared | after.memory.entities.keys() - {"/"}
        return KnownEntities(
            memory=after.memory,
            declared=declared,
            groups=self.base.absent.union(str(Xid.parse(xid).group) for xid in here),
            gone=gone,
            bases=self.base.urls,
        )

    def _place(self, finding: Finding, *steps: str) -> Finding:
        """Add the file and the pointer of the last document that declares the subject."""
        # Of the documents that declare an entity, the last import wins.
        xid = Xid.parse(finding.subject)
        above = (xid, xid.resource, xid.group) if xid.rid else (xid,)
        for owner in above:
            for document in reversed(self.documents):
                if (at := document.pointers.get(str(owner))) is not None:
                    return replace(finding, file=document.file, pointer=at + "".join(steps))
        return finding

    def _dropped(self, after: LintedCatalog) -> Iterator[Finding]:
        """Find authorities and origins that no catalog keeps; replicas are exempt."""
        for document in self.documents:
            for xid, given in document.bodies.items():
                kept = after.memory.version(Xid.parse(xid))
                if kept is not None and not document.is_readonly(Xid.parse(xid)):
                    for fault in check_provenance(given, kept.attributes):
                        yield self._place(_warning(xid, fault), fault.pointer)

    def _unchecked(self, entity: Entity) -> Iterator[Finding]:
        for name in (FORMAT, COMPATIBILITY):
            reason = entity.attributes.get(f"{name}reason")
            if entity.kind == "version" and entity.attributes.get(name) is False and reason:
                yield self._place(Finding("note", "not_checked", f"{reason}.", subject=entity.xid))

    def _unknown(self, after: LintedCatalog) -> Iterator[Finding]:
        """Find attributes that the model does not define, and that therefore become extensions.

        A finding counts the entities of one type in a file that have the same unknown attribute.
        """
        first, counts = dict[tuple[str, ...], Finding](), Counter[tuple[str, ...]]()
        for xid in sorted(after.written - {"/"}):
            entity = after.memory.entities[xid]
            known = _known_attributes(entity, self.configuration.model)
            inside = ("meta",) if entity.kind == "resource" else ()
            for name in entity.attributes.keys() - known.keys() - _CONCORDS:
                found = self._place(Finding("warning", "", "", subject=xid), pointer(*inside, name))
                if (found.file, found.pointer) in self.explained:
                    continue
                key = (found.file, entity.path.groups, entity.path.resources, entity.kind, name)
                counts[key] += 1
                meant = get_close_matches(name, known, n=1, cutoff=_LIKENESS)
                advice = f'"{meant[0]}" may be meant.' if meant else "Define it in the model."
                message = (
                    f'The model has no "{name}" here, so it is taken as an extension. {advice}'
                )
                first.setdefault(key, replace(found, rule="unknown_attribute", message=message))
        for each, finding in first.items():
            more = f" ({counts[each]} times)" if counts[each] > 1 else ""
            yield replace(finding, message=finding.message + more)

    def _elsewhere(self, after: LintedCatalog, lookup: KnownEntities) -> Iterator[Finding]:
        """Count the references to groups outside of the known ones, by file and group."""
        found: Counter[tuple[str, str]] = Counter()
        for xid in sorted(after.written - {"/"}):
            subject = _subject(after.memory.entities[xid])
            place = self._place(Finding("note", "", "", subject=xid))
            for reference in references_of(subject, lookup):
                if lookup.groups.isdisjoint(str(target.group) for target in reference.targets):
                    found[place.file, str(reference.targets[0].group)] += 1
        for (file, group), count in found.items():
            what = "A reference leads" if count == 1 else f"{count} references lead"
            message = (
                f"{what} to {group}, which is in none of these documents; --against with "
                "the URL of a catalog looks there."
            )
            yield Finding("note", "reference_elsewhere", message, file=file)

    def _twice(self) -> Iterator[Finding]:
        """Find entities that documents declare differently: the last import would win."""
        first: dict[str, DeclaredEntities] = {}
        for document in self.documents:
            for xid, at in document.pointers.items():
                other = first.setdefault(xid, document)
                if other is document or Xid.parse(xid).vid:
                    continue
                model = self.configuration.model
                if other.own_of(xid, model) != document.own_of(xid, model):
                    message = (
                        f"{other.file} declares it differently; the order would decide. "
                        "Declare it in one document."
                    )
                    yield Finding("warning", "declared_twice", message, document.file, xid, at)


def _subject(entity: Entity) -> Subject:
    return Subject(xid=entity.path, attributes=entity.attributes)


def _known_attributes(entity: Entity, model: Model) -> Mapping[str, Attribute]:
    """The attributes that a model defines for an entity with given values."""
    path = entity.path
    if entity.kind == "group":
        kind = model.groups[path.groups]
        known, own = kind.attributes, kind.own_attributes
    else:
        resource = model.groups[path.groups].resources[path.resources]
        is_version = entity.kind == "version"
        known = resource.attributes if is_version else resource.metaattributes
        own = resource.version_attributes if is_version else resource.meta_attributes
    active, _ = active_definitions(entity.attributes, Definitions(own))
    return {**known, **active}


def _warning(xid: str, fault: Fault) -> Finding:
    rule = fault.rule
    return Finding("warning", rule.name, fault.message, subject=xid, source=rule.source)


def _is_left_alone(document: DeclaredEntities, violation: XRegistryError) -> bool:
    """Whether an entity is a replica in the document and in the catalog; imports skip replicas."""
    xid = entity_of(violation.subject) if isinstance(violation, Readonly) else None
    return xid is not None and document.is_readonly(xid)


def _refused(document: DeclaredEntities, violation: XRegistryError) -> Finding:
    """The finding for a violation, with the pointer of the violating attribute."""
    at = document.pointer_to(violation.subject)
    steps = _steps(violation.arguments.get("name", "")) if entity_of(violation.subject) else []
    text = f"{violation.title} {violation.detail}".strip()
    at += pointer(*steps)
    return Finding("error", violation.name, text, document.file, violation.subject, at)


def _steps(path: str) -> list[str | int]:
    """The steps to an attribute, from the path in a violation."""
    try:
        steps, _ = read_path(path)
    except ValueError:
        return []
    return [s.name if isinstance(s, Key) else s.number for s in steps if isinstance(s, Key | Index)]


async def _published_changes(
    finder: ChangeFinder, written: Collection[str], gone: Collection[str]
) -> AsyncIterator[Finding]:
    """Find faulty changes of the published versions of written resources.

    Args:
        gone: the xids of entities that only the former state of the documents had.
    """
    for xid in sorted(written):
        resource = finder.after.entities[xid]
        if resource.kind != "resource" or xid not in finder.before.entities:
            continue
        if not (rule := finder.rule_of(resource)):
            continue
        for version in await finder.before.load_subtrees([xid]):
            if version.xid != xid:
                found = await _published_change(finder, version, rule, gone)
                if found is not None:
                    yield found


async def _published_change(
    finder: ChangeFinder, older: Entity, rule: str, gone: Collection[str]
) -> Finding | None:
    newer, kind = finder.after.entities[older.xid], finder.kind_of(older)
    assert kind is not None, "a rule is in force for the type"
    if older.xid in gone:
        message = (
            f'Versions of this {kind.singular} are to be compatible ("{rule}"), and '
            "this one has readers: keep it beside those that follow it."
        )
        return Finding("warning", "version_removed", message, subject=older.xid, source=_SOURCE)
    names = ("format", f"{kind.singular}url")
    is_same = all(older.attributes.get(name) == newer.attributes.get(name) for name in names)
    if is_same and finder.have_equal_documents(older, newer):
        return None
    fault = await _fault_in_place(finder, older, newer, rule)
    message = (
        f"A published version is changed in place{fault}: leave it as it was, "
        f'and add a version after it ("{rule}").'
    )
    severity: Severity = "error" if fault else "warning"
    return Finding(severity, "version_changed", message, subject=older.xid, source=_SOURCE)


async def _fault_in_place(finder: ChangeFinder, older: Entity, newer: Entity, rule: str) -> str:
    """Why two states of a version are not compatible; empty if they are, or cannot be compared."""
    former, format = (each.attributes.get("format", "") for each in (older, newer))
    if not have_one_format(older, newer):
        return f', from the format "{former}" to "{format}"'
    before = CheckedDocument.of(finder.before.document(older.xid))
    after = CheckedDocument.of(finder.after.document(newer.xid))
    for direction in finder.directions_of(rule, older, newer):
        [fault] = await finder.checker.answers([comparison(format, before, after, direction)])
        if fault:
            return f", and not compatible with itself ({direction}: {fault})"
    return ""
