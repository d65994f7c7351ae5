"""`concord get`: show the entity or document at a path of a node."""

from __future__ import annotations

import sys
from typing import Annotated

import orjson
import typer

from catalog.commands.console import (
    DEFAULT_URL,
    Url,
    print_json,
    run,
)

app = typer.Typer()


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
