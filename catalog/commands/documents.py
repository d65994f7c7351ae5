"""`import` and `get`: definitions into a node, and a look at what it has."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    err,
    fail,
    print_json,
    run,
)
from catalog.commands.imported import show_hints, show_imported

if TYPE_CHECKING:
    from catalog.commands.document import Imported

app = typer.Typer()


@app.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="xRegistry documents.")],
    migrate: Annotated[
        bool,
        typer.Option("--migrate", help="Rewrite older editions to the newest, and list it."),
    ] = False,
    keep_unknown: Annotated[
        bool,
        typer.Option(
            "--keep-unknown",
            help="Keep what cannot be rewritten, in the extension attribute `older`.",
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
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Import xRegistry documents of any edition, JSON or YAML, into a node.

    Files may be .xreg.json, .xreg.yaml, .cereg, .cereg.yaml or .cereg.yml, up to 64 MiB. Each
    goes in whole or not at all, and every rule that it breaks is reported. The groups of a
    document are sent; its own name and description stay behind, since the catalog has its own.
    What is a replica both where the document comes from and here is left alone.

    Which edition a document is of, 0.4 to 1.0-rc4, is found by the names that are in it. Only
    the newest is taken as it is: of another one, each older name is listed with its JSON
    pointer. With --migrate they are rewritten, and each rewrite is listed; what has no newest
    form is listed with its reason and left out, or kept with --keep-unknown.

    Example: concord import weather.xreg.json traffic.xreg.yaml

    Example: concord import --migrate --keep-unknown crm.cereg

    Exit codes: 0 all imported; 1 something is of an older edition or breaks a rule; 2 it could
    not be done.
    """
    reading = Reading(migrate=migrate or keep_unknown, keep_unknown=keep_unknown)
    results = run(
        lambda: _import_all(files, url, reading, keep_going=keep_going, overwrite=overwrite)
    )
    if as_json:
        print_json([result.as_json() for result in results])
    else:
        for result in results:
            show_imported(result)
        show_hints(results)
    if any(result.violations or result.document.refusals for result in results):
        raise typer.Exit(NO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How documents of older editions are read."""

    migrate: bool
    keep_unknown: bool


async def _import_all(
    files: list[Path], url: str, reading: Reading, *, keep_going: bool, overwrite: bool
) -> list[Imported]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from catalog.client import Client
    from catalog.commands.document import DocumentError, import_document, read_document

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    results = []
    try:
        documents = [
            read_document(file, migrate=reading.migrate, keep_unknown=reading.keep_unknown)
            for file in files
        ]
    except DocumentError as error:
        fail(error.message, error.hint)
    async with Client.open(url) as client:
        with Progress(
            *columns, console=err, transient=True, disable=not err.is_terminal
        ) as progress:
            task = progress.add_task("Importing", total=len(files))
            for document in documents:
                progress.update(task, description=f"Importing {document.path.name}")
                results.append(
                    await import_document(
                        client, document, keep_going=keep_going, overwrite=overwrite
                    )
                )
                progress.advance(task)
    return results


@app.command()
def get(
    path: Annotated[str, typer.Argument(metavar="XID", help="An xid or any path of the API.")] = (
        "/"
    ),
    inline: Annotated[
        list[str] | None,
        typer.Option(help="Show this collection too; * shows everything. Repeatable."),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Show what a node has at a path: JSON, or the document of a schema as it is.

    Example: concord get /messagegroups --inline '*'

    Example: concord get '/schemagroups/g/schemas/s$details'

    Exit codes: 0 shown; 1 there is no such thing; 2 it could not be done.
    """
    is_json, body = run(lambda: _get(path, inline or [], url))
    if is_json:
        print_json(orjson.loads(body))
    else:
        sys.stdout.buffer.write(body)


async def _get(path: str, inline: list[str], url: str) -> tuple[bool, bytes]:
    from catalog.client import Client

    where, _, query = path.partition("?")
    params = [tuple(pair.partition("=")[::2]) for pair in query.split("&") if pair]
    params += [("inline", ",".join(inline))] if inline else []
    async with Client.open(url) as client:
        answer = await client.request("GET", where, params=[(k, v) for k, v in params])
    return answer.is_json, answer.body
