"""The command `audit`: changes to a node and refused requests, with the callers."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    call_node,
    cell,
    json_of,
    on_node,
    out,
    print_rows,
    wanted,
)
from catalog.model.masking import printable_json
from catalog.model.timestamps import format_time

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.operations.audit import AuditEntry, AuditQuery

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
        typer.Option(help="Only requests to this path, or about it, and below it."),
    ] = None,
    interaction: Annotated[
        str | None, typer.Option(help="The interaction with this id, as events and logs have it.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(help="What was `done` only, or what was `refused`.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most so many entries.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show changes and refused requests with time, caller and address, newest first.

    The command needs the token of an admin; an admin of groups reads what was done there. With
    --follow, the oldest entry comes first; --follow together with --json prints an entry per line.

    Example: concord audit --since 2026-11-01T00:00:00Z --path /endpoints/orders

    Example: concord audit --outcome refused --follow
    """
    from catalog.operations.audit import READ_AUDIT, AuditQuery

    query = wanted(
        AuditQuery,
        since=since,
        until=until,
        identity=identity,
        path=path,
        interaction=interaction,
        outcome=outcome,
        limit=limit,
    )
    if follow:
        on_node(url, lambda client: follow_audit(client, query, as_json=as_json))
        return
    entries = call_node(url, READ_AUDIT, query=query).audit
    print_rows(
        entries,
        ("time", "who", "from", "what", "about"),
        lambda entry: _columns(entry, query),
        nothing="The audit has no such entries.",
        as_json=as_json,
    )


async def follow_audit(client: Client, query: AuditQuery, *, as_json: bool) -> None:
    """Print the entries of a page, oldest first, and then new entries as they come."""
    from catalog.operations.audit import READ_AUDIT

    entries = (await client.call(READ_AUDIT, query=query)).audit[::-1]
    # Reading resumes after the oldest entry of the page, not the newest: an entry of a transaction
    # that began earlier may still appear before the newest entry.
    after = entries[0].sequence if entries else "0.0"
    entries = entries[:1]
    while True:
        for entry in entries:
            _print_line(entry, query, as_json=as_json)
        further = query.model_copy(update={"after": after, "limit": None})
        entries = (await client.call(READ_AUDIT, query=further)).audit
        if entries:
            after = entries[-1].sequence
        else:
            await asyncio.sleep(_POLL_SECONDS)


def _print_line(entry: AuditEntry, query: AuditQuery, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(printable_json(orjson.dumps(json_of(entry)).decode()) + "\n")
        sys.stdout.flush()
    else:
        out.print("  ".join(map(cell, _columns(entry, query))))


def _columns(entry: AuditEntry, query: AuditQuery) -> tuple[str, str, str, str, str]:
    """The columns of an entry: time, caller, address, request and subject."""
    path = f"{(query.path or '').rstrip('/')}/"
    who = ":".join(filter(None, (entry.identity.kind, entry.identity.name)))
    what = " ".join(filter(None, (entry.method, entry.path)))
    return format_time(entry.time), who, entry.address or "", what, _about(entry, path)


def _about(entry: AuditEntry, path: str) -> str:
    if entry.outcome == "refused":
        attempts = entry.attempts or 1
        times = f", {attempts} times" if attempts > 1 else ""
        return f"refused: {entry.reason} ({entry.status}){times}"
    # Created and deleted entities come first: the update of a parent is only their side effect.
    targets = sorted(
        entry.targets or [],
        key=lambda target: (not f"{target.path}/".startswith(path), target.action == "updated"),
    )
    named = [" ".join(filter(None, (target.action, target.path))) for target in targets]
    more = max(entry.changed or 0, len(named)) - _SHOWN_TARGETS
    return ", ".join(named[:_SHOWN_TARGETS]) + (f" and {more} more" if more > 0 else "")
