"""Imports documents into a node, document by document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from catalog.client import Client, ClientError, JsonObject, Refused, Violation
from catalog.commands.apply.requests import Capacity, portions
from catalog.commands.console import members_of, progress_bar, violations_as_json
from catalog.commands.documentfile import DocumentFile
from catalog.commands.import_.documentgroups import DocumentGroups, SetAside
from catalog.documents.rewriter import Rewrite

if TYPE_CHECKING:
    from catalog.commands.import_.report import ImportReport


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

    A document with losses is only checked. If a document needs several requests, every request is
    checked before the first is sent. An entity without changes is not written; an entity that is a
    replica in the document and in the node is left alone.

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
    while result.state is ImportState.UNSENT:
        bodies = [groups.members]
        if capacity.size(groups.members) > capacity.bytes:
            bodies = portions(groups.members, model, capacity)
        answers, found = list[JsonObject](), list[Violation]()
        if document.losses or len(bodies) > 1:
            answers, found = await _send(client, bodies, overwrite=overwrite, dry_run=True)
        if not (document.losses or found):
            answers, found = await _send(client, bodies, overwrite=overwrite, dry_run=False)
            result.written += sum(each["created"] + each["updated"] for each in answers)
        if not found:
            result.notes = tuple(note for each in answers for note in each.get("notes", ()))
            result.state = ImportState.REFUSED if document.losses else ImportState.IMPORTED
        elif not _reduce(result, groups, found, keep_going=keep_going and not document.losses):
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
