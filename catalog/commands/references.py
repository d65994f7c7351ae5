"""The command `references`: what refers to an entity, and what it refers to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    cell,
    on_node,
    out,
    print_json,
    table,
    wanted,
)

if TYPE_CHECKING:
    from catalog.operations.references import FoundReference

app = typer.Typer()

_HEADINGS = {"to": "Refers to it", "from": "It refers to"}


@app.command()
def references(
    of: Annotated[
        str,
        typer.Argument(metavar="XID", help="A group, resource or version, as /endpoints/orders."),
    ],
    direction: Annotated[
        str, typer.Option(help="References `to` the entity, `from` the entity, or `both`.")
    ] = "both",
    depth: Annotated[
        int, typer.Option(min=1, max=5, help="1 for direct references, more to follow them.")
    ] = 1,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show what refers to an entity, and what the entity refers to.

    These are schemas of messages, base messages, groups of endpoints, cross references, and what
    documents name in `$ref` and imports. An entity is used through its group, too: with a depth of
    2, a schema shows the messages that use it, and the endpoints that use the messages.

    Example: concord references /schemagroups/shop/schemas/Order --direction to --depth 2
    """
    from catalog.operations.references import ReferencesQuery

    query = wanted(ReferencesQuery, of=of, direction=direction, depth=depth)
    answer = on_node(url, lambda client: client.references(query))
    if as_json:
        print_json(answer)
    else:
        for way, heading in _HEADINGS.items():
            rows = [each for each in answer.references if each.direction == way]
            if rows:
                shown = table("depth", "source", "target", "where", title=heading)
                for each in rows:
                    shown.add_row(*map(cell, _row(each)))
                out.print(shown)
        if not answer.references:
            out.print("There are no references.")
        if not answer.complete:
            out.print("There are more than could be followed.")
    if not answer.references:
        raise typer.Exit(NO)


def _row(found: FoundReference) -> tuple[str, str, str, str]:
    target = found.target or f"{found.text} (not here)"
    places = ", ".join(place.removeprefix("/") for place in found.places)
    return str(found.depth), found.source, target, places
