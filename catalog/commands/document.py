"""An xRegistry document as a file, and its import into a node: whole, or all that obeys."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catalog.client import Client, Refused, Violation
from catalog.documents import migrate as migrations
from catalog.documents.migrate import Migrated
from catalog.documents.trail import Rewrite
from catalog.model.xid import Xid
from catalog.sourcefile import SourceFileError, read_object_file

# What a Registry has besides its groups (core/spec.md, "Registry Entity"): what a document
# says of itself, and what its catalog assigned. Some have objects where text should be.
ABOUT = frozenset({"description", "documentation", "icon", "labels", "name"})
ASSIGNED = frozenset(
    {"capabilities", "createdat", "epoch", "model", "modelsource", "modifiedat"}
    | {"registryid", "self", "shortself", "specversion", "xid"}
)


class DocumentError(Exception):
    """A file that is no xRegistry document. `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file's groups, by their plural, and the names of what it says of itself.

    `migrated` is what was done to bring it to the newest edition. `is_strict` documents are
    imported only if that is nothing.
    """

    path: Path
    groups: Mapping[str, Mapping[str, Any]]
    not_sent: tuple[str, ...]
    migrated: Migrated
    is_strict: bool

    @property
    def refusals(self) -> tuple[Rewrite, ...]:
        """What only an older edition has."""
        return self.migrated.older if self.is_strict else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of one document: `counts` is what was written, by plural.

    `left_alone` is what the document shows as read-only, and is so in the node, too.
    """

    file: str
    is_imported: bool
    document: Document
    counts: Mapping[str, int] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()
    left_out: tuple[str, ...] = ()
    left_alone: tuple[str, ...] = ()

    @property
    def subjects(self) -> set[str]:
        return {violation.subject for violation in self.violations} - {"", "/"}

    @property
    def counted(self) -> str:
        return ", ".join(f"{plural} {count}" for plural, count in self.counts.items())

    @property
    def not_sent(self) -> tuple[str, ...]:
        return self.document.not_sent

    def as_json(self) -> dict[str, Any]:
        migrated, is_strict = self.document.migrated, self.document.is_strict
        return {
            "file": self.file,
            "imported": self.is_imported,
            "edition": migrated.found.edition,
            "reason": migrated.found.reason,
            "counts": dict(self.counts),
            "older": [_rewrite_as_json(rewrite) for rewrite in self.document.refusals],
            "rewrites": [
                _rewrite_as_json(rewrite) for rewrite in ([] if is_strict else migrated.rewrites)
            ],
            "notrewritten": [
                {"pointer": left.pointer, "reason": left.reason, "kept": left.is_kept}
                for left in ([] if is_strict else migrated.left_out)
            ],
            "violations": [
                {"subject": v.subject, "type": v.type, "title": v.title, "detail": v.detail}
                for v in self.violations
            ],
            "leftout": list(self.left_out),
            "leftalone": list(self.left_alone),
        }


def _rewrite_as_json(rewrite: Rewrite) -> dict[str, Any]:
    rule = rewrite.rule.text
    return {"pointer": rewrite.pointer, "old": rewrite.old, "new": rewrite.new, "rule": rule}


def read_document(path: Path, *, migrate: bool = False, keep_unknown: bool = False) -> Document:
    """Read a JSON or YAML file of any edition.

    Args:
        path: the file; its name says whether it is YAML.
        migrate: rewrite it to the newest edition, instead of taking only that one.
        keep_unknown: keep what cannot be rewritten as an extension.

    Raises:
        DocumentError: it cannot be read, is not an object, or has no groups.
    """
    try:
        source = read_object_file(path)
        migrated = migrations.migrate(source, keep_unknown=keep_unknown)
    except SourceFileError as error:
        raise DocumentError(error.message, error.hint) from error
    taken = migrated.document if migrate else source
    groups = {name: value for name, value in taken.items() if _is_groups(name, value)}
    if not groups:
        raise DocumentError(
            f"{path} holds no groups.", "It should have messagegroups, schemagroups or endpoints."
        )
    left = (name for name in taken if name not in groups and not _is_assigned(name))
    return Document(
        path=path,
        groups=groups,
        not_sent=tuple(sorted(left)),
        migrated=migrated,
        is_strict=not migrate,
    )


def _is_groups(name: str, value: Any) -> bool:
    if name in ABOUT or _is_assigned(name) or name.startswith("$"):
        return False
    return isinstance(value, dict)


def _is_assigned(name: str) -> bool:
    name = name.lower()
    return name in ASSIGNED or name.endswith(("url", "count"))


async def import_document(
    client: Client, document: Document, *, keep_going: bool, overwrite: bool = False
) -> Imported:
    """Send a document's groups with one `POST /`, unless they are of an older edition.

    What is a replica where the document comes from, and in the node, is left alone.

    Args:
        client: the node that is to have them.
        document: what to import.
        keep_going: leave out what the node objects to and send the rest, until the node
            objects to nothing more, or to something that cannot be left out.
        overwrite: replace what has another epoch than the document says, too.

    Raises:
        ClientError: the node cannot be reached, or refuses for a reason of its own.
    """
    if document.refusals:
        return Imported(file=str(document.path), is_imported=False, document=document)
    groups = copy.deepcopy(dict(document.groups))
    violations: list[Violation] = []
    left_out: list[str] = []
    left_alone: list[str] = []
    is_imported = False
    while not is_imported:
        try:
            await client.import_groups(groups, overwrite=overwrite)
            is_imported = True
        except Refused as refused:
            if refused.problem.status != 400:
                raise
            if alone := _leave_out(groups, _expected(groups, refused.problem.violations)):
                left_alone += alone
                continue
            violations += refused.problem.violations
            removed = _leave_out(groups, refused.problem.violations) if keep_going else []
            left_out += removed
            if not removed:
                break
    return Imported(
        file=str(document.path),
        is_imported=is_imported,
        counts=_counts(groups, await client.get("/model")) if is_imported else {},
        violations=tuple(dict.fromkeys(violations)),
        left_out=tuple(left_out) if is_imported else (),
        left_alone=tuple(left_alone) if is_imported else (),
        document=document,
    )


def _counts(groups: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, int]:
    """How many groups and resources there are of each kind of the node's model."""
    counted: Counter[str] = Counter()
    for plural, members in groups.items():
        counted[plural] += len(members)
        for kind in model["groups"].get(plural, {}).get("resources", {}):
            found = sum(len(group.get(kind) or {}) for group in members.values())
            counted.update({kind: found} if found else {})
    return dict(counted)


def _expected(groups: Mapping[str, Any], violations: Sequence[Violation]) -> list[Violation]:
    """Those about what the document itself shows as read-only."""
    return [
        violation
        for violation in violations
        if violation.type.endswith("#readonly") and _is_readonly(groups, violation.subject)
    ]


def _is_readonly(groups: Mapping[str, Any], subject: str) -> bool:
    """Whether a document says so of a resource, or of every resource of a group."""
    xid = _xid_of(subject)
    if xid is None:
        return False
    group = groups.get(xid.groups, {}).get(xid.gid, {})
    kinds = [xid.resources] if xid.rid else [name for name in group if f"{name}url" in group]
    found = [
        resource.get("meta", {}).get("readonly") is True
        for kind in kinds
        for id, resource in group.get(kind, {}).items()
        if xid.rid in ("", id)
    ]
    return bool(found) and all(found)


def _xid_of(subject: str) -> Xid | None:
    """The entity that an error is about, if it is about one."""
    try:
        return Xid.parse(subject.partition("$")[0].removesuffix("/meta"))
    except ValueError:
        return None


def _leave_out(groups: dict[str, Any], violations: Sequence[Violation]) -> list[str]:
    """Take the subjects of `violations` out of `groups`; the xids that went."""
    removed = [_remove(groups, violation.subject) for violation in violations]
    return [xid for xid in dict.fromkeys(removed) if xid]


def _remove(groups: dict[str, Any], subject: str) -> str:
    """Take one entity out; a version takes its resource along if it is the only one."""
    xid = _xid_of(subject)
    if xid is None:
        return ""
    group = groups.get(xid.groups, {}).get(xid.gid)
    if not isinstance(group, dict) or not xid.rid:
        return str(xid) if groups.get(xid.groups, {}).pop(xid.gid, None) is not None else ""
    resources = group.get(xid.resources) or {}
    resource = resources.get(xid.rid) or {}
    versions = resource.get("versions") or {}
    if xid.vid and xid.vid in versions and len(versions) > 1:
        del versions[xid.vid]
        return str(xid)
    return str(xid.resource) if resources.pop(xid.rid, None) is not None else ""
