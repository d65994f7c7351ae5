"""The commands `model show`, `model set`, `capabilities show` and `capabilities set`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    cell,
    object_in,
    on_node,
    out,
    print_json,
    table,
)

model_app = typer.Typer(
    no_args_is_help=True,
    help="Show and replace the model: the types of entities of a catalog.",
)
capabilities_app = typer.Typer(
    no_args_is_help=True, help="Show and change the capabilities of a node."
)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="JSON; YAML if its name ends in .yaml or .yml.")
]


@model_app.command("show")
def show_model(
    source: Annotated[
        bool,
        typer.Option("--source", help="As it was written, without the standard's additions."),
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Print the model of a catalog as JSON.

    Example: concord model show --source > model.json
    """
    print_json(on_node(url, lambda client: client.modelsource() if source else client.model()))


@model_app.command("set")
def set_model(file: File, url: Url = DEFAULT_URL) -> None:
    """Replace the model. The node refuses a model that an entity does not comply with.

    Example: concord model set model.json

    Exit codes: 0 replaced; 1 the node refuses, and lists the reasons; 2 the command could not do
    its work.
    """
    document = object_in(file)
    on_node(url, lambda client: client.put_modelsource(document))
    groups = document.get("groups") or {}
    out.print(f"The model is replaced. It has {', '.join(map(cell, groups)) or 'no groups'}.")


@capabilities_app.command("show")
def show_capabilities(
    offered: Annotated[
        bool, typer.Option("--offered", help="Show the values that could be set, as JSON.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the capabilities of a node.

    Example: concord capabilities show --offered
    """
    path = "/capabilitiesoffered" if offered else "/capabilities"
    found = on_node(url, lambda client: client.get(path))
    if as_json or offered:
        print_json(found)
        return
    shown = table("capability", "value")
    for name, value in found.items():
        shown.add_row(cell(name), cell(value))
    out.print(shown)


@capabilities_app.command("set")
def set_capabilities(file: File, url: Url = DEFAULT_URL) -> None:
    """Change the capabilities that a file names, and leave the rest unchanged.

    Example: concord capabilities set capabilities.json

    Exit codes: 0 changed; 1 the node does not offer a value; 2 the command could not do its work.
    """
    document = object_in(file)
    on_node(url, lambda client: client.update_capabilities(document))
    out.print(f"Changed: {', '.join(map(cell, document)) or 'nothing'}.")
