"""`lint`: documents held to the rules of a catalog, without any node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from catalog.commands.console import NO, AsJson, fail, run
from catalog.commands.documentpaths import DocumentPathError, document_paths
from catalog.commands.lint.report import show_linted

if TYPE_CHECKING:
    from catalog.commands.documentfile import DocumentFile
    from catalog.lint.declaredentities import DeclaredEntities
    from catalog.lint.finding import Finding
    from catalog.lint.linter import LintBase
    from catalog.model.configuration import Configuration

app = typer.Typer()


@app.command()
def lint(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="xRegistry documents: files, directories, patterns, or - for standard input.",
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            help="What is in force: a git revision of the same paths, or a catalog's URL.",
            metavar="REVISION|URL",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The model, JSON or YAML; else the one of the catalog at the URL, else the "
            "default model.",
            metavar="FILE",
        ),
    ] = None,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="Read older editions as `concord import` does.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Take warnings for errors.")] = False,
    format: Annotated[
        Literal["text", "json", "github"],
        typer.Option(help="How to print findings; github annotates a pull request."),
    ] = "text",
    as_json: AsJson = False,
) -> None:
    """Say what a catalog would refuse of documents, and what else is wrong with them.

    No node is needed. The documents are one set, which is imported into a catalog in memory by
    the code of a node: the rules of the model, formats of schemas and compatibility of their
    versions are errors; rules of the endpoint, message and schema specifications that a catalog
    does not enforce are warnings; what could not be checked is a note.

    With --against, they are imported on top of what is in force. So a version of a schema that
    breaks the compatibility of its schema is an error, and so is a published version that is
    changed in place into what its readers cannot read.

    Example: concord lint definitions/

    Example: concord lint definitions/ --against HEAD

    Example: concord lint definitions/ --against https://catalog.example.com --strict

    Exit codes: 0 nothing but warnings and notes; 1 errors; 2 it could not be done.
    """
    findings = run(lambda: _lint(paths, against, model, migrate=migrate))
    if strict:
        findings = [_hardened(finding) for finding in findings]
    show_linted(findings, "json" if as_json else format)
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(NO)


def _hardened(finding: Finding) -> Finding:
    return replace(finding, severity="error") if finding.severity == "warning" else finding


async def _lint(
    arguments: list[str], against: str | None, model: str | None, *, migrate: bool
) -> list[Finding]:
    from catalog.client import Client
    from catalog.commands.lint.base import LintBaseError, base_at, base_in, is_catalog
    from catalog.commands.lint.base import configuration_of as configuration_in
    from catalog.commands.lint.gitrevision import RevisionError

    paths = _paths(arguments)
    configuration = await _configuration(model)
    try:
        if against is None or not is_catalog(against):
            documents, findings = _read(paths, configuration, migrate=migrate)
            base = None if against is None else base_at(against, arguments, configuration)
        else:
            async with Client.open(against) as client:
                if model is None:
                    configuration = await configuration_in(client)
                documents, findings = _read(paths, configuration, migrate=migrate)
                base = await base_in(client, documents, configuration)
    except (LintBaseError, RevisionError) as error:
        fail(error.message, error.hint)
    findings += await _found(documents, configuration, base)
    return _in_order(findings, paths)


def _paths(arguments: list[str]) -> list[Path]:
    from catalog.documents.serialization import STDIN

    try:
        paths = document_paths(arguments)
    except DocumentPathError as error:
        fail(error.message, error.hint)
    for path in paths:
        if path != STDIN and not path.exists():
            fail(f"{path} is not there.")
    return paths


async def _configuration(model: str | None) -> Configuration:
    from catalog.configuring.initialmodel import InitialModelUnusable, initial_model
    from catalog.lint.lintedcatalog import CAPABILITIES

    try:
        configuration = await initial_model("default" if model is None else model)
    except InitialModelUnusable as error:
        fail(f"The model cannot be used: {error}")
    return replace(configuration, capabilities=CAPABILITIES)


def _read(
    paths: list[Path], configuration: Configuration, *, migrate: bool
) -> tuple[list[DeclaredEntities], list[Finding]]:
    """The documents, and what is wrong with their files, or with the editions that these are of."""
    from catalog.commands.documentfile import DocumentError, read_document
    from catalog.lint.declaredentities import DeclaredEntities
    from catalog.lint.finding import Finding

    documents, findings = [], []
    for path in paths:
        try:
            read = read_document(path, migrate=migrate)
        except DocumentError as error:
            message = f"{error.message} {error.hint}".strip()
            findings.append(
                Finding(severity="error", rule="no_document", message=message, file=str(path))
            )
            continue
        documents.append(DeclaredEntities.of(str(path), read.groups, configuration.model))
        findings += _of_edition(str(path), read)
    return documents, findings


def _of_edition(file: str, document: DocumentFile) -> Iterator[Finding]:
    """What an import would refuse since it would be lost, and what is of an older edition: each
    rule once, where it is first."""
    from catalog.lint.finding import Finding

    for loss in document.losses:
        yield Finding(
            severity="error",
            rule="lost",
            message=f"A catalog would not keep this: {loss.reason}.",
            file=file,
            pointer=loss.pointer,
        )
    counts = Counter(rewrite.rule.text for rewrite in document.older)
    for rewrite in document.older:
        if count := counts.pop(rewrite.rule.text, 0):
            more = f" ({count} times)" if count > 1 else ""
            yield Finding(
                severity="warning",
                rule="older_edition",
                message=f"This is of an older edition{more}: {rewrite.rule.text}. `concord import "
                "--migrate` rewrites it; with --migrate it is read so here, too.",
                file=file,
                pointer=rewrite.pointer,
            )


async def _found(
    documents: list[DeclaredEntities], configuration: Configuration, base: LintBase | None
) -> list[Finding]:
    from catalog.formats import Checker
    from catalog.lint.linter import Linter

    async with Checker() as checker:
        return await Linter(
            documents=documents, configuration=configuration, checker=checker, base=base
        ).run()


def _in_order(findings: list[Finding], paths: list[Path]) -> list[Finding]:
    """By file, in the order of the arguments, and by line; each with its line."""
    from catalog.commands.lint.report import FileLines

    places = {str(path): (place, FileLines(path)) for place, path in enumerate(paths)}
    placed = [
        replace(each, line=places[each.file][1].line_of(each.pointer) if each.pointer else 0)
        if each.file in places
        else each
        for each in findings
    ]
    last = (len(places), None)
    return sorted(placed, key=lambda each: (places.get(each.file, last)[0], each.line))
