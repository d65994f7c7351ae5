"""`import` and `get`: definitions into a node, and a look at what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    CANNOT,
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    fail,
    print_json,
    run,
)
from catalog.commands.import_.report import ImportReport

if TYPE_CHECKING:
    from catalog.commands.documentfile import DocumentFile

app = typer.Typer()


@app.command("import")
def import_(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="xRegistry documents: files, directories, globs, or - (stdin)."
        ),
    ],
    migrate: Annotated[
        bool,
        typer.Option("--migrate", help="Rewrite older editions to the newest, and say so."),
    ] = False,
    keep_unknown: Annotated[
        bool,
        typer.Option(
            "--keep-unknown",
            help="Migrate, and keep what cannot be rewritten, or what the catalog's model refuses, "
            "in the extension attribute `older`.",
        ),
    ] = False,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going", help="Leave out what breaks a rule, import the rest, list both."
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace what is there, whatever epochs a document has."),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List every rewrite, not how many there are.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Tell only what went wrong.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Import xRegistry documents of any edition, JSON or YAML, into a node.

    Files may be .xreg.json, .xreg.yaml, .cereg, .cereg.yaml or .cereg.yml, up to 64 MiB. Each
    goes in whole or not at all, and every rule that it breaks is reported. The groups of a
    document are sent; its own name and description stay behind, since the catalog has its own.
    What is a replica both where the document comes from and here is left alone.

    A document is refused if the node refuses it, or if something of it would be lost: what
    stands beside the versions of a schema, for instance. Names of older editions, 0.4 to
    1.0-rc3, that the node keeps as extensions are only told. With --migrate they are rewritten;
    what has no newest form is left out with its reason, or kept with --keep-unknown.

    Example: concord import weather.xreg.json traffic.xreg.yaml

    Example: concord import definitions/ 'more/**/*.cereg' --quiet

    Example: concord import --migrate --keep-unknown crm.cereg

    Exit codes: 0 all imported; 1 something breaks a rule or would be lost; 2 it could not be
    done: after a lost connection, what was imported, what is in doubt and what was not sent is
    told.
    """
    from catalog.commands.import_.importing import ImportOptions, import_all

    documents = _read_all(paths, migrate=migrate or keep_unknown, keep_unknown=keep_unknown)
    report = ImportReport(verbose=verbose, quiet=quiet)
    how = ImportOptions(url=url, keep_going=keep_going, overwrite=overwrite)
    shown = None if as_json else report
    results, error = run(lambda: import_all(documents, how, shown))
    if as_json:
        print_json([result.as_json() for result in results])
    else:
        report.summarise(results)
        report.advise(results)
    if error is not None:
        report.explain(results, error)
        raise typer.Exit(CANNOT)
    if any(result.is_wrong for result in results):
        raise typer.Exit(NO)


def _read_all(paths: list[str], *, migrate: bool, keep_unknown: bool) -> list[DocumentFile]:
    """All documents, so that a file that is none is found before anything is sent."""
    from catalog.commands.documentfile import DocumentError, read_document
    from catalog.commands.documentpaths import DocumentPathError, document_paths

    try:
        return [
            read_document(path, migrate=migrate, keep_unknown=keep_unknown)
            for path in document_paths(paths)
        ]
    except (DocumentError, DocumentPathError) as error:
        fail(error.message, error.hint)
