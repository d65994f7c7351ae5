"""The command group `recover`: starts a recovery, and shows, resumes and ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    CANNOT,
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    Yes,
    call_node,
    cell,
    confirm,
    err,
    fail,
    json_of,
    list_of,
    on_node,
    out,
    print_json,
    table,
    wanted,
)
from catalog.commands.secretsources import read_tokens, token_for
from catalog.model.masking import counted
from catalog.model.timestamps import format_time

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.operations.recovery import RecoveryAnswer, RecoveryFindingAnswer

_LOOK_SECONDS = 0.5
_MOST_SHOWN = 20
_UNDER_WAY = ("reading", "taking", "burying")
_ALLOW = typer.Option(
    "--allow",
    min=0,
    metavar="N",
    help="Delete up to N entities of this node that replicas say are deleted.",
)
_COUNTS = ("wanted", "taken", "kept", "partial", "refused", "buried")

app = typer.Typer(
    invoke_without_command=True,
    help=(
        "Take a node's own entities back from its replicas, after its catalog was lost or restored "
        "from an old backup.\n\n"
        "Of each entity, the copy of the highest epoch is taken, deletions included; what is later "
        "here stays. Name all the catalogs that follow the node. Until it is done the node can be "
        "read and takes no writes, also after a restart. Links, subscriptions and the model are "
        "no part of it.\n\n"
        "A lost node is replaced by a fresh one with the same authority: `concord serve "
        "--public-url` with the same URL, or `--authority` with what it was.\n\n"
        "Example: concord recover --from https://eu.example.com --from https://us.example.com"
    ),
)


@app.callback()
def recover(
    context: typer.Context,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from", help="URL of a catalog that has replicas. Repeatable.", metavar="URL"
        ),
    ] = None,
    with_model: Annotated[
        bool,
        typer.Option("--with-model", help="Give the node the model of the first source before."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Begin even if a source does not answer yet.")
    ] = False,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust",
            help="A key of this authority (`concord signing show`). Repeatable.",
            metavar="KEY",
        ),
    ] = None,
    unsigned: Annotated[
        bool,
        typer.Option("--unsigned", help="Believe the replicas: check no signatures."),
    ] = False,
    allow: Annotated[int, _ALLOW] = 0,
    tokens: Annotated[
        Path | None,
        typer.Option(
            help="A file with the URL of a source and its token in each line: the node shows them. "
            "Else it shows what its links to there show. Only you may be able to read the file.",
            metavar="FILE",
        ),
    ] = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Do not wait for the end; see `concord recover show`."),
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    if context.invoked_subcommand is not None:
        return
    if not source:
        fail("Name the catalogs to recover from with --from.", "See `concord recover --help`.")

    from catalog.operations.recovery import BEGIN_RECOVERY, NewRecovery, RecoveryQuery

    async def begin(client: Client) -> RecoveryAnswer:
        known = {} if tokens is None else read_tokens(tokens)
        given = {url: known[url.rstrip("/")] for url in source if url.rstrip("/") in known}
        asked = wanted(
            NewRecovery,
            sources=source,
            trust=trust or [],
            unsigned=unsigned,
            allow=allow,
            credentials={url: {"token": token} for url, token in given.items()},
        )
        if with_model:
            await _take_model(client, source[0], given.get(source[0]))
        begun = await client.call(BEGIN_RECOVERY, asked, query=RecoveryQuery(force=force))
        return begun if detach else await _follow(client)

    _conclude(url, on_node(url, begin), as_json=as_json)


@app.command()
def show(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show the current or the last recovery, and the entities that need an operator.

    Example: concord recover show
    """
    from catalog.operations.recovery import GET_RECOVERY

    _conclude(url, call_node(url, GET_RECOVERY), as_json=as_json)


