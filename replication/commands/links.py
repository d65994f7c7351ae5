"""The commands about links as they run: `link list`, `show`, `pause`, `run`, `reset`, …"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    call_node,
    cell,
    fields,
    json_of,
    on_node,
    out,
    print_answer,
    print_json,
    print_rows,
    table,
    wanted,
)
from catalog.model.masking import counted
from catalog.model.timestamps import format_time
from replication.commands.linkoptions import LinkId

if TYPE_CHECKING:
    from catalog.operations.links import (
        ConflictSide,
        CopyConflict,
        DryRunAnswer,
        LinkAnswer,
        LinkQuestion,
    )

_MOST_ADVICE = 5
_LONGEST = 200
_SHOWN = 3

FigureStep = Literal["minute", "hour"]

app = typer.Typer(
    no_args_is_help=True,
    help="Follow other catalogs: their entities become read-only replicas.",
)

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only tell what would come, go and collide.")
]
Drop = Annotated[
    bool, typer.Option("--drop", help="Drop the replicas that the link may bring first.")
]


@app.command("list")
def list_(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List the links of a node with their state.

    The lag is the age in seconds of the oldest change that the link may not have brought yet. The
    lag is 0 if the source had no new change at the last request, "confirmed" seconds ago. "behind"
    is the number of changes that are left. During a complete copy, the state shows the progress.

    Example: concord link list
    """
    links = on_node(url, lambda client: client.links())
    if as_json:
        print_json(links)
        return
    names = ("state", "behind", "lag", "confirmed", "applied", "rate", "conflicts", "error")
    units = {"lag": " (s)", "confirmed": " (s)", "rate": " (/s)"}
    columns = (f"{name}{units.get(name, '')}" for name in names)
    from catalog.operations.authoritycards import LIST_AUTHORITIES

    known = call_node(url, LIST_AUTHORITIES).authorities if links else []
    cards = {each.authority: each.card for each in known}
    shown = table("id", "other catalog", "direction", *columns)
    for link in links:
        told = {**vars(link), "state": _state_of(link)}
        peer = link.source or link.target or link.authority
        card = cards.get(link.authority or "")
        first = (link.id, f"{peer} ({card.name})" if card and card.name else peer)
        direction = f"{link.direction}, {link.mode}"
        shown.add_row(*map(cell, (*first, direction, *map(told.get, names))))
    out.print(shown if links else "This node has no links; add one with `concord link add`.")


def _state_of(link: LinkAnswer) -> str:
    """The state of a link, with the progress of a running complete copy."""
    progress = link.progress
    if progress is None or not progress.of:
        return link.state
    left = "" if progress.seconds is None else f", {progress.seconds:.0f} s left"
    return f"{link.state} {progress.copies / progress.of:.0%}{left}"


