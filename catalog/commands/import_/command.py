"""The command `import`, and the report of its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from catalog.commands.authorities import Follow, authority_of
from catalog.commands.console import (
    CANNOT,
    DEFAULT_URL,
    NO,
    AsJson,
    Documents,
    KeepUnknown,
    Migrate,
    Quiet,
    Url,
    Verbose,
    cell,
    err,
    on_node,
    out,
    print_json,
    sentence,
    show_error,
)
from catalog.documents.migration import NEWEST_EDITION

if TYPE_CHECKING:
    from catalog.client import Client, ClientError
    from catalog.commands.import_.importing import ImportResult
    from catalog.documents.rewriter import Rewrite

app = typer.Typer()
_WIDEST = 100
_MOST_NAMED = 10


@app.command("import")
def import_(
    paths: Documents,
    migrate: Migrate = False,
    keep_unknown: KeepUnknown = False,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going",
            help="Leave out the entities that break a rule, import the rest, and list both.",
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace entities whose epoch differs from their document's."
        ),
    ] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    follow: Follow = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Import xRegistry and AsyncAPI documents of any edition, JSON or YAML, into a node.

    Files in directories have names in .xreg.json, .xreg.yaml, .xreg.yml, .cereg, .cereg.json,
    .cereg.yaml, .cereg.yml, asyncapi.json, asyncapi.yaml or asyncapi.yml, and every file has up to
    64 MiB. A document is imported as a whole
    or not at all, with a report of every broken rule. A document that is too large for a request
    of the node is checked as a whole, and sent in several requests. The groups of a document are
    sent, but not the name and description of the document, as the catalog has its own. An entity
    that is a replica in the document and in the catalog is left alone. With --follow, documents
    are imported at the authority if every group is a replica of the same catalog.

    A document is refused if the node refuses the groups, or if a part would be lost, such as
    attributes beside the versions of a schema. Names of the older editions 0.4 to 1.0-rc3 that
    the node keeps as extensions are only reported. With --migrate the names are rewritten; an
    attribute without a newest form is left out with the reason, or kept with --keep-unknown.

    Example: concord import weather.xreg.json traffic.xreg.yaml

    Example: concord import definitions/ 'more/**/*.cereg' --quiet

    An AsyncAPI document of 2.0 to 3.1 becomes a schema group, a message group for each channel, and
    an endpoint for each server and each operation. A reference to another file is a loss: with
    --keep-going the catalog keeps the reference itself.

    Example: concord import --migrate --keep-unknown crm.cereg

    Example: concord import api.asyncapi.yaml

    Exit codes: 0 all imported; 1 a document breaks a rule, or a part would be lost; 2 the command
    could not do its work. After a lost connection, the command lists the imported documents, the
    documents in doubt, and the documents that were not sent.
    """
    report = ImportReport(verbose=verbose, quiet=quiet)

    async def imported(client: Client) -> tuple[list[ImportResult], ClientError | None]:
        from catalog.commands.documentfile import read_documents
        from catalog.commands.import_.importing import import_all

        # The command reads every file before it sends: an invalid file prevents the whole import.
        documents = read_documents(paths, migrate=migrate, keep_unknown=keep_unknown)
        groups = [document.groups for document in documents] if follow else []
        async with authority_of(client, groups) as there:
            return await import_all(
                there,
                documents,
                keep_going=keep_going,
                overwrite=overwrite,
                report=None if as_json else report,
            )

    results, error = on_node(url, imported)
    if as_json:
        print_json([result.as_json() for result in results])
    else:
        report.summarise(results)
        report.advise(results)
    if error is not None:
        show_error(error.message, error.hint)
        report.show_interruption(results)
        raise typer.Exit(CANNOT)
    if any(result.has_errors for result in results):
        raise typer.Exit(NO)


