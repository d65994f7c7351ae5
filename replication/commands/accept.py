"""The commands `accept add`, `list` and `remove`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    cell,
    fail,
    on_node,
    out,
    print_json,
    table,
    wanted,
)
from catalog.commands.optionsets import with_options
from replication.commands.linkselection import selection_in

app = typer.Typer(
    no_args_is_help=True,
    help="Accept what other catalogs push to a node; it accepts nothing else.",
)


@app.command()
@with_options(selection=selection_in)
def add(
    authority: Annotated[
        str, typer.Argument(metavar="URI", help="The authority of the catalog that pushes.")
    ],
    id: Annotated[str | None, typer.Option("--id", help="A name for what is accepted.")] = None,
    *,
    selection: dict[str, Any],
    relay: Annotated[
        list[str] | None,
        typer.Option(
            help="Accept the entities of this authority, too; * stands for all. Repeatable.",
            metavar="URI",
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Accept pushes of a catalog: its own entities, unless --relay names more authorities.

    At the pushing catalog, `concord link add --push` starts the pushes. The stated authority of a
    sender is not proven: anyone who reaches the node can push in the name of the authority.

    Example: concord accept add https://eu.example.com --scope /messagegroups/eu
    """
    from catalog.operations.links import NewLink

    relays = relay or []
    authorities = relays if relays in ([], ["*"]) else [authority, *relays]
    link = wanted(
        NewLink, id=id, mode="accept", authority=authority, authorities=authorities, **selection
    )
    accepted = on_node(url, lambda client: client.add_link(link))
    if as_json:
        print_json(accepted)
        return
    out.print(f"Pushes of {cell(authority)} are accepted, as [bold]{cell(accepted.id)}[/].")
    out.print(f"There, run: concord link add --push {cell(url)}")


@app.command("list")
def list_(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List the catalogs whose pushes a node accepts, and what the pushes brought.

    Example: concord accept list
    """
    links = on_node(url, lambda client: client.links())
    accepted = [link for link in links if link.mode == "accept"]
    if as_json:
        print_json(accepted)
        return
    names = ("id", "authority", "authorities", "scope", "state", "applied", "conflicts", "error")
    shown = table(*names, "last brought", "confirmed (s)")
    for each in accepted:
        shown.add_row(*(cell(getattr(each, name)) for name in (*names, "appliedat", "confirmed")))
    nothing = "This node accepts no pushes; `concord accept add` lets a catalog push."
    out.print(shown if accepted else nothing)


@app.command()
def remove(
    id: Annotated[
        str, typer.Argument(metavar="ID", help="The id, as `concord accept list` shows it.")
    ],
    drop: Annotated[
        bool, typer.Option("--drop", help="Drop the replicas that it may bring first.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Accept no more pushes of a catalog. Its replicas stay, unless dropped.

    Example: concord accept remove eu
    """
    if on_node(url, lambda client: client.link(id)).mode != "accept":
        fail(f"{id} is a link that accepts no pushes.", f"Remove it by `concord link remove {id}`.")
    on_node(url, lambda client: client.remove_link(id, drop=drop))
    when = " as soon as its replicas are dropped" if drop else ""
    out.print(f"Pushes by [bold]{cell(id)}[/] are no longer accepted{when}.")
