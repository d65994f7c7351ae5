"""`export`: a catalog, parts of it, or what is a node's own, as a document."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.commands.console import DEFAULT_URL, Url, cell, err, fail, out, print_json, run
from catalog.commands.documentfile import FORMATS, format_of, write_document
from catalog.documents.editions import EDITIONS, NEWEST_EDITION

app = typer.Typer()


@app.command()
def export(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="What to export: groups of a type, a group, its resources of a type, or one of "
            "these. The whole catalog if not given.",
        ),
    ] = None,
    mine: Annotated[
        bool,
        typer.Option("--mine", help="Leave out the groups that other nodes are the authority of."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="xreg.json, xreg.yaml, cereg or cereg.yaml; as the file is called, else xreg.json."
        ),
    ] = None,
    edition: Annotated[
        str, typer.Option(help="rc4, rc3, rc2, rc1, 0.5 or 0.4: what its readers understand.")
    ] = NEWEST_EDITION,
    url: Url = DEFAULT_URL,
) -> None:
    """Export a catalog, or parts of it, as a document that `concord import` reads.

    Of a group that is a replica everything is: only its authority can put something into it. So
    --mine leaves out whole groups, and refuses one that is named.

    Documents of an older edition have its names and shapes. What it cannot express is kept in
    the extension attribute `rc4attributes`, so that `concord import --migrate` brings back
    exactly what was exported.

    Example: concord export -o catalog.xreg.json

    Example: concord export /messagegroups/weather /schemagroups/weather -o weather.cereg.yaml

    Example: concord export --mine --format cereg --edition 0.4 -o ours.cereg

    Exit codes: 0 exported; 1 there is no such thing; 2 it could not be done.
    """
    written = format or format_of(output)
    if written not in FORMATS:
        fail(f"{written} is no format.", f"Name one of {', '.join(FORMATS)}.")
    if edition not in EDITIONS:
        fail(f"{edition} is no edition.", f"Name one of {', '.join(EDITIONS)}.")
    document = run(lambda: _export(paths or [], url, mine=mine))
    if output is None and out.is_terminal and (written, edition) == ("xreg.json", NEWEST_EDITION):
        print_json(document)
        return
    text = write_document(document, written, edition)
    if output is None:
        sys.stdout.buffer.write(text)
        return
    try:
        output.write_bytes(text)
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}.")
    err.print(f"Wrote {cell(str(output))}.")


async def _export(paths: list[str], url: str, *, mine: bool) -> dict[str, Any]:
    from catalog.client import Client

    async with Client.open(url) as client:
        return await client.export(*paths, own=mine)
