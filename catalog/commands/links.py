"""`link`: what flows into a node from other catalogs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    EXIT_CODES,
    AsJson,
    Url,
    cell,
    out,
    print_json,
    run,
    table,
)

app = typer.Typer(
    no_args_is_help=True,
    help=f"Follow other catalogs: their entities become read-only replicas. {EXIT_CODES}",
)

LinkId = Annotated[str, typer.Argument(metavar="ID", help="The link's id; `concord link list`.")]


class LinkMode(StrEnum):
    """How a link learns that there is something to bring."""

    events = "events"
    pull = "pull"


@app.command()
def add(
    source: Annotated[str, typer.Argument(help="URL of the catalog to follow.")],
    mode: Annotated[
        LinkMode, typer.Option(help="Be woken by the source's events, or ask now and then.")
    ] = LinkMode.events,
    id: Annotated[str | None, typer.Option("--id", help="A name for the link.")] = None,
    relay: Annotated[
        bool, typer.Option("--relay", help="Bring what the source has from others, too.")
    ] = False,
    authority: Annotated[
        list[str] | None,
        typer.Option(help="Bring what this authority controls. Repeatable.", metavar="URI"),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="Bring only what lies at or below this xid. Repeatable.", metavar="XID"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Add the link without asking the source who it is.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Follow a catalog from now on. What it has already comes first.

    The node asks the source who it is, and refuses what cannot be followed.

    Example: concord link add http://127.0.0.1:8080 --url http://127.0.0.1:8081
    """
    definition: dict[str, Any] = {
        "source": source,
        "mode": mode.value,
        "authorities": ["*"] if relay else list(authority or []),
        "scope": list(scope or []),
    }
    if id is not None:
        definition["id"] = id
    link = run(lambda: _add(definition, url, force=force))
    if as_json:
        print_json(link)
    else:
        _print_added(link)


def _print_added(link: dict[str, Any]) -> None:
    found = link.get("found")
    if found is None:
        detail = "its source was not asked who it is"
        out.print(
            f"Link [bold]{cell(link['id'])}[/] is added to follow {cell(link['source'])}; {detail}."
        )
        return
    out.print(f"Link [bold]{cell(link['id'])}[/] follows {cell(link['source'])}.")
    entities = found.get("entities")
    counted = "" if entities is None else f", {entities} entities"
    versions = f"{found['software']}, digests of version {found['digestversion']}"
    out.print(cell(f"It is the authority {found['authority']} ({versions}{counted})."))
    for other in found["followedby"]:
        out.print(cell(f"Note: link {other} follows this authority already."))


@app.command("list")
def list_(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show every link of a node, and how it fares.

    The lag is the age of the oldest change that the link may not have brought yet: 0 while the
    source had nothing new when it was last asked, which was as long ago as "confirmed" says.

    Example: concord link list
    """
    links = run(lambda: _list(url))
    if as_json:
        print_json(links)
        return
    names = ("id", "source", "state", "lag", "confirmed", "applied", "conflicts", "error")
    shown = table(*(f"{name} (s)" if name in ("lag", "confirmed") else name for name in names))
    for link in links:
        shown.add_row(*(cell(link.get(name)) for name in names))
    out.print(shown if links else "This node follows nobody. `concord link add` changes that.")


@app.command()
def show(id: LinkId, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show one link, and what it could not apply.

    Example: concord link show eu
    """
    link, conflicts = run(lambda: _show(id, url))
    if as_json:
        print_json({**link, "conflicting": conflicts})
        return
    for name, value in link.items():
        out.print(f"[bold]{cell(name)}[/]: {cell(value)}")
    if conflicts:
        columns = ("xid", "authority", "epoch", "verdict", "detail")
        shown = table(*columns, title="Not applied")
        for conflict in conflicts:
            shown.add_row(*(cell(conflict.get(name)) for name in columns))
        out.print(shown)


@app.command()
def remove(id: LinkId, url: Url = DEFAULT_URL) -> None:
    """Stop following. What the link has brought stays.

    Example: concord link remove eu
    """
    run(lambda: _remove(id, url))
    out.print(f"Link [bold]{cell(id)}[/] is removed.")


async def _add(definition: dict[str, Any], url: str, *, force: bool) -> Any:
    from catalog.client import Client

    async with Client.open(url) as client:
        return await client.add_link(definition, force=force)


async def _list(url: str) -> list[dict[str, Any]]:
    from catalog.client import Client

    async with Client.open(url) as client:
        return await client.links()


async def _show(id: str, url: str) -> tuple[Any, list[dict[str, Any]]]:
    from catalog.client import Client

    async with Client.open(url) as client:
        return await client.link(id), await client.conflicts(id)


async def _remove(id: str, url: str) -> None:
    from catalog.client import Client

    async with Client.open(url) as client:
        await client.remove_link(id)