class ImportReport:
    """The printed report of an import.

    Args:
        verbose: list each rewrite, instead of the number of each kind.
        quiet: report only documents with errors.
    """

    def __init__(self, *, verbose: bool = False, quiet: bool = False) -> None:
        self._verbose = verbose
        self._quiet = quiet

    def show(self, result: ImportResult, owners: Mapping[str, str]) -> None:
        """Print the result of one document.

        Args:
            owners: the links that bring replicas, as text, by authority.
        """
        if self._quiet and not result.has_errors:
            return
        if result.is_imported:
            unchanged = "" if result.written else " All of it was there."
            counts = _counted(result.counts)
            out.print(f"[green]Imported[/] {cell(result.file)}: {counts}.{unchanged}")
        elif result.written:
            # The catalog changed between the check of the whole document and the last request.
            written = f"{result.written:,} entities were written, the rest was refused"
            out.print(f"[red]Imported in part[/] {cell(result.file)}: {written}.")
        else:
            out.print(f"[red]Not imported[/] {cell(result.file)}: nothing of it was written.")
        if not self._quiet:
            self._show_rewriting(result)
            self._show_list("Left alone, read-only there and here", result.left_alone)
            notes = [(note["detail"], note["subject"] + note["pointer"]) for note in result.notes]
            heading = "Imported, but to be looked at" if result.is_imported else "To be looked at"
            self._show_reasons(heading, notes)
        losses = [(loss.reason, cell(loss.pointer)) for loss in result.document.losses]
        _show_groups("What the catalog would lose or misread", losses)
        _show_violations(result, owners)
        if result.left_out:
            out.print(f"  Left out ({len(result.left_out)}):")
            _show_lines(result.left_out)

    def summarise(self, results: Sequence[ImportResult]) -> None:
        """Print a sentence about the whole import, if it has several documents."""
        if self._quiet or len(results) < 2:
            return
        counted: Counter[str] = Counter()
        for result in results:
            counted.update(result.counts)
        imported = sum(result.is_imported for result in results)
        out.print(
            f"[bold]Imported {imported} of {len(results)} documents[/]"
            + (f": {_counted(counted)}." if counted else ".")
        )

    def show_interruption(self, results: Sequence[ImportResult]) -> None:
        """Print the documents that were not imported, or are in doubt."""
        stopped, *unsent = [result for result in results if result.is_interrupted]
        if stopped.state == "in doubt":
            err.print(f"In doubt: {cell(stopped.file)} was sent, and no answer came.")
        else:
            err.print(f"Not imported: {cell(stopped.file)}.")
        if unsent:
            after = f" and the {len(unsent) - 1} after it" if len(unsent) > 1 else ""
            err.print(f"Not sent: {cell(unsent[0].file)}{after}.")

    def advise(self, results: Sequence[ImportResult]) -> None:
        """Print options of the command that would solve the problems."""
        not_sent = sorted({name for result in results for name in result.document.not_sent})
        if not_sent and not self._quiet:
            err.print(f"Not sent, since they describe the document itself: {', '.join(not_sent)}.")
        failed = [result for result in results if result.has_errors]
        violations = [(result, violation) for result in failed for violation in result.violations]
        if any(r.document.is_strict and r.document.migrated.rewrites for r in failed):
            err.print("Rewrite older or misplaced attributes with --migrate.")
        elif any("name" in v.args and not r.document.keeps_unknown for r, v in violations):
            err.print("Keep attributes that the model refuses as an extension: --keep-unknown.")
        translated = [result for result in failed if result.document.is_asyncapi]
        if any(r.subjects and not (r.is_imported or r.document.losses) for r in failed) or any(
            result.document.losses for result in translated
        ):
            err.print("Correct the document, or import the rest of it with --keep-going.")
        if any(violation.name == "mismatched_epoch" for _, violation in violations):
            err.print("Replace entities that have another epoch with --overwrite.")

    def _show_rewriting(self, result: ImportResult) -> None:
        document = result.document
        edition = document.migrated.found.edition
        if document.is_strict:
            self._show_rewrites(f"Of edition {edition}, with older names", document.older)
            return
        origin = "" if edition == NEWEST_EDITION else f" from edition {edition}"
        self._show_rewrites(f"Rewritten{origin}", document.migrated.rewrites)
        left_out = document.migrated.left_out
        for kept, title in ((True, "Kept in `older`"), (False, "Not rewritten, and left out")):
            chosen = [(one.reason, one.pointer) for one in left_out if one.is_kept is kept]
            self._show_reasons(title, chosen)
        pointers = [each.pointer for each in result.set_aside]
        self._show_list("Refused by the catalog, and kept in `older`", pointers)
        if self._verbose:
            _show_lines(f"{each.pointer}: {each.reason}" for each in result.set_aside)

    def _show_rewrites(self, title: str, rewrites: Sequence[Rewrite]) -> None:
        if self._verbose:
            shown = (
                (each.rule.text, f"{cell(each.pointer)}: {_short(each.old)} → {_short(each.new)}")
                for each in rewrites
            )
            _show_groups(title, list(shown))
        else:
            self._show_reasons(title, [(each.rule.text, each.pointer) for each in rewrites])

    def _show_reasons(self, title: str, found: Sequence[tuple[str, str]]) -> None:
        """Print the count of each reason, or with `verbose` each pointer with the reason."""
        if not found:
            return
        if self._verbose:
            out.print(f"  {title} ({len(found)}):")
            _show_lines(f"{pointer}: {reason}." for reason, pointer in found)
            return
        counts = Counter(reason for reason, _ in found)
        shown = "; ".join(f"{cell(reason)} ({count})" for reason, count in counts.items())
        out.print(f"  {title} ({len(found)}): {shown}.")

    def _show_list(self, title: str, names: Sequence[str]) -> None:
        if names:
            shown = names if self._verbose else names[:_MOST_NAMED]
            more = len(names) - len(shown)
            rest = f" and {more} more" if more else ""
            out.print(f"  {title} ({len(names)}): {cell(', '.join(shown))}{rest}.")


def _show_groups(title: str, found: Sequence[tuple[str, str]]) -> None:
    """Print lines of markup, grouped by heading."""
    if found:
        out.print(f"  {title} ({len(found)}):")
    by_heading: dict[str, list[str]] = {}
    for heading, line in found:
        by_heading.setdefault(heading, []).append(line)
    for heading, lines in by_heading.items():
        out.print(f"    [bold]{cell(heading)}[/]")
        for line in lines:
            out.print(f"      {line}")


def _show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        out.print(f"    {cell(line)}")


def _show_violations(result: ImportResult, owners: Mapping[str, str]) -> None:
    by_authority: dict[str, list[str]] = {}
    others: list[tuple[str, str]] = []
    for violation in result.violations:
        if "authority" in violation.args:
            by_authority.setdefault(str(violation.args["authority"]), []).append(violation.subject)
        else:
            others.append((violation.subject, cell(sentence(violation))))
    for authority, subjects in by_authority.items():
        owner = owners.get(authority, authority)
        out.print(f"  Replicas, which only {cell(owner)} may change ({len(subjects)}):")
        _show_lines(subjects)
    _show_groups(f"What {'broke' if result.is_imported else 'breaks'} a rule", others)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{plural} {count}" for plural, count in counts.items())


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = cell(value if isinstance(value, str) else orjson.dumps(value).decode())
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"
