"""Imports documents into a node, document by document, group by group."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from catalog.client import Client, ClientError, JsonObject, Refused, Violation
from catalog.commands.apply.requests import Capacity, portions
from catalog.commands.console import members_of, progress_bar, violations_as_json
from catalog.commands.documentfile import DocumentFile
from catalog.documents.losses import default_version
from catalog.documents.rewriter import OLDER, RC4_ATTRIBUTES, Rewrite, escaped
from catalog.lint.declaredentities import entity_of
from catalog.model.dotpath import Key, read_path
from catalog.model.xid import Xid

if TYPE_CHECKING:
    from catalog.commands.import_.command import ImportReport

_LARGEST = 2**53 - 1
Members = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """An attribute that the node refused, and that moved to the extension `older`.

    `pointer` is the former JSON pointer of the attribute in the groups.
    """

    pointer: str
    reason: str


class DocumentGroups:
    """A copy of a document's groups.

    Args:
        groups: the groups by plural, in the form of the body of `POST /`.
        model: the model of the node, as `GET /model` returns it.
    """

    def __init__(self, groups: Mapping[str, Any], model: Mapping[str, Any]) -> None:
        self.members: Members = copy.deepcopy(dict(groups))
        types = model.get("groups") or {}
        self._kinds = {plural: [*(kind.get("resources") or {})] for plural, kind in types.items()}

    def counts(self) -> dict[str, int]:
        """The number of groups and resources of each type."""
        counted: Counter[str] = Counter()
        for plural, members in self.members.items():
            counted[plural] += len(members)
            for kind in self._kinds.get(plural, ()):
                found = sum(len(group.get(kind) or {}) for group in members.values())
                counted.update({kind: found} if found else {})
        return dict(counted)

    def are_replicas(self, subject: str) -> bool:
        """Whether the document shows a resource, or every resource of a group, as read-only."""
        xid = entity_of(subject)
        if xid is None:
            return False
        group = self._group(xid)
        kinds = [xid.resources] if xid.rid else self._kinds.get(xid.groups, [])
        found = [
            (resource.get("meta") or {}).get("readonly") is True
            for kind in kinds
            for id, resource in (group.get(kind) or {}).items()
            if xid.rid in ("", id)
        ]
        return bool(found) and all(found)

    def remove(self, violations: Iterable[Violation]) -> list[str]:
        """Remove the subjects of violations, and return the xids of the removed entities."""
        removed = [self._remove(violation.subject) for violation in violations]
        return [xid for xid in dict.fromkeys(removed) if xid]

    def set_aside(self, violations: Iterable[Violation]) -> list[SetAside]:
        """Move the attributes that violations name to extensions; return the moved attributes."""
        return [moved for each in violations if (moved := self._move(each)) is not None]

    def _group(self, xid: Xid) -> Members:
        group = (self.members.get(xid.groups) or {}).get(xid.gid)
        return group if isinstance(group, dict) else {}

    def _remove(self, subject: str) -> str:
        """Remove an entity, or the resource of an only version; return the xid, empty if none."""
        xid = entity_of(subject)
        if xid is None:
            return ""
        if not xid.rid:
            found = self.members.get(xid.groups) or {}
            return str(xid) if found.pop(xid.gid, None) is not None else ""
        resources = self._group(xid).get(xid.resources) or {}
        versions = (resources.get(xid.rid) or {}).get("versions") or {}
        if xid.vid and xid.vid in versions and len(versions) > 1:
            del versions[xid.vid]
            return str(xid)
        return str(xid.resource) if resources.pop(xid.rid, None) is not None else ""

    def _move(self, violation: Violation) -> SetAside | None:
        xid = entity_of(violation.subject)
        path = _path(str(violation.args.get("name", "")))
        if xid is None or not path or path[0] in (OLDER, RC4_ATTRIBUTES):
            return None
        steps, entity, owner = self._entity(xid)
        if violation.subject.endswith("/meta"):
            path = ["meta", *path]
        if not _move(entity, path, owner):
            return None
        pointer = "".join(f"/{escaped(step)}" for step in (*steps, *path))
        return SetAside(pointer=pointer, reason=violation.title)

    def _entity(self, xid: Xid) -> tuple[list[str], Members, Members]:
        """The steps to an entity, the entity, and the object that gets the extension `older`."""
        steps, entity = [xid.groups, xid.gid], self._group(xid)
        if not xid.rid:
            return steps, entity, entity
        steps += [xid.resources, xid.rid]
        entity = (entity.get(xid.resources) or {}).get(xid.rid) or {}
        versions = entity.get("versions") or {}
        if xid.vid in versions:
            version = versions[xid.vid]
            return [*steps, "versions", xid.vid], version, version
        if not versions:
            return steps, entity, entity
        stated = (entity.get("meta") or {}).get("defaultversionid")
        return steps, entity, versions[default_version(versions, stated)]


def _path(name: str) -> list[str]:
    """The names on the path to an attribute; for an item of an array, the path to the array."""
    try:
        steps, end = read_path(name)
    except ValueError:
        return []
    names: list[str] = []
    for step in steps:
        if not isinstance(step, Key):
            return names
        names.append(step.name)
    return names if end == len(name) else []


def _move(entity: Members, path: list[str], owner: Members) -> bool:
    """Move an attribute to the extension of `owner`; return whether the attribute moved."""
    *outer, name = path
    holder: Any = entity
    for step in outer:
        holder = holder.get(step) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or name not in holder:
        return False
    extension: Any = owner.setdefault(OLDER, {})
    for step in outer:
        extension = extension.setdefault(step, {}) if isinstance(extension, dict) else None
    if not isinstance(extension, dict) or name in extension:
        return False
    extension[name] = _portable(holder.pop(name))
    return True


def _portable(value: Any) -> Any:
    """Return a value with integers beyond the exact range of a double as text."""
    if isinstance(value, dict):
        return {name: _portable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_portable(item) for item in value]
    is_large = isinstance(value, int) and abs(value) > _LARGEST
    return str(value) if is_large else value


class ImportState(StrEnum):
    """The state of a document after an import."""

    IMPORTED = "imported"
    REFUSED = "refused"
    DOUBTFUL = "in doubt"
    """The document was sent, and no answer came."""
    UNSENT = "not sent"


@dataclass(slots=True, kw_only=True)
class ImportResult:
    """The result of importing one document.

    Args:
        counts: the number of sent groups and resources by plural.
        written: the number of created or changed entities, including versions.
        left_out: xids of entities that broke a rule.
        left_alone: xids of entities that are replicas in the document and in the node.
        set_aside: attributes that the node refused, kept in an extension.
        notes: rules of the domains that the document breaks; a broken rule refuses nothing.
        is_interrupted: the import ended for a reason outside the document.
    """

    document: DocumentFile
    state: ImportState = ImportState.UNSENT
    counts: Mapping[str, int] = field(default_factory=dict)
    written: int = 0
    violations: tuple[Violation, ...] = ()
    left_out: tuple[str, ...] = ()
    left_alone: tuple[str, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    notes: tuple[Mapping[str, str], ...] = ()
    is_interrupted: bool = False

    @property
    def file(self) -> str:
        return str(self.document.path)

    @property
    def is_imported(self) -> bool:
        return self.state is ImportState.IMPORTED

    @property
    def has_errors(self) -> bool:
        return bool(self.violations) or not self.is_imported

    @property
    def subjects(self) -> set[str]:
        """The xids of the subjects of violations, except the registry."""
        return {violation.subject for violation in self.violations} - {"", "/"}

    def as_json(self) -> dict[str, Any]:
        document = self.document
        migrated = document.migrated
        rewrites, left_out = (
            ((), ()) if document.is_strict else (migrated.rewrites, migrated.left_out)
        )
        return {
            "file": self.file,
            "imported": self.is_imported,
            "state": self.state,
            "edition": migrated.found.edition,
            "reason": migrated.found.reason,
            "counts": dict(self.counts),
            "written": self.written,
            "losses": members_of(document.losses, "pointer", "value", "reason"),
            "older": [_rewrite_as_json(rewrite) for rewrite in document.older],
            "rewrites": [_rewrite_as_json(rewrite) for rewrite in rewrites],
            "notrewritten": [
                {"pointer": left.pointer, "reason": left.reason, "kept": left.is_kept}
                for left in left_out
            ],
            "setaside": members_of(self.set_aside, "pointer", "reason"),
            "violations": violations_as_json(self.violations),
            "leftout": self.left_out,
            "leftalone": self.left_alone,
            "notes": self.notes,
        }


def _rewrite_as_json(rewrite: Rewrite) -> dict[str, Any]:
    rule = rewrite.rule.text
    return {"pointer": rewrite.pointer, "old": rewrite.old, "new": rewrite.new, "rule": rule}


async def import_all(
    client: Client,
    documents: Sequence[DocumentFile],
    *,
    keep_going: bool,
    overwrite: bool,
    report: ImportReport | None,
) -> tuple[list[ImportResult], ClientError | None]:
    """Import documents until a document cannot be sent, and report the result of each.

    Args:
        keep_going: see `import_document`; `overwrite`, too.

    Returns:
        the result of each document, and the error that ended the import early, or `None`.

    Raises:
        ClientError: no document was sent.
        PortionTooLarge: no document was sent, since a resource is too large for a request.
    """
    results: list[ImportResult] = []
    model, capacity = await client.model(), await Capacity.of(client)
    # Raises `PortionTooLarge` before the first document is sent.
    for document in documents:
        portions(document.groups, model, capacity)
    with progress_bar() as progress:
        task = progress.add_task("Importing", total=len(documents))
        for document in documents:
            progress.update(task, description=f"Importing {document.path.name}")
            try:
                result = await import_document(
                    client,
                    document,
                    keep_going=keep_going,
                    overwrite=overwrite,
                    model=model,
                    capacity=capacity,
                )
            except ClientError as error:
                return [*results, *_interrupted(documents[len(results) :], error)], error
            results.append(result)
            if report is not None:
                report.show(result, await _owners(client, result))
            progress.advance(task)
    return results, None


def _interrupted(documents: Sequence[DocumentFile], error: ClientError) -> Iterator[ImportResult]:
    """The results of the document that was being sent, and of the documents after it."""
    first = ImportState.DOUBTFUL if error.is_doubtful else ImportState.REFUSED
    states = chain([first], repeat(ImportState.UNSENT))
    for document, state in zip(documents, states, strict=False):
        yield ImportResult(document=document, state=state, is_interrupted=True)


async def _owners(client: Client, result: ImportResult) -> dict[str, str]:
    """The links that bring the replicas, as text, by authority."""
    if not any("authority" in violation.args for violation in result.violations):
        return {}
    try:
        links = await client.links()
    except ClientError:
        return {}
    return {str(link.authority): f"{link.source} (link {link.id})" for link in links if link.source}


async def import_document(
    client: Client,
    document: DocumentFile,
    *,
    keep_going: bool = False,
    overwrite: bool = False,
    model: Mapping[str, Any] | None = None,
    capacity: Capacity | None = None,
) -> ImportResult:
    """Send a document's groups in one request, or in several requests if the groups are too large.

    A document with losses is only checked, except an AsyncAPI document with `keep_going`. If a
    document needs several requests, every request is checked before the first is sent. An entity
    without changes is not written; an entity that is a replica in the document and in the node is
    left alone.

    Args:
        keep_going: leave out refused entities and send the rest, until the node refuses nothing,
            or a part that cannot be left out.
        overwrite: replace entities with an epoch that differs from the document.
        model: the model of the node, fetched if not given; `capacity` likewise.

    Raises:
        ClientError: the node cannot be reached, or refuses for a reason outside the document.
        PortionTooLarge
    """
    model, capacity = model or await client.model(), capacity or await Capacity.of(client)
    groups = DocumentGroups(document.groups, model)
    result = ImportResult(document=document)
    is_refused = bool(document.losses) and not (document.is_asyncapi and keep_going)
    # Each round leaves out, moves or removes a part that the node has refused, so the loop ends.
    while result.state is ImportState.UNSENT:
        bodies = [groups.members]
        if capacity.size(groups.members) > capacity.bytes:
            bodies = portions(groups.members, model, capacity)
        answers, found = list[JsonObject](), list[Violation]()
        if is_refused or len(bodies) > 1:
            answers, found = await _send(client, bodies, overwrite=overwrite, dry_run=True)
        if not (is_refused or found):
            answers, found = await _send(client, bodies, overwrite=overwrite, dry_run=False)
            result.written += sum(each["created"] + each["updated"] for each in answers)
        if not found:
            result.notes = tuple(note for each in answers for note in each.get("notes", ()))
            result.state = ImportState.REFUSED if is_refused else ImportState.IMPORTED
        elif not _reduce(result, groups, found, keep_going=keep_going and not is_refused):
            result.state = ImportState.REFUSED
    if result.is_imported:
        result.counts = groups.counts()
    else:
        result.left_out, result.left_alone, result.set_aside = (), (), ()
    return result


async def _send(
    client: Client, bodies: Sequence[JsonObject], *, overwrite: bool, dry_run: bool
) -> tuple[list[JsonObject], list[Violation]]:
    """Send requests until the node refuses a request; a dry run sends every request."""
    answers, found = list[JsonObject](), list[Violation]()
    for body in bodies:
        try:
            answer = await client.import_groups(body, overwrite=overwrite, dry_run=dry_run)
        except ClientError as error:
            if not isinstance(error, Refused) or error.problem.status != 400:
                # Earlier requests have written a part of the document already.
                error.is_doubtful |= bool(answers) and not dry_run
                raise
            found += error.problem.violations
            if not dry_run:
                break
        else:
            answers.append(answer)
    return answers, found


def _reduce(
    result: ImportResult, groups: DocumentGroups, found: Sequence[Violation], *, keep_going: bool
) -> bool:
    """Remove the refused parts of a document; return whether a part was removed."""
    replicas = [v for v in found if v.name == "readonly" and groups.are_replicas(v.subject)]
    if left_alone := groups.remove(replicas):
        result.left_alone += tuple(left_alone)
        return True
    if result.document.keeps_unknown and (moved := groups.set_aside(found)):
        result.set_aside += tuple(moved)
        return True
    result.violations = tuple(dict.fromkeys((*result.violations, *found)))
    removed = tuple(groups.remove(found) if keep_going else ())
    result.left_out += removed
    return bool(removed)
