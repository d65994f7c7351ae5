"""The command `import`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
    Url,
    Verbose,
    on_node,
    print_json,
    show_error,
)
from catalog.commands.import_.report import ImportReport

if TYPE_CHECKING:
    from catalog.client import Client, ClientError
    from catalog.commands.import_.importing import ImportResult

app = typer.Typer()


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
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Report only documents with errors.")
    ] = False,
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
