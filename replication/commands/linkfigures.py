"""The commands `link figures` and `link conflicts`: a link over time, both sides of conflicts."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import orjson
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
)
from catalog.model.timestamps import format_time
from replication.commands.linkcontrol import LinkId

if TYPE_CHECKING:
    from catalog.operations.links import ConflictSide

app = typer.Typer()
_LONGEST = 200


class Step(StrEnum):
    """The distance of the points of a figure."""

    MINUTE = "minute"
    HOUR = "hour"


@app.command()
def figures(
    id: LinkId,
    step: Annotated[
        Step, typer.Option(help="A point a minute of the last day, or an hour of 30 days.")
    ] = Step.MINUTE,
    last: Annotated[int, typer.Option(min=1, help="Show so many of the last points.")] = 30,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the lag, the rate and the errors of a link over time.

    The node notes them once a minute. The lag is the greatest one of the minute or hour; the rate
    and the errors are counted since the point before.

    Example: concord link figures eu --step hour
    """
    found = on_node(url, lambda client: client.link_figures(id, step.value))[-last:]
    if as_json:
        print_json(found)
        return
    shown = table("at", "lag (s)", "rate (/s)", "errors")
    for each in found:
        lag = None if each.lag is None else round(each.lag, 1)
        shown.add_row(*map(cell, (format_time(each.at), lag, each.rate, each.errors)))
    out.print(shown if found else "No figures yet: the node notes them once a minute.")


@app.command()
def conflicts(id: LinkId, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show the copies that a link could not apply, beside what is here. Exits with 1 if any.

    Long values are cut; --json has them whole, as far as the node keeps them.

    Example: concord link conflicts eu
    """
    found = on_node(url, lambda client: client.conflicts(id))
    if as_json:
        print_json(found)
    for each in () if as_json else found:
        shown = table("", "refused", "here", title=f"{each.xid}: {each.verdict}")
        sides = (each.refused, each.held)
        for name in ("authority", "epoch", "modifiedat"):
            shown.add_row(name, *(cell(_member(side, name)) for side in sides))
        attributes = [side.attributes or {} if side else {} for side in sides]
        for name in sorted({*attributes[0], *attributes[1]}):
            shown.add_row(cell(name), *(cell(_shortened(of.get(name))) for of in attributes))
        shown.add_row("document", *(cell(side and _shortened(side.document)) for side in sides))
        out.print(shown)
        for text in filter(None, (each.detail, each.advice)):
            out.print(cell(text))
    if not (found or as_json):
        out.print("The link has no conflicts.")
    if found:
        raise typer.Exit(NO)


def _member(side: ConflictSide | None, name: str) -> Any:
    value = None if side is None else getattr(side, name)
    return format_time(value) if name == "modifiedat" and value is not None else value


def _shortened(value: Any) -> str | None:
    """The beginning of a value, as JSON unless it is a text."""
    if value is None:
        return None
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
