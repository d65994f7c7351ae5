"""The command `get`."""

from __future__ import annotations

import sys
from typing import Annotated

import orjson
import typer

from catalog.commands.console import DEFAULT_URL, Url, on_node, print_json

app = typer.Typer()


@app.command()
def get(
    path: Annotated[str, typer.Argument(metavar="XID", help="An xid or any path of the API.")] = (
        "/"
    ),
    inline: Annotated[
        list[str] | None,
        typer.Option(help="Show this collection, too; * shows all of them. Repeatable."),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the entity at a path as JSON, or the document of a schema as it is.

    Example: concord get /messagegroups --inline '*'

    Example: concord get '/schemagroups/g/schemas/s$details'

    Exit codes: 0 shown; 1 the path does not exist; 2 the command could not do its work.
    """
    xid, _, query = path.partition("?")
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    params = [(name, value) for name, _, value in pairs]
    params += [("inline", ",".join(inline))] if inline else []
    answer = on_node(url, lambda client: client.request("GET", xid, params=params))
    if answer.is_json:
        print_json(orjson.loads(answer.body))
    else:
        sys.stdout.buffer.write(answer.body)
