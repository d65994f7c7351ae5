"""The commands `federation` and `freshness`: all catalogs with their links, and one copy's age."""

from __future__ import annotations

from typing import Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    cell,
    fields,
    json_of,
    on_node,
    out,
    print_json,
    table,
)
from catalog.model.timestamps import format_time

app = typer.Typer()


@app.command("federation")
def show_federation(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show the catalogs of the federation with their links: those of a node and of its peers.

    The node asks its peers in the background, once a minute, with the credentials of its links. A
    peer shares its links with the role replicator.

    Example: concord federation
    """
    catalogs = on_node(url, lambda client: client.federation())
    if as_json:
        print_json(catalogs)
        return
    names = {each.authority: each.card.name for each in catalogs if each.card and each.card.name}
    shown = table("authority", "name", "region", "contact", "links", "told at", "error")
    for each in catalogs:
        card = each.card
        told = ("", "", "") if card is None else (card.name, card.region, card.contact)
        asked = "not asked yet" if each.triedat is None else "not shared"
        number = asked if each.links is None else len(each.links)
        at = "this node" if each.isown else each.readat and format_time(each.readat)
        shown.add_row(*map(cell, (each.authority, *told, number, at, each.error)))
    out.print(shown)
    rows = table("catalog", "", "other catalog", "mode", "state", "lag (s)", "conflicts")
    for each in catalogs:
        for link in each.links or ():
            ends = [names.get(end, end) for end in (each.authority, link.authority)]
            verb = "follows" if link.direction == "in" else "sends to"
            lag = None if link.lag is None else round(link.lag, 1)
            told_of = (link.mode, link.state, lag, link.conflicts)
            rows.add_row(*map(cell, (ends[0], verb, ends[1], *told_of)))
    if any(each.links for each in catalogs):
        out.print(rows)


@app.command("freshness")
def show_freshness(
    of: Annotated[str, typer.Argument(metavar="XID", help="A group, resource or version.")],
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show who owns an entity, whom to ask, and how old the copy at a node may be.

    Example: concord freshness /messagegroups/shop/messages/paid
    """
    found = on_node(url, lambda client: client.freshness(of))
    if as_json:
        print_json(found)
        return
    told = json_of(found)
    card = {f"owner's {name}": text for name, text in (told.pop("card", None) or {}).items()}
    out.print(fields({**told, **{name: text for name, text in card.items() if text}}, _NAMES))


_NAMES = {
    "of": "entity",
    "lag": "lag (seconds)",
    "confirmedat": "confirmed at",
    "through": "relayed by",
    "editurl": "edit at",
}
