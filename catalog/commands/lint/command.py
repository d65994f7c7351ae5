"""The command `lint`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from catalog.commands.console import NO, AsJson, CommandError, Documents, Migrate, run
from catalog.commands.lint.report import check_report, show_findings, write_report
from catalog.commands.secretsources import token_for
from catalog.documents.rewriter import unescaped
from catalog.documents.serialization import STDIN

if TYPE_CHECKING:
    from catalog.commands.documentfile import DocumentFile
    from catalog.lint.declaredentities import DeclaredEntities
    from catalog.lint.documentchanges import DocumentChange
    from catalog.lint.linter import Finding
    from catalog.model.configuration import Configuration


# The line numbers of larger files are not looked up.
_LARGEST_BYTES = 8 * 1024 * 1024


Located = TypeVar("Located", "Finding", "DocumentChange")


def with_lines(findings: Sequence[Located], paths: Sequence[Path]) -> list[Located]:
    """Add line numbers to findings, and sort the findings by the order of files, and by line."""
    files = {str(path): (place, FileLines(path)) for place, path in enumerate(paths)}
    located = [
        replace(each, line=files[each.file][1].line_of(each.pointer))
        if each.file in files and each.pointer
        else each
        for each in findings
    ]
    last = (len(files), None)
    return sorted(located, key=lambda each: (files.get(each.file, last)[0], each.line))


class FileLines:
    """The lines of a JSON or YAML file, which is read at the first lookup.

    The YAML parser reads both, and keeps the line of each node.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def line_of(self, pointer: str) -> int:
        """The line, counted from 1, of a member, or of the nearest existing ancestor.

        The line is 0 if the file cannot be read again, is no YAML, or is larger than 8 MiB.
        """
        if self._root is None:
            return 0
        node, mark = self._root, self._root.start_mark
        for step in pointer.split("/")[1:]:
            found = _inside(node, unescaped(step))
            if found is None:
                break
            mark, node = found
        return int(mark.line) + 1

    @cached_property
    def _root(self) -> Any:
        import yaml

        try:
            if self._path == STDIN or self._path.stat().st_size > _LARGEST_BYTES:
                return None
            return yaml.compose(self._path.read_bytes(), yaml.CSafeLoader)
        except (OSError, yaml.YAMLError, ValueError, RecursionError):
            return None


def _inside(node: Any, name: str) -> tuple[Any, Any] | None:
    """The start and the node of a member."""
    if node.id == "mapping":
        for key, value in node.value:
            if key.value == name:
                return key.start_mark, value
    elif node.id == "sequence" and name.isdecimal() and int(name) < len(node.value):
        item = node.value[int(name)]
        return item.start_mark, item
    return None


app = typer.Typer()