@app.command()
def show(
    id: LinkId,
    conflicts: Annotated[
        bool,
        typer.Option(
            "--conflicts",
            help="Show the copies that the link could not apply beside what is here, and exit with "
            "1 if there are any. Long values are cut; --json has what the node keeps of them.",
        ),
    ] = False,
    figures: Annotated[
        FigureStep | None,
        typer.Option(
            help="Show the lag, the rate and the errors over time: a point a minute of the last "
            "day, or an hour of 30 days."
        ),
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="The number of the last points to show.")] = 30,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show one link, and the copies that the link could not apply.

    The node notes the figures of a link once a minute. The lag is the greatest one of the minute or
    hour; the rate and the errors are counted since the point before.

    Example: concord link show eu

    Example: concord link show eu --conflicts

    Example: concord link show eu --figures hour
    """
    if figures is not None:
        _print_figures(url, id, figures, last, as_json=as_json)
        return
    if conflicts:
        found = on_node(url, lambda client: client.conflicts(id))
        if as_json:
            print_json(found)
        else:
            _print_conflicts(found)
        if found:
            raise typer.Exit(NO)
        return
    link = on_node(url, lambda client: client.link(id))
    refused = on_node(url, lambda client: client.conflicts(id))
    if as_json:
        print_json({**json_of(link), "conflicting": refused})
        return
    apart = ("question", "history")
    out.print(fields({n: v for n, v in json_of(link).items() if n not in apart}, _NAMES))
    if link.history:
        shown = table("at", "event", "detail", title="History")
        for event in link.history:
            shown.add_row(*map(cell, (format_time(event.at), event.event, event.detail)))
        out.print(shown)
    if link.question:
        _print_question(link.question)
    if refused:
        shown = table("xid", "authority", "epoch", "verdict", "detail", title="Not applied")
        for each in refused:
            members = (each.xid, each.authority, each.epoch, each.verdict, each.detail)
            shown.add_row(*map(cell, members))
        out.print(shown)
        told = dict.fromkeys(each.advice for each in refused if each.advice)
        for advice in [*told][:_MOST_ADVICE]:
            out.print(cell(advice))


_NAMES = {
    "eventtopic": "event topic",
    "lag": "lag (seconds)",
    "behind": "behind (changes)",
    "confirmed": "confirmed (seconds ago)",
    "currentat": "current at",
    "applied": "copies applied",
    "differing": "differing entities",
    "comparedat": "digests compared at",
    "appliedat": "last applied at",
    "succeededat": "last succeeded at",
    "rate": "copies per second",
    "bytes": "bytes in all",
    "failures": "failures in a row",
    "errors": "errors in all",
    "nextattemptat": "next attempt at",
}


def _print_question(question: LinkQuestion) -> None:
    number, first = question.deletions, question.first
    told = f"{number:,} of {counted(question.of, 'entities')}, digest {question.digest}"
    shown = table("origin", "authority", title=f"No longer at the source: {told}")
    for each in first:
        shown.add_row(cell(each.origin), cell(each.authority))
    out.print(shown)
    if number > len(first):
        out.print(cell(f"and {number - len(first):,} more"))


@app.command()
def reset(
    id: LinkId,
    drop: Annotated[
        bool,
        typer.Option("--drop", help="Drop the replicas of all authorities that it brings first."),
    ] = False,
    authority: Annotated[
        list[str] | None,
        typer.Option(help="Drop only the replicas of this authority. Repeatable.", metavar="URI"),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Copy everything again, without comparing first.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Compare all entities of a link with its source, and bring the differing entities again.

    The own entities of the source replace every copy of its authority in this catalog, whatever the
    epochs. Dropping also removes the copies of a relay. Catalogs that follow this node do not learn
    of the reset: reset their links, too.

    Example: concord link reset hub --drop
    """
    from catalog.operations.links import LinkReset

    extent = wanted(LinkReset, drop=drop, authorities=authority or [], full=full)
    on_node(url, lambda client: client.reset_link(id, extent))
    first = "drops its replicas and " if drop else ""
    then = "copies everything" if full or drop else "brings what differs"
    out.print(f"Link [bold]{cell(id)}[/] {first}{then} again.")


