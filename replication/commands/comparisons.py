"""The commands `reconcile history` and `findings`: what a node was told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    call_node,
    cell,
    fail,
    on_node,
    out,
    print_json,
    print_rows,
    table,
    wanted,
)
from catalog.model.timestamps import format_time, time_of

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.operations.reconciliations import FindingSide, FindingSides, StoredFinding

_SHOWN = 100

app = typer.Typer()

Run = Annotated[
    str | None,
    typer.Option(
        help="The id of the comparison, as `concord reconcile history --json` has it; else the "
        "latest with findings.",
        metavar="ID",
    ),
]


@app.command()
def history(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List the comparisons that a node was told about, the latest first.

    The node keeps the last 50 of each outcome.

    Example: concord reconcile history --url http://127.0.0.1:8080
    """
    from catalog.operations.reconciliations import LIST_RECONCILIATIONS

    found = call_node(url, LIST_RECONCILIATIONS).reconciliations
    if as_json:
        # A script finds each member, also those without a value.
        print_json([each.model_dump(mode="json") for each in found])
        return
    shown = table("ended", "outcome", "differences", "entities", "catalogs", "seconds")
    for each in found:
        own = each.error or ", ".join(f"{n:,} {name}" for name, n in each.findings.items())
        shown.add_row(
            format_time(each.endedat),
            each.outcome,
            cell(own or "none"),
            f"{sum(each.entities.values()):,}",
            cell(", ".join(each.catalogs)),
            f"{(each.endedat - each.startedat).total_seconds():.1f}",
        )
    out.print(shown if found else "The node was told about no comparison.")


@app.command()
def findings(
    number: Annotated[
        int | None,
        typer.Argument(
            metavar="[NUMBER]",
            min=0,
            help="Show the finding of this number in the list with both sides as they are now, and "
            "the attributes that differ.",
        ),
    ] = None,
    run: Run = None,
    finding: Annotated[
        str | None,
        typer.Option(
            "--finding", help="Only this class, such as missing or stale.", metavar="CLASS"
        ),
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog", help="Only at this catalog, by its name in the comparison.", metavar="NAME"
        ),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(
            "--path",
            help="Only entities at or below this path, such as /messagegroups/orders.",
            metavar="PATH",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many differences.")] = _SHOWN,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List the differences that a comparison has found and a node keeps.

    The node keeps CONCORD_COMPARISON_FINDINGS of each comparison, in turn from each class at each
    catalog, of those at its own catalog and about its own entities.

    For one finding, the other catalog is asked by a link of the node that leads there, for three
    seconds at most.

    Example: concord reconcile findings --finding missing --path /messagegroups/orders

    Example: concord reconcile findings 0
    """
    if number is not None:
        _show_finding(url, run, number, as_json=as_json)
        return
    from catalog.operations.reconciliations import LIST_FINDINGS, FindingsQuery

    query = wanted(FindingsQuery, finding=finding, catalog=catalog, path=path)

    async def ask(client: Client) -> list[StoredFinding]:
        kept: list[StoredFinding] = []
        chosen = str(await _chosen(client, run))
        async for page in client.call_pages(LIST_FINDINGS, query=query, run=chosen):
            kept += page.findings
            if len(kept) >= limit:
                break
        return kept[:limit]

    found = on_node(url, ask)
    print_rows(
        found,
        ("number", "finding", "at", "entity", "epoch", "instead of", "at"),
        lambda each: (
            *(each.number, each.finding, each.catalog, each.origin),
            _epoch(each.epoch, each.deleted),
            _epoch(each.referenceepoch, each.referencedeleted),
            each.reference or "",
        ),
        nothing="No kept finding of this comparison fits.",
        as_json=as_json,
    )
    if len(found) == limit and not as_json:
        out.print(f"There may be more than {limit:,}: --limit shows more.")


def _show_finding(url: str, run: str | None, number: int, *, as_json: bool) -> None:
    from catalog.operations.reconciliations import SHOW_FINDING, FindingQuery

    async def ask(client: Client) -> FindingSides:
        chosen, query = str(await _chosen(client, run)), FindingQuery(ask=True)
        return await client.call(SHOW_FINDING, query=query, run=chosen, number=str(number))

    found = on_node(url, ask)
    if as_json:
        print_json(found)
        return
    told = found.finding
    out.print(f"[bold]{told.finding}[/] at {cell(told.catalog)}: {cell(told.origin)}")
    out.print(f"  of {cell(told.authority)}{cell(f', {told.detail}') if told.detail else ''}")
    if told.referencechangedat is not None:
        out.print(f"  changed there at {format_time(time_of(told.referencechangedat))}")
    read = _epoch(told.epoch, told.deleted, told.digest)
    out.print(f"  {cell(_in_words(found.copied))} (in the comparison: {read})")
    if found.reference is not None:
        read = _epoch(told.referenceepoch, told.referencedeleted, told.referencedigest)
        out.print(f"  {cell(_in_words(found.reference))} (in the comparison: {read})")
    for each in found.attributes:
        values = f"{each.copied or 'nothing'} instead of {each.reference or 'nothing'}"
        out.print(f"    [bold]{cell(each.name)}[/]: {cell(values)}")
    if found.isequal:
        out.print("  [green]Both agree by now.[/]")


async def _chosen(client: Client, run: str | None) -> UUID:
    """The comparison of an id, or the latest with kept findings."""
    if run is not None:
        try:
            return UUID(run)
        except ValueError:
            fail(f"{run!r} is no id of a comparison.", "See `concord reconcile history --json`.")
    from catalog.operations.reconciliations import LIST_RECONCILIATIONS

    for each in (await client.call(LIST_RECONCILIATIONS)).reconciliations:
        if each.kept:
            return each.run
    fail(
        "The node keeps no findings: no comparison has told it any.",
        "Run `concord reconcile` with this node, and see `concord reconcile history`.",
        code=NO,
    )


def _epoch(epoch: int | None, is_deleted: bool | None, digest: str | None = None) -> str:
    if epoch is None:
        return "nothing"
    shown = f", {digest[:12]}…" if digest else ""
    return f"{epoch}{', deleted' if is_deleted else ''}{shown}"


def _in_words(side: FindingSide) -> str:
    where = f"{side.catalog} (this node)" if side.ishere else side.catalog
    if side.isabsent:
        return f"{where}: has nothing"
    copy = side.present
    if copy is None:
        return f"{where}: not known now: {side.fault}"
    state = "deleted" if copy.deleted else "changed"
    by = f", asked by link {side.link}" if side.link else ""
    return f"{where}: epoch {copy.epoch}, {state} at {format_time(copy.changedat)}{by}"
