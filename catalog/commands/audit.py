"""The command `audit`: who changed what on a node, and who was refused."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from catalog.commands.console import DEFAULT_URL, AsJson, Url, cell, on_node, out, print_json, table
from catalog.model.printable import printable_json

if TYPE_CHECKING:
    from catalog.client import Client

app = typer.Typer()

_POLL_SECONDS = 1.0
_SHOWN_TARGETS = 3


@app.command()
def audit(
    since: Annotated[str | None, typer.Option(help="From this time on.", metavar="RFC3339")] = None,
    until: Annotated[str | None, typer.Option(help="Before this time.", metavar="RFC3339")] = None,
    identity: Annotated[
        str | None,
        typer.Option(
            help="Of this identity: a name (the id of a token, the subject of a JWT, the id of a "
            "link), a kind (anonymous, token, jwt, certificate, link, operator, node), or "
            "KIND:NAME.",
        ),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(help="Only requests to paths, or about entities, that begin with this."),
    ] = None,
    interaction: Annotated[
        str | None, typer.Option(help="The interaction with this id, as events and logs have it.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(help="What was `done` only, or what was `refused`.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Most entries.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show who changed what, when, and from where, and who was refused: the newest first.

    It takes the token of an admin. With --follow, the oldest comes first; with --json as well, one
    entry a line.

    Example: concord audit --since 2026-11-01T00:00:00Z --path /endpoints/orders

    Example: concord audit --outcome refused --follow
    """
    given = {
        "since": since,
        "until": until,
        "identity": identity,
        "path": path,
        "interaction": interaction,
        "outcome": outcome,
    }
    conditions = {name: value for name, value in given.items() if value is not None}
    if follow:
        on_node(url, lambda client: follow_audit(client, conditions, limit, as_json=as_json))
        return
    entries = on_node(url, lambda client: client.audit(conditions, limit=limit))
    if as_json:
        print_json(entries)
        return
    shown = table("time", "who", "from", "what", "about")
    for entry in entries:
        shown.add_row(*map(cell, _columns(entry)))
    out.print(shown if entries else "The audit has no such entries.")


async def follow_audit(
    client: Client, conditions: Mapping[str, str], limit: int, *, as_json: bool
) -> None:
    """Print what there is, the oldest first, and what comes."""
    entries = (await client.audit(conditions, limit=limit))[::-1]
    # Behind the newest, one may yet appear that began earlier; behind the oldest here, none is new.
    after = entries[0]["sequence"] if entries else "0.0"
    entries = entries[:1]
    while True:
        for entry in entries:
            _print_line(entry, as_json=as_json)
        entries = await client.audit(conditions, after=after)
        if entries:
            after = entries[-1]["sequence"]
        else:
            await asyncio.sleep(_POLL_SECONDS)


def _print_line(entry: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(printable_json(orjson.dumps(entry).decode()) + "\n")
        sys.stdout.flush()
    else:
        out.print("  ".join(map(cell, _columns(entry))))


def _columns(entry: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """An entry in words: when, who, from where, what, and about what."""
    identity = entry["identity"]
    who = ":".join(filter(None, (identity["kind"], identity.get("name"))))
    what = " ".join(filter(None, (entry.get("method"), entry.get("path"))))
    return entry["time"], who, entry.get("address", ""), what, _about(entry)


def _about(entry: Mapping[str, Any]) -> str:
    if entry["outcome"] == "refused":
        times = f", {entry['attempts']} times" if entry["attempts"] > 1 else ""
        return f"refused: {entry['reason']} ({entry['status']}){times}"
    # The entities around them are only updated with what is created or deleted.
    targets = sorted(entry["targets"], key=lambda each: each.get("action") == "updated")
    named = [" ".join(filter(None, (each.get("action"), each["path"]))) for each in targets]
    more = max(entry.get("changed", 0), len(named)) - _SHOWN_TARGETS
    return ", ".join(named[:_SHOWN_TARGETS]) + (f" and {more} more" if more > 0 else "")
