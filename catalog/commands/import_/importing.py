"""The import of documents into a node, one after the other: whole, or all of it that obeys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from catalog.client import Client, ClientError, Refused, Violation
from catalog.commands.console import err
from catalog.commands.documentfile import DocumentFile
from catalog.commands.import_.documentgroups import DocumentGroups, SetAside
from catalog.documents.rewriter import Rewrite

if TYPE_CHECKING:
    from rich.progress import Progress

    from catalog.commands.import_.report import ImportReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Where documents go, and what is done about what the node objects to."""

    url: str
    keep_going: bool = False
    overwrite: bool = False


async def import_all(
    documents: Sequence[DocumentFile], how: ImportOptions, report: ImportReport | None
) -> tuple[list[ImportResult], ClientError | None]:
    """Import documents until one cannot be sent, and tell of each when it is done.

    Returns:
        what became of each document, and why not all of them were sent.

    Raises:
        ClientError: nothing was sent at all.
    """
    results: list[ImportResult] = []
    async with Client.open(how.url) as client:
        model = await client.get("/model")
        with _progress() as progress:
            task = progress.add_task("Importing", total=len(documents))
            for document in documents:
                progress.update(task, description=f"Importing {document.path.name}")
                try:
                    result = await import_document(
                        client,
                        document,
                        keep_going=how.keep_going,
                        overwrite=how.overwrite,
                        model=model,
                    )
                except ClientError as error:
                    return [*results, *_interrupted(documents[len(results) :], error)], error
                results.append(result)
                if report is not None:
                    report.show(result, await _owners(client, result))
                progress.advance(task)
    return results, None


def _interrupted(documents: Sequence[DocumentFile], error: ClientError) -> Iterator[ImportResult]:
    """The document that was being sent, and those after it."""
    states = chain(
        [ImportState.DOUBTFUL if error.is_doubtful else ImportState.REFUSED],
        repeat(ImportState.UNSENT),
    )
    for document, state in zip(documents, states, strict=False):
        file = str(document.path)
        yield ImportResult(file=file, state=state, document=document, is_interrupted=True)


async def _owners(client: Client, result: ImportResult) -> dict[str, str]:
    """What the authorities of replicas are known by: the links that bring what they control."""
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


def _progress() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


async def import_document(
    client: Client,
    document: DocumentFile,
    *,
    keep_going: bool = False,
    overwrite: bool = False,
    model: Mapping[str, Any] | None = None,
) -> ImportResult:
    """Send a document's groups in one request, unless something of it would be lost.

    Then the node is only asked what else it objects to. What is there as the document says is
    not written. What is a replica where the document comes from, and in the node, is left alone.

    Args:
        client: the node that is to have them.
        document: what to import.
        keep_going: leave out what the node objects to and send the rest, until the node
            objects to nothing more, or to something that cannot be left out.
        overwrite: replace what has another epoch than the document says, too.
        model: the node's, if it is known.

    Raises:
        ClientError: the node cannot be reached, or refuses for a reason of its own.
    """
    known = model if model is not None else await client.get("/model")
    groups = DocumentGroups(document.groups, known)
    attempt = _Attempt(document, groups, keep_going=keep_going and not document.losses)
    while not attempt.is_over:
        try:
            attempt.end(
                await client.import_groups(
                    attempt.groups.members, overwrite=overwrite, dry_run=bool(document.losses)
                )
            )
        except Refused as refused:
            attempt.give_way(refused)
    return attempt.result()


