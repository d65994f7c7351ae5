"""The command `export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    Output,
    Url,
    cell,
    err,
    fail,
    on_node,
    out,
    print_json,
    write_output,
)
from catalog.documents.migration import EDITIONS, NEWEST_EDITION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.client import Client, JsonObject
    from catalog.documents.losses import Loss

app = typer.Typer()

_MOST_LISTED = 50


@app.command()
def export(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH",
            help="All groups of a type, one group, its resources of a type, or one resource; the "
            "whole catalog without any.",
        ),
    ] = None,
    mine: Annotated[
        bool,
        typer.Option("--mine", help="Leave out the groups that other nodes are the authority of."),
    ] = False,
    output: Output = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="xreg.json, xreg.yaml, cereg, cereg.yaml, asyncapi.yaml or asyncapi.json; by "
            "default the one that the file's name ends in, else xreg.json. asyncapi is YAML."
        ),
    ] = None,
    edition: Annotated[
        str | None,
        typer.Option(
            help="The edition that its readers know: rc4, rc3, rc2, rc1, 0.5 or 0.4; of AsyncAPI "
            "3.0 or 2.6. The newest by default."
        ),
    ] = None,
    is_clean: Annotated[
        bool,
        typer.Option(
            "--clean",
            help="Leave out what a catalog assigns again, such as epochs, times and URLs, and the "
            "list of versions where there is one.",
        ),
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Export a catalog, or parts of a catalog, as a document for `concord import`.

    An AsyncAPI document has the parts and all that the parts refer to. The path of the schema group
    of an imported AsyncAPI document stands for the whole of that document. What AsyncAPI cannot
    express is listed first, and left out.

    With --mine, replica groups are left out as a whole, since only the authority of a group adds
    resources to the group; a replica among the paths is an error.

    A document of an older edition has the names and shapes of that edition. Attributes that the
    edition cannot express are kept in the extension attribute `rc4attributes`, so that `concord
    import --migrate` restores the export exactly.

    With --clean, a document has only members that a person would write: `concord apply` of the
    document changes nothing in the same catalog, and makes equal entities in a different catalog.

    Example: concord export -o catalog.xreg.json

    Example: concord export /messagegroups/weather --clean -o definitions/weather.xreg.yaml

    Example: concord export /messagegroups/weather /schemagroups/weather -o weather.cereg.yaml

    Example: concord export --format asyncapi /schemagroups/Streetlights -o api.asyncapi.yaml

    Example: concord export --mine --format cereg --edition 0.4 -o ours.cereg

    Exit codes: 0 exported; 1 a path does not exist; 2 the command could not do its work.
    """
    from catalog.commands.documentfile import (
        ASYNCAPI_FORMATS,
        FORMATS,
        format_of,
        write_asyncapi,
        write_document,
    )
    from catalog.commands.referencedparts import export_asyncapi
    from catalog.documents.asyncapi import fromentities
    from catalog.documents.clean import clean

    written = format or format_of(output)
    if written == "asyncapi":
        is_json = output is not None and output.suffix.lower() == ".json"
        written = ASYNCAPI_FORMATS[is_json]
    is_asyncapi = written in ASYNCAPI_FORMATS
    if not is_asyncapi and written not in FORMATS:
        fail(f"{written} is no format.", f"Name one of {', '.join(FORMATS + ASYNCAPI_FORMATS)}.")
    editions = fromentities.EDITIONS if is_asyncapi else EDITIONS
    edition = edition or (fromentities.EDITIONS[0] if is_asyncapi else NEWEST_EDITION)
    if edition not in editions:
        fail(f"{edition} is no edition.", f"Name one of {', '.join(editions)}.")
    if is_clean and edition not in (NEWEST_EDITION, fromentities.EDITIONS[0]):
        fail("--clean is for the newest edition.", "Leave --edition out.")

    async def exported(client: Client) -> JsonObject:
        document = await client.export(*(paths or []), own=mine)
        return clean(document, await client.model()) if is_clean else document

    if is_asyncapi:
        translated = on_node(
            url, lambda client: export_asyncapi(client, paths or [], own=mine, edition=edition)
        )
        _show_losses(translated.losses)
        text = write_asyncapi(translated, written)
    else:
        document = on_node(url, exported)
        is_newest = (written, edition) == ("xreg.json", NEWEST_EDITION)
        if output is None and out.is_terminal and is_newest:
            print_json(document)
            return
        try:
            text = write_document(document, written, edition)
        # The rewrite to an older edition relies on the members and types of the newest edition.
        except (AttributeError, LookupError, TypeError, ValueError):
            fail(f"What {url} answered is no document, so it cannot be written as {edition}.")
    write_output(text, output)


def _show_losses(losses: Sequence[Loss]) -> None:
    if losses:
        err.print(f"Not in the document ({len(losses)}):")
    for loss in losses[:_MOST_LISTED]:
        err.print(f"  {cell(loss.pointer)}: {cell(loss.reason)}")
    if len(losses) > _MOST_LISTED:
        err.print(f"  … and {len(losses) - _MOST_LISTED:,} more")
