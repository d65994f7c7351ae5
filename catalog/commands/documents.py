"""`import`, `export` and `get`: definitions into and out of a node."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    cell,
    err,
    fail,
    out,
    print_json,
    run,
)

if TYPE_CHECKING:
    from catalog.commands.document import Imported

app = typer.Typer()


@app.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="xRegistry documents.")],
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going", help="Leave out what breaks a rule, import the rest, list both."
        ),
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Import xRegistry documents, JSON or YAML, into a node.

    Each file goes in whole or not at all, and every rule that it breaks is reported. The
    groups of a document are sent; its own name and description stay behind, since the
    catalog has its own.

    Example: concord import weather.xreg.json traffic.xreg.yaml

    Exit codes: 0 all imported; 1 something breaks a rule; 2 it could not be done.
    """
    results = run(lambda: _import_all(files, url, keep_going=keep_going))
    if as_json:
        print_json([result.as_json() for result in results])
    else:
        _show(results)
    if any(result.violations for result in results):
        raise typer.Exit(NO)


async def _import_all(files: list[Path], url: str, *, keep_going: bool) -> list[Imported]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from catalog.client import Client
    from catalog.commands.document import DocumentError, import_document, read_document

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    results = []
    try:
        documents = [read_document(file) for file in files]
    except DocumentError as error:
        fail(error.message, error.hint)
    async with Client.open(url) as client:
        with Progress(
            *columns, console=err, transient=True, disable=not err.is_terminal
        ) as progress:
            task = progress.add_task("Importing", total=len(files))
            for document in documents:
                progress.update(task, description=f"Importing {document.path.name}")
                results.append(await import_document(client, document, keep_going=keep_going))
                progress.advance(task)
    return results


def _show(results: list[Imported]) -> None:
    for result in results:
        if result.is_imported:
            out.print(f"[green]Imported[/] {cell(result.file)}: {result.counted}.")
        else:
            out.print(f"[red]Not imported[/] {cell(result.file)}: nothing of it was written.")
        _show_violations(result)
    stayed = sorted({name for result in results for name in result.not_sent})
    if stayed:
        err.print(f"Not sent, since they describe the document itself: {', '.join(stayed)}.")
    if any(not result.is_imported and result.subjects for result in results):
        err.print("Correct the document, or import the rest of it with --keep-going.")


def _show_violations(result: Imported) -> None:
    if not result.violations:
        return
    what = "broke" if result.is_imported else "breaks"
    out.print(f"What {what} a rule ({len(result.violations)}):")
    for subject, found in groupby(result.violations, key=lambda violation: violation.subject):
        out.print(f"  [bold]{cell(subject)}[/]")
        for violation in found:
            out.print(f"    {cell(f'{violation.title} {violation.detail}'.strip())}")
    if result.left_out:
        out.print(f"Left out ({len(result.left_out)}):")
        for xid in result.left_out:
            out.print(f"  {cell(xid)}")


@app.command()
def export(
    path: Annotated[str, typer.Argument(help="What to export; the whole catalog if not given.")] = (
        "/"
    ),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Export a catalog, or a part of it, as a document that `concord import` reads.

    Example: concord export -o catalog.xreg.json

    Example: concord export /messagegroups/weather -o weather.xreg.json
    """
    document = run(lambda: _export(path, url))
    if output is None:
        print_json(document)
        return
    try:
        output.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}.")
    err.print(f"Wrote {cell(str(output))}.")


async def _export(path: str, url: str) -> Any:
    from catalog.client import Client
    from catalog.commands.document import DocumentError, part_of

    async with Client.open(url) as client:
        document = await client.export()
    try:
        return document if path.strip("/") == "" else part_of(document, path)
    except DocumentError as error:
        fail(error.message, error.hint, code=NO)


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
