"""The command `changes`: what changed, when and by whom."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

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
    span_from,
    table,
    wanted,
)
from catalog.commands.versiondiff import print_difference, print_lines
from catalog.model.timestamps import format_time, parse_time

if TYPE_CHECKING:
    from catalog.operations.changes import ChangeEntry

app = typer.Typer()

_TIME = "An RFC 3339 time, or an age: 12h, 7d, 2w."


@app.command()
def changes(
    path: Annotated[
        str | None,
        typer.Argument(metavar="[PATH]", help="Only this entity or collection, and below it."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help=f"From this time on. {_TIME}", metavar="TIME")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help=f"Before this time. {_TIME}", metavar="TIME")
    ] = None,
    who: Annotated[
        str | None,
        typer.Option(
            "--who",
            help="Of this author: a name, a kind (anonymous, token, jwt, certificate, link, "
            "operator, node), or KIND:NAME.",
            metavar="WHO",
        ),
    ] = None,
    authority: Annotated[
        str | None,
        typer.Option("--authority", help="Only entities of this authority.", metavar="URI"),
    ] = None,
    parents: Annotated[
        bool, typer.Option("--parents", help="Also entities of which only children changed.")
    ] = False,
    show: Annotated[
        str | None,
        typer.Option(help="Show the difference that one change made.", metavar="SEQUENCE"),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most so many changes.")] = 50,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show what changed, when and by whom, newest first.

    Readers see the changes of what they may see. The author is told to admins of the catalog and of
    the group, and to all readers of entities whose authority publishes its authors.

    Example: concord changes /endpoints/orders --since 7d

    Example: concord changes --show 0000000000000000835.0000000000000000023
    """
    if show is not None:
        _show(url, show, as_json=as_json)
        return
    from catalog.operations.changes import CatalogChangesQuery

    query = wanted(
        CatalogChangesQuery,
        path=path,
        since=time_from(since),
        until=time_from(until),
        who=who,
        authority=authority,
        parents=parents or None,
        limit=limit,
    )
    found = on_node(url, lambda client: client.catalog_changes(query))
    if as_json:
        print_json(found)
        return
    shown = table("time", "what", "entity", "changed", "who", "sequence")
    for each in found:
        shown.add_row(*map(cell, _columns(each)))
    out.print(shown if found else "There are no such changes.")


def time_from(text: str | None) -> str | None:
    """The time of a text, as an age or a timestamp; another text ends the command."""
    if text is None:
        return None
    age = span_from(text)
    try:
        return format_time(parse_time(text) if age is None else datetime.now(UTC) - age)
    except (OverflowError, ValueError):
        fail(f"{text} is no time.", "Write it as 2030-12-19T06:00:00Z, or as an age: 12h, 7d, 2w.")


def _columns(entry: ChangeEntry) -> tuple[str, str, str, str, str, str]:
    time, who = format_time(entry.time), who_in(entry)
    return time, entry.action, entry.xid, ", ".join(entry.essence), who, entry.sequence


def who_in(entry: ChangeEntry) -> str:
    """The author of a change as `KIND:NAME`; empty if the reader may not know."""
    who = entry.who
    return "" if who is None else ":".join(filter(None, (who.kind, who.name)))


def _show(url: str, sequence: str, *, as_json: bool) -> None:
    answer = on_node(url, lambda client: client.catalog_change(sequence))
    if as_json:
        print_json(answer)
        return
    change = answer.change
    who = who_in(change)
    out.print(
        f"{cell(format_time(change.time))}  {change.action} {cell(change.xid)}, epoch "
        f"{change.epoch}{f', by {cell(who)}' if who else ''}"
    )
    if answer.difference is None:
        out.print("The contents before and after it are no longer kept, or were purged.")
        return
    print_lines(answer.difference.text or ())
    print_difference(answer.difference)