class _Attempt:
    """One document, and what was taken out of it so far because the node refused it."""

    def __init__(self, document: DocumentFile, groups: DocumentGroups, *, keep_going: bool) -> None:
        self.groups = groups
        self.state = ImportState.UNSENT
        self._document = document
        self._keep_going = keep_going
        self._violations: list[Violation] = []
        self._left_out: list[str] = []
        self._left_alone: list[str] = []
        self._set_aside: list[SetAside] = []
        self._written = 0
        self._notes: list[Mapping[str, str]] = []

    @property
    def is_over(self) -> bool:
        return self.state is not ImportState.UNSENT

    def end(self, answer: Mapping[str, Any]) -> None:
        """The node has taken what was sent, or would have."""
        self.state = ImportState.REFUSED if self._document.losses else ImportState.IMPORTED
        self._written = int(answer.get("created", 0)) + int(answer.get("updated", 0))
        self._notes = answer.get("notes", [])

    def give_way(self, refused: Refused) -> None:
        """Change what is sent so that it may be taken the next time, or end the attempt.

        Raises:
            Refused: it is about something else than the document.
        """
        if refused.problem.status != 400:
            raise refused
        violations = refused.problem.violations
        replicas = [each for each in violations if self._is_expected(each)]
        if alone := self.groups.remove(replicas):
            self._left_alone += alone
            return
        if self._document.keeps_unknown and (moved := self.groups.set_aside(violations)):
            self._set_aside += moved
            return
        self._violations += violations
        removed = self.groups.remove(violations) if self._keep_going else []
        self._left_out += removed
        if not removed:
            self.state = ImportState.REFUSED

    def _is_expected(self, violation: Violation) -> bool:
        return violation.type.endswith("#readonly") and self.groups.are_replicas(violation.subject)

    def result(self) -> ImportResult:
        is_imported = self.state is ImportState.IMPORTED
        return ImportResult(
            file=str(self._document.path),
            state=self.state,
            document=self._document,
            counts=self.groups.counts() if is_imported else {},
            written=self._written if is_imported else 0,
            violations=tuple(dict.fromkeys(self._violations)),
            left_out=tuple(self._left_out) if is_imported else (),
            left_alone=tuple(self._left_alone) if is_imported else (),
            set_aside=tuple(self._set_aside) if is_imported else (),
            notes=tuple(self._notes),
        )


class ImportState(StrEnum):
    """Where a document is after a command."""

    IMPORTED = "imported"
    REFUSED = "refused"
    DOUBTFUL = "in doubt"
    """It was sent, and nobody answered."""
    UNSENT = "not sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """The result of importing one document: `counts` is what the node has of it now, by plural.

    `written` is how many entities, versions too, were created or changed for it. `left_alone` is
    what the document shows as read-only, and is so in the node, too. `left_out` broke a rule, and
    `set_aside` is what could be kept as an extension instead. `notes` are of rules of the domains
    that refuse nothing. Whatever went wrong with a document that `is_interrupted` was no fault of
    what is in it.
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
    def is_wrong(self) -> bool:
        """Whether there is something that whoever imports it has to look at."""
        return bool(self.violations) or not self.is_imported

    @property
    def subjects(self) -> set[str]:
        return {violation.subject for violation in self.violations} - {"", "/"}

    def as_json(self) -> dict[str, Any]:
        document = self.document
        migrated, is_strict = document.migrated, document.is_strict
        return {
            "file": self.file,
            "imported": self.is_imported,
            "state": self.state,
            "edition": migrated.found.edition,
            "reason": migrated.found.reason,
            "counts": dict(self.counts),
            "written": self.written,
            "losses": [
                {"pointer": loss.pointer, "value": loss.value, "reason": loss.reason}
                for loss in document.losses
            ],
            "older": [_rewrite_as_json(rewrite) for rewrite in document.older],
            "rewrites": [
                _rewrite_as_json(rewrite) for rewrite in ([] if is_strict else migrated.rewrites)
            ],
            "notrewritten": [
                {"pointer": left.pointer, "reason": left.reason, "kept": left.is_kept}
                for left in ([] if is_strict else migrated.left_out)
            ],
            "setaside": [
                {"pointer": each.pointer, "reason": each.reason} for each in self.set_aside
            ],
            "violations": [
                {"subject": v.subject, "type": v.type, "title": v.title, "detail": v.detail}
                for v in self.violations
            ],
            "leftout": list(self.left_out),
            "leftalone": list(self.left_alone),
            "notes": list(self.notes),
        }


def _rewrite_as_json(rewrite: Rewrite) -> dict[str, Any]:
    rule = rewrite.rule.text
    return {"pointer": rewrite.pointer, "old": rewrite.old, "new": rewrite.new, "rule": rule}