@app.command()
def resume(
    allow: Annotated[int | None, _ALLOW] = None,
    bury: Annotated[
        bool,
        typer.Option(
            "--bury",
            help="Do not retry them: delete the entities that could not be taken, here and at "
            "every replica, whose authority this node is.",
        ),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Continue the recovery immediately, and retry the copies that could not be taken.

    Types that the model lacks can be added meanwhile: `concord model set` is allowed while a
    recovery is blocked.

    Example: concord recover resume
    """
    from catalog.operations.recovery import CHANGE_RECOVERY, RecoveryChanges

    if bury:
        confirm("Delete for ever, at all replicas, what could not be taken?", yes=yes)
    asked = wanted(RecoveryChanges, state="burying" if bury else "taking", allow=allow)

    async def change(client: Client) -> RecoveryAnswer:
        await client.call(CHANGE_RECOVERY, asked)
        return await _follow(client)

    _conclude(url, on_node(url, change), as_json=as_json)


@app.command()
def abort(
    yes: Yes = False,
    url: Url = DEFAULT_URL,
) -> None:
    """End an incomplete recovery, and let clients write.

    Copies that the recovery has taken stay. For a missing entity, the epoch of a replica may be
    higher than the epoch of a later write by a client: the replica then reports a conflict and
    keeps the old copy.

    Example: concord recover abort
    """
    confirm("End the recovery before everything is here?", yes=yes)
    from catalog.operations.recovery import ABORT_RECOVERY

    call_node(url, ABORT_RECOVERY)
    out.print("The recovery is ended. The node takes writes.")


async def _take_model(client: Client, source: str, token: str | None) -> None:
    from catalog.client import Client

    token = token or token_for(source, is_own=False)
    async with Client.open(source, token=token) as replica:
        model = await replica.modelsource()
    if model != await client.modelsource():
        await client.put_modelsource(model)
        err.print(f"The model is that of {cell(source)} now.")


async def _follow(client: Client) -> RecoveryAnswer:
    """Print the progress of the recovery until it ends or needs an operator."""
    from catalog.operations.recovery import GET_RECOVERY

    told = ""
    while True:
        found = await client.call(GET_RECOVERY)
        if found.state not in _UNDER_WAY:
            return found
        if (line := _progress(found)) != told:
            err.print(f"[dim]{cell(line)}[/]")
            told = line
        await asyncio.sleep(_LOOK_SECONDS)


def _progress(found: RecoveryAnswer) -> str:
    if found.error:
        at = "" if found.nextattemptat is None else format_time(found.nextattemptat)
        return f"{found.error} The next attempt is at {at}."
    if found.state == "reading":
        differing = sum(source.differing for source in found.sources)
        read = sum(source.isread for source in found.sources)
        sources = counted(len(found.sources), "sources")
        return f"{read} of {sources} read, {counted(differing, 'origins')} differ"
    if found.state == "burying":
        return f"{found.refused:,} to be deleted"
    return f"{counted(found.taken, 'copies')} taken, {found.wanted:,} left"


def _conclude(url: str, found: RecoveryAnswer, *, as_json: bool) -> None:
    """Show a recovery, and end the command with an error if the recovery needs an operator."""
    from catalog.operations.recovery import LIST_FINDINGS

    notes = []
    if found.state != "reading":
        notes = list_of(url, LIST_FINDINGS, lambda page: page.findings)
    if as_json:
        print_json({**json_of(found), "findings": notes})
    else:
        _show(found, notes)
    if found.state in ("asking", "blocked", "awaited"):
        raise typer.Exit(NO)
    if found.state == "aborted" or found.error:
        raise typer.Exit(CANNOT)


def _show(found: RecoveryAnswer, notes: list[RecoveryFindingAnswer]) -> None:
    shown = table("source", "read", "origins that differed", "not proven")
    for source in found.sources:
        is_read = "yes" if source.isread else "no"
        numbers = f"{source.differing:,}", f"{source.unproven:,}"
        shown.add_row(cell(source.url), is_read, *numbers)
    out.print(shown)
    if (keys := found.keys) is not None:
        signed = f"Copies have to be signed by {cell(', '.join(keys))}."
        out.print(signed if keys else "No signatures were checked.")
    states = [(getattr(found, name), name) for name in _COUNTS]
    counts = ", ".join(f"{number:,} {name}" for number, name in states if number)
    out.print(f"Recovery of {cell(found.authority)}: [bold]{found.state}[/]. {counts}")
    if found.diverged:
        out.print(f"Copies of {counted(found.diverged, 'origins')} differed.")
    for note in notes[:_MOST_SHOWN]:
        out.print(f"  {note.state} {cell(note.origin)} (epoch {note.epoch}): {cell(note.detail)}")
    if len(notes) > _MOST_SHOWN:
        out.print(f"  … and {len(notes) - _MOST_SHOWN:,} more; --json lists all.")
    out.print(_advice(found))


def _advice(found: RecoveryAnswer) -> str:
    match found.state:
        case "done":
            return "[green]The node has its own entities back, and takes writes.[/]"
        case "awaited":
            return (
                "[yellow]The node takes no writes until it has recovered:[/] `concord recover "
                "--from URL`. (`concord recover abort` lets clients write.)"
            )
        case "asking":
            return f"[yellow]The node takes no writes yet.[/] {cell(found.error)}"
        case "aborted":
            return "It was ended before everything was here. The node takes writes."
        case "blocked":
            return (
                "[yellow]The node takes no writes yet.[/] Remove the causes (`concord model set` "
                "is allowed) and go on with `concord recover resume`, or delete what is refused "
                "everywhere with `concord recover resume --bury`."
            )
        case _:
            return f"[yellow]It is under way:[/] {cell(_progress(found).rstrip('.'))}."