@app.command()
def remove(
    id: LinkId,
    drop: Drop = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Stop following a catalog. The replicas of the link stay, unless dropped.

    Example: concord link remove eu
    """
    on_node(url, lambda client: client.remove_link(id, drop=drop))
    when = "as soon as its replicas are dropped" if drop else ""
    out.print(f"Link [bold]{cell(id)}[/] is removed {when}".rstrip() + ".")


@app.command()
def pause(
    id: LinkId,
    reason: Annotated[
        str | None, typer.Option(help="Why, for others who look at it.", metavar="TEXT")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Bring nothing until the link is resumed. Cursor and replicas of the link stay.

    After a pause longer than the source keeps its log, the link compares digests.

    Example: concord link pause eu --reason "the source is being moved"
    """
    on_node(url, lambda client: client.pause_link(id, reason))
    out.print(f"Link [bold]{cell(id)}[/] is paused.")


@app.command()
def resume(id: LinkId, url: Url = DEFAULT_URL) -> None:
    """Continue from the cursor at which the link was paused.

    Example: concord link resume eu
    """
    on_node(url, lambda client: client.resume_link(id))
    out.print(f"Link [bold]{cell(id)}[/] runs.")


@app.command()
def run(
    id: LinkId,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Read the source now, even if the link waits after a failure or has stopped.

    With --dry-run, nothing is written: digests are compared, or the other catalog is read.

    Example: concord link run eu
    """
    if dry_run:
        from catalog.operations.links import TRY_RUN, RunQuery

        print_dry_run(call_node(url, TRY_RUN, query=RunQuery(dryrun=True), id=id), as_json=as_json)
        return
    on_node(url, lambda client: client.run_link(id))
    out.print(f"Link [bold]{cell(id)}[/] reads its source.")


@app.command()
def allow(
    id: LinkId,
    digest: Annotated[
        str,
        typer.Argument(metavar="DIGEST", help="The question's, as `concord link show` shows it."),
    ],
    url: Url = DEFAULT_URL,
) -> None:
    """Let a link delete the entities of its question.

    A link whose source lost a large part of its entities is "asking": the link deletes none of the
    lost entities without permission. `concord link show` lists the entities and the digest of the
    question. The link then follows the present state of the source; for another loss, the link asks
    again.

    Example: concord link allow eu 3f2a9c51d07be684
    """
    link = on_node(url, lambda client: client.allow_link(id, digest))
    out.print(f"Link [bold]{cell(id)}[/] may delete {counted(link.allowed or 0, 'entities')}.")


@app.command()
def adopt(
    id: LinkId,
    default: Annotated[
        bool,
        typer.Option(
            "--default",
            help="Let the default context of a schema registry be the default context here.",
        ),
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Make what a paused link has brought from a server of other software this node's own.

    Let the server take no more writes, run the link a last time, and pause it. Then clients write
    here, and the link can be removed. Between nodes, `concord handover` does more.

    Example: concord link adopt old-registry --default
    """
    from catalog.operations.links import ADOPT_LINK, AdoptQuery

    adopted = call_node(url, ADOPT_LINK, query=AdoptQuery(default=default), id=id)
    number, groups = counted(adopted.entities, "entities"), ", ".join(adopted.groups)
    told = f"{number} are this node's own now: {cell(groups or 'nothing')}."
    print_answer(adopted, told, as_json=as_json)


def print_dry_run(found: DryRunAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if not found.isdecided:
        out.print(cell(found.reason))
        return
    out.print(f"{found.differing:,} of {found.rows:,} entities and deletions differ.")
    shown = table("would be", "entities", "of these")
    for name, each in (found.outcomes or {}).items():
        paths = [one.xid for one in each.first[:_SHOWN]]
        more = ", …" if each.number > len(paths) else ""
        shown.add_row(cell(name), cell(f"{each.number:,}"), cell(", ".join(paths) + more))
    if found.outcomes:
        out.print(shown)
    if found.question is not None:
        out.print(
            "It would ask before it deletes "
            f"{counted(found.question.deletions, 'entities')}, and wait for "
            "`concord link allow`."
        )


def _print_figures(
    url: str, id: str, step: Literal["minute", "hour"], last: int, *, as_json: bool
) -> None:
    from catalog.operations.linkfigures import READ_LINK_FIGURES, FiguresQuery

    print_rows(
        call_node(url, READ_LINK_FIGURES, query=FiguresQuery(step=step), id=id).figures[-last:],
        ("at", "lag (s)", "rate (/s)", "errors"),
        lambda each: (
            format_time(each.at),
            each.lag and round(each.lag, 1),
            each.rate,
            each.errors,
        ),
        nothing="No figures yet: the node notes them once a minute.",
        as_json=as_json,
    )


def _print_conflicts(found: list[CopyConflict]) -> None:
    for each in found:
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
    if not found:
        out.print("The link has no conflicts.")


def _member(side: ConflictSide | None, name: str) -> Any:
    value = None if side is None else getattr(side, name)
    return format_time(value) if name == "modifiedat" and value is not None else value


def _shortened(value: Any) -> str | None:
    """The beginning of a value, as JSON unless it is a text."""
    if value is None:
        return None
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