@app.command()
def lint(
    paths: Documents,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Import the documents on top of this, and list the changes: a git revision of the "
            "same paths, an export, or a catalog's URL. Repeatable: each further URL is a catalog "
            "that is asked who uses what changes.",
            metavar="REVISION|FILE|URL",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The model, JSON or YAML. By default it is that of the catalog at the URL or of "
            "the export, or else the default model.",
            metavar="FILE",
        ),
    ] = None,
    migrate: Migrate = False,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    format: Annotated[
        Literal["text", "json", "github"],
        typer.Option(help="How to print findings; github annotates a pull request."),
    ] = "text",
    reports: Annotated[
        list[Path] | None,
        typer.Option(
            "--report",
            help="Write the findings to this file, too: .sarif for code scanning, .md for a "
            "comment on a pull request, .json. Repeatable.",
            metavar="FILE",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check documents by the rules of a catalog, and by further rules, without a node.

    The documents form one set, which the code of a node imports into a catalog in memory. Errors
    are violations of the model, of a schema's format, and of the compatibility of a schema's
    versions. Warnings are violations of the endpoint, message and schema specifications that a
    catalog does not enforce, and attributes that the model lacks: a misspelt name becomes an
    extension. Notes name the parts that could not be checked.

    With --against, the documents are imported on top of the given state. A new version that breaks
    the compatibility of its schema is an error then, and so is an incompatible change of a
    published version. Each change is listed, too: the fields that differ, which of them break
    readers by the compatibility rule in force, and who refers to the entity.

    Example: concord lint definitions/

    Example: concord lint definitions/ --against HEAD

    Example: concord lint definitions/ --against https://catalog.example.com --strict

    Example: concord lint definitions/ --against main --against https://eu.example --against
    https://us.example

    Example: concord lint definitions/ --against export.xreg.json --report lint.sarif --report
    comment.md

    Exit codes: 0 no errors; 1 errors; 2 the command could not do its work.
    """
    for path in reports or ():
        check_report(path)
    findings, changes = run(lambda: _lint(paths, against or [], model, migrate=migrate))
    if strict:
        findings = [
            replace(each, severity="error") if each.severity == "warning" else each
            for each in findings
        ]
    for path in reports or ():
        write_report(path, findings, changes)
    show_findings(findings, changes, "json" if as_json else format)
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(NO)


async def _lint(
    arguments: list[str], against: Sequence[str], model: str | None, *, migrate: bool
) -> tuple[list[Finding], list[DocumentChange]]:
    from catalog.client import Client
    from catalog.commands.documentfile import document_paths
    from catalog.commands.lint.baseline import (
        base_at_rest,
        base_in,
        configuration_in,
        configuration_of,
        users_at,
    )
    from catalog.documents.serialization import STDIN
    from catalog.formats.checker import Checker
    from catalog.lint.lintedcatalog import CAPABILITIES
    from catalog.lint.linter import LintBase, Linter
    from catalog.reconfiguration.initialmodel import InitialModelUnusable, initial_model

    paths = document_paths(arguments)
    for path in paths:
        if path != STDIN and not path.exists():
            raise CommandError(f"{path} does not exist.")
    for further in against[1:]:
        if not _is_url(further):
            raise CommandError(
                f"{further} is not the URL of a catalog.",
                "Only the first --against may be a git revision or an export.",
            )
    try:
        configuration = await initial_model("default" if model is None else model)
    except InitialModelUnusable as error:
        raise CommandError(f"The model cannot be used: {error}") from error
    configuration = replace(configuration, capabilities=CAPABILITIES)
    explained: set[tuple[str, str]] = set()
    async with AsyncExitStack() as opened:
        clients = [
            # The token of the option or the environment is for the catalog that is named first.
            await opened.enter_async_context(
                Client.open(url, token=token_for(url, is_own=place == 0))
            )
            for place, url in enumerate(filter(_is_url, against))
        ]
        is_running = bool(against) and _is_url(against[0])
        if is_running and model is None:
            configuration = await configuration_of(clients[0])
        elif against and model is None:
            configuration = configuration_in(against[0]) or configuration
        documents, findings = _read(paths, configuration, explained, migrate=migrate)
        base = LintBase()
        if is_running:
            base = await base_in(clients[0], documents, configuration)
        elif against:
            base = base_at_rest(against[0], arguments, configuration)
        async with Checker() as checker:
            linter = Linter(
                documents=documents,
                configuration=configuration,
                checker=checker,
                base=base,
                explained=explained,
            )
            findings += await linter.run()
        changes = linter.changes
        for client in clients:
            users = await users_at(client, [change.owner for change in changes])
            changes = [replace(each, users=each.users + users[each.owner]) for each in changes]
    return with_lines(findings, paths), with_lines(changes, paths)


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _read(
    paths: Sequence[Path],
    configuration: Configuration,
    explained: set[tuple[str, str]],
    *,
    migrate: bool,
) -> tuple[list[DeclaredEntities], list[Finding]]:
    """Read the documents, and find errors of the files and older editions.

    Args:
        explained: receives the file and pointer of each attribute in an older form.
    """
    from catalog.commands.documentfile import read_document
    from catalog.documents.serialization import SourceFileError
    from catalog.lint.declaredentities import DeclaredEntities
    from catalog.lint.linter import Finding

    documents, findings = [], []
    for path in paths:
        try:
            read = read_document(path, migrate=migrate)
        except SourceFileError as error:
            message = f"{error.message} {error.hint}".strip()
            findings.append(Finding("error", "no_document", message, file=str(path)))
            continue
        documents.append(DeclaredEntities.of(str(path), read.groups, configuration.model))
        findings += _find_older(str(path), read)
        for rewrite in read.older:
            steps = rewrite.pointer.split("/")
            explained.update((str(path), "/".join(steps[:end])) for end in range(2, len(steps) + 1))
    return documents, findings


def _find_older(file: str, document: DocumentFile) -> Iterator[Finding]:
    """Find losses, which an import would refuse, and the first use of each older form."""
    from catalog.lint.linter import Finding

    for loss in document.losses:
        message = f"A catalog would not keep this: {loss.reason}."
        yield Finding("error", "lost", message, file=file, pointer=loss.pointer)
    counts = Counter(rewrite.rule.text for rewrite in document.older)
    for rewrite in document.older:
        if count := counts.pop(rewrite.rule.text, 0):
            more = f" ({count} times)" if count > 1 else ""
            message = (
                f"This is of an older edition{more}: {rewrite.rule.text}. `concord import "
                "--migrate` rewrites it, and so does `concord lint --migrate`."
            )
            yield Finding("warning", "older_edition", message, file=file, pointer=rewrite.pointer)
