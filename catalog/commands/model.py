"""The commands `model set` and `capabilities set`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    Url,
    cell,
    object_in,
    on_node,
    out,
)

model_app = typer.Typer(
    no_args_is_help=True,
    help="Replace the model, the types of entities of a catalog; `concord get /modelsource` shows "
    "it.",
)
capabilities_app = typer.Typer(
    no_args_is_help=True,
    help="Change what a node can do. `concord get /capabilities` shows it, and "
    "`concord get /capabilitiesoffered` what it could do.",
)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="JSON; YAML if its name ends in .yaml or .yml.")
]


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


@capabilities_app.command("set")
def set_capabilities(file: File, url: Url = DEFAULT_URL) -> None:
    """Change the capabilities that a file names, and leave the rest unchanged.

    Example: concord capabilities set capabilities.json

    Exit codes: 0 changed; 1 the node does not offer a value; 2 the command could not do its work.
    """
    document = object_in(file)
    on_node(url, lambda client: client.update_capabilities(document))
    out.print(f"Changed: {', '.join(map(cell, document)) or 'nothing'}.")
