"""`model` and `capabilities`: what a node accepts, and what it can do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    EXIT_CODES,
    AsJson,
    Url,
    cell,
    fail,
    out,
    print_json,
    run,
    table,
)

model_app = typer.Typer(
    no_args_is_help=True, help=f"See and change which entities a catalog accepts. {EXIT_CODES}"
)
capabilities_app = typer.Typer(
    no_args_is_help=True, help=f"See and change what a node can do. {EXIT_CODES}"
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="JSON, or YAML by its name.")]


@model_app.command("get")
def get_model(
    source: Annotated[
        bool, typer.Option("--source", help="Only what was given, not what the standard adds.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Print the model of a catalog as JSON.

    Example: concord model get --source > model.json
    """
    print_json(run(lambda: _get_model(url, source=source)))


@model_app.command("put")
def put_model(file: File, url: Url = DEFAULT_URL) -> None:
    """Replace the model. Nothing changes if an entity would not comply with the new one.

    Example: concord model put model.json

    Exit codes: 0 replaced; 1 the node objects, and lists why; 2 it could not be done.
    """
    document = _read(file)
    run(lambda: _put_model(document, url))
    groups = document.get("groups") or {}
    out.print(f"The model is replaced. It has {', '.join(map(cell, groups)) or 'no groups'}.")


@capabilities_app.command("get")
def get_capabilities(
    offered: Annotated[
        bool, typer.Option("--offered", help="All that could be turned on instead.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show what a node can do.

    Example: concord capabilities get --offered
    """
    found = run(lambda: _get_capabilities(url, offered=offered))
    if as_json or offered:
        print_json(found)
        return
    shown = table("capability", "value")
    for name, value in found.items():
        shown.add_row(cell(name), cell(value))
    out.print(shown)


@capabilities_app.command("set")
def set_capabilities(file: File, url: Url = DEFAULT_URL) -> None:
    """Change the capabilities that a file names; the others stay as they are.

    Example: concord capabilities set capabilities.json

    Exit codes: 0 changed; 1 the node does not offer that; 2 it could not be done.
    """
    document = _read(file)
    run(lambda: _set_capabilities(document, url))
    out.print(f"Changed: {', '.join(map(cell, document)) or 'nothing'}.")


def _read(file: Path) -> dict[str, Any]:
    from catalog.documents.serialization import SourceFileError, read_object_file

    try:
        return read_object_file(file)
    except SourceFileError as error:
        fail(error.message, error.hint)


async def _get_model(url: str, *, source: bool) -> dict[str, Any]:
    from catalog.client import Client

    async with Client.open(url) as client:
        return await (client.modelsource() if source else client.model())


async def _put_model(document: dict[str, Any], url: str) -> None:
    from catalog.client import Client

    async with Client.open(url) as client:
        await client.put_modelsource(document)


async def _get_capabilities(url: str, *, offered: bool) -> dict[str, Any]:
    from catalog.client import Client

    async with Client.open(url) as client:
        return await (client.offered_capabilities() if offered else client.capabilities())


async def _set_capabilities(document: dict[str, Any], url: str) -> None:
    from catalog.client import Client

    async with Client.open(url) as client:
        await client.update_capabilities(document)
