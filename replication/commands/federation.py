"""The commands about the federation: its catalogs, followers, and how far a change has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    call_node,
    cell,
    fail,
    fields,
    json_of,
    out,
    print_json,
    print_rows,
    table,
    wanted,
)
from catalog.model.timestamps import format_time

if TYPE_CHECKING:
    from catalog.operations.authoritycards import Card
    from catalog.operations.followers import ArrivalsQuery

app = typer.Typer()


@app.command("federation")
def show_federation(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show the catalogs of the federation with their links: those of a node and of its peers.

    The node asks its peers in the background, once a minute, with the credentials of its links. A
    peer shares its links with the role replicator.

    Example: concord federation
    """
    from catalog.operations.federation import READ_FEDERATION

    catalogs = call_node(url, READ_FEDERATION).catalogs
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
    from catalog.operations.federation import READ_FRESHNESS, FreshnessQuery

    found = call_node(url, READ_FRESHNESS, query=wanted(FreshnessQuery, of=of))
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


@app.command("followers")
def list_followers(
    of: Annotated[
        str | None,
        typer.Argument(
            metavar="[XID]",
            help="Tell which of them have the last change of this group, resource or version.",
            show_default=False,
        ),
    ] = None,
    epoch: Annotated[
        int | None, typer.Option(min=1, help="An earlier epoch of it than the present one.")
    ] = None,
    position: Annotated[
        str | None,
        typer.Option(
            "--position",
            help="A position in the log instead of an XID: `Concord-Position` in the answer to a "
            "write.",
            metavar="POSITION",
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List the catalogs that have copies from a node, the farthest behind first.

    A catalog that pulls reports with each request how far it is; the lag is the age in seconds of
    the oldest change that it has not confirmed. "by" names the credential of the reports, or the
    link of this node that sends.

    With an XID or a position, the command shows the followers that have the change, and exits with
    1 while a follower awaits it.

    Example: concord followers

    Example: concord followers /messagegroups/shop/messages/paid
    """
    from catalog.operations.followers import LIST_FOLLOWERS, ArrivalsQuery

    if of is not None and position is not None:
        fail("Name one change.", "Give the XID of an entity, or --position.")
    if of is not None or position is not None:
        query = wanted(ArrivalsQuery, of=of, epoch=epoch, position=position)
        _show_arrivals(url, query, as_json=as_json)
        return
    print_rows(
        call_node(url, LIST_FOLLOWERS).followers,
        ("authority", "name", "region", "lag (s)", "seen at", "by"),
        lambda each: (
            each.authority,
            *_named(each.card),
            each.lag,
            each.seenat and format_time(each.seenat),
            f"link {each.link}" if each.link else each.identity,
        ),
        nothing="No catalog has reported that it follows this node.",
        as_json=as_json,
    )


def _show_arrivals(url: str, query: ArrivalsQuery, *, as_json: bool) -> None:
    from catalog.operations.followers import READ_ARRIVALS

    answer = call_node(url, READ_ARRIVALS, query=query)
    if as_json:
        print_json(answer)
    else:
        shown = table("authority", "name", "region", "state", "seen at")
        for each in answer.followers:
            seen = "" if each.seenat is None else format_time(each.seenat)
            shown.add_row(*map(cell, (each.authority, *_named(each.card), each.state, seen)))
        out.print(shown if answer.followers else "No catalog follows this node.")
    if any(each.state == "awaited" for each in answer.followers):
        raise typer.Exit(NO)


def _named(card: Card | None) -> tuple[str, str]:
    return ("", "") if card is None else (card.name, card.region)
