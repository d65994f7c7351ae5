"""The commands `followers` and `arrivals`: who follows a node, and who has a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
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
from catalog.model.timestamps import format_time

if TYPE_CHECKING:
    from catalog.operations.authoritycards import Card

app = typer.Typer()


@app.command("followers")
def list_followers(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List the catalogs that have copies from a node, the farthest behind first.

    A catalog that pulls reports with each request how far it is; the lag is the age in seconds of
    the oldest change that it has not confirmed. "by" names the credential of the reports, or the
    link of this node that sends.

    Example: concord followers
    """
    found = on_node(url, lambda client: client.followers())
    if as_json:
        print_json(found)
        return
    shown = table("authority", "name", "region", "lag (s)", "seen at", "by")
    for each in found:
        seen = "" if each.seenat is None else format_time(each.seenat)
        by = f"link {each.link}" if each.link else each.identity
        shown.add_row(*map(cell, (each.authority, *_named(each.card), each.lag, seen, by)))
    out.print(shown if found else "No catalog has reported that it follows this node.")


@app.command("arrivals")
def list_arrivals(
    of: Annotated[
        str | None,
        typer.Argument(metavar="XID", help="A group, resource or version.", show_default=False),
    ] = None,
    epoch: Annotated[
        int | None, typer.Option(min=1, help="An earlier epoch than the present one.")
    ] = None,
    position: Annotated[
        str | None,
        typer.Option(
            "--position",
            help="A position in the log, instead: `Concord-Position` in the answer to a write.",
            metavar="POSITION",
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show which followers of a node have a change. Exits with 1 while one of them awaits it.

    Example: concord arrivals /messagegroups/shop/messages/paid
    """
    if (of is None) == (position is None):
        fail("Name one change.", "Give the XID of an entity, or --position.")
    from catalog.operations.followers import ArrivalsQuery

    query = wanted(ArrivalsQuery, of=of, epoch=epoch, position=position)
    answer = on_node(url, lambda client: client.arrivals(query))
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
