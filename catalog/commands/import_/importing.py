"""Imports documents into a node, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from catalog.client import Client, ClientError, Refused, Violation
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
    """It was sent, and no answer came."""
    UNSENT = "not sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """The result of importing one document.

    Args:
        counts: the number of groups and resources that were sent, by their plural.
        written: the number of entities, with versions, that were created or changed.
        left_out: xids of entities that broke a rule.
        left_alone: xids of entities that are replicas in the document and in the node.
        set_aside: attributes that the node refused, and that are kept in an extension.
        notes: rules of the domains that the document breaks; they refuse nothing.
        is_interrupted: the import ended for a reason that is not in the document.
    """

    file: str
    state: ImportState
    document: DocumentFile
    counts: Mapping[str, int] = field(default_factory=dict)
    written: int = 0
    violations: tuple[Violation, ...] = ()
    left_out: tuple[str, ...] = ()
    left_alone: tuple[str, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    notes: tuple[Mapping[str, str], ...] = ()
    is_interrupted: bool = False

    @property
    def is_imported(self) -> bool:
        return self.state is ImportState.IMPORTED

    @property
    def has_errors(self) -> bool:
        return bool(self.violations) or not self.is_imported

    @property
    def subjects(self) -> set[str]:
        """The xids that violations are about, but for the registry's."""
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
            "leftout": list(self.left_out),
            "leftalone": list(self.left_alone),
            "notes": list(self.notes),
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
    """Import documents until one cannot be sent, and report each when it is done.

    Args:
        keep_going: see `import_document`; `overwrite`, too.

    Returns:
        the result of each document, and the reason why not all of them were sent.

    Raises:
        ClientError: nothing was sent at all.
    """
    results: list[ImportResult] = []
    model = await client.model()
    with progress_bar() as progress:
        task = progress.add_task("Importing", total=len(documents))
        for document in documents:
            progress.update(task, description=f"Importing {document.path.name}")
            try:
                result = await import_document(
                    client, document, keep_going=keep_going, overwrite=overwrite, model=model
                )
            except ClientError as error:
                return [*results, *_interrupted(documents[len(results) :], error)], error
            results.append(result)
            if report is not None:
                report.show(result, await _owners(client, result))
            progress.advance(task)
    return results, None


def _interrupted(documents: Sequence[DocumentFile], error: ClientError) -> Iterator[ImportResult]:
    """The results of the document that was being sent, and of those after it."""
    first = ImportState.DOUBTFUL if error.is_doubtful else ImportState.REFUSED
    states = chain([first], repeat(ImportState.UNSENT))
    for document, state in zip(documents, states, strict=False):
        file = str(document.path)
        yield ImportResult(file=file, state=state, document=document, is_interrupted=True)


async def _owners(client: Client, result: ImportResult) -> dict[str, str]:
    """The link that brings the replicas of each authority, as text."""
    if not any("authority" in violation.args for violation in result.violations):
        return {}
    try:
        links = await client.links()
    except ClientError:
        return {}
    return {
        str(link.get("authority")): f"{link.get('source')} (link {link.get('id')})"
        for link in links
    }


async def import_document(
    client: Client,
    document: DocumentFile,
    *,
    keep_going: bool = False,
    overwrite: bool = False,
    model: Mapping[str, Any] | None = None,
) -> ImportResult:
    """Send a document's groups in one request.

    A document of which a part would be lost is only checked. An entity that is equal already is
    not written; one that is a replica in the document and in the node is left alone.

    Args:
        keep_going: leave out the entities that the node refuses, and send the rest, until the
            node refuses none, or something that cannot be left out.
        overwrite: replace entities whose epoch differs from the document's.
        model: the node's; it is fetched if not given.

    Raises:
        ClientError: the node cannot be reached, or refuses for a reason of its own.
    """
    groups = DocumentGroups(document.groups, model or await client.model())
    attempt = _Attempt(document, groups, keep_going=keep_going and not document.losses)
    while not attempt.is_over:
        try:
            attempt.finish(
                await client.import_groups(
                    groups.members, overwrite=overwrite, dry_run=bool(document.losses)
                )
            )
        except Refused as refused:
            attempt.reduce(refused)
    return attempt.result()


class _Attempt:
    """The import of one document, and the parts that were removed since the node refused them."""

    def __init__(self, document: DocumentFile, groups: DocumentGroups, *, keep_going: bool) -> None:
        self._document = document
        self._groups = groups
        self._keep_going = keep_going
        self._state = ImportState.UNSENT
        self._violations: list[Violation] = []
        self._left_out: list[str] = []
        self._left_alone: list[str] = []
        self._set_aside: list[SetAside] = []
        self._written = 0
        self._notes: list[Mapping[str, str]] = []

    @property
    def is_over(self) -> bool:
        return self._state is not ImportState.UNSENT

    def finish(self, answer: Mapping[str, Any]) -> None:
        """Take the answer of a node that accepted the groups."""
        self._state = ImportState.REFUSED if self._document.losses else ImportState.IMPORTED
        self._written = int(answer.get("created", 0)) + int(answer.get("updated", 0))
        self._notes = answer.get("notes", [])

    def reduce(self, refused: Refused) -> None:
        """Remove the parts that the node refused, or end the attempt.

        Raises:
            Refused: for a reason that is not in the document.
        """
        if refused.problem.status != 400:
            raise refused
        violations = refused.problem.violations
        replicas = [each for each in violations if self._is_replica_in_both(each)]
        if left_alone := self._groups.remove(replicas):
            self._left_alone += left_alone
            return
        if self._document.keeps_unknown and (moved := self._groups.set_aside(violations)):
            self._set_aside += moved
            return
        self._violations += violations
        removed = self._groups.remove(violations) if self._keep_going else []
        self._left_out += removed
        if not removed:
            self._state = ImportState.REFUSED

    def _is_replica_in_both(self, violation: Violation) -> bool:
        return violation.name == "readonly" and self._groups.are_replicas(violation.subject)

    def result(self) -> ImportResult:
        is_imported = self._state is ImportState.IMPORTED
        return ImportResult(
            file=str(self._document.path),
            state=self._state,
            document=self._document,
            counts=self._groups.counts() if is_imported else {},
            written=self._written if is_imported else 0,
            violations=tuple(dict.fromkeys(self._violations)),
            left_out=tuple(self._left_out) if is_imported else (),
            left_alone=tuple(self._left_alone) if is_imported else (),
            set_aside=tuple(self._set_aside) if is_imported else (),
            notes=tuple(self._notes),
        )
