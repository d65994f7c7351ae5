"""The command group `handover`: gives a group to another authority with the consent of both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.commands.console import (
    CANNOT,
    DEFAULT_URL,
    AsJson,
    Url,
    call_node,
    cell,
    err,
    list_of,
    on_node,
    out,
    print_answer,
    print_json,
    print_rows,
    wanted,
)
from catalog.commands.secretsources import SOURCE, secret_from
from catalog.model.masking import counted

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.operations.handovers import HandoverAnswer, NewHandover

_LOOK_SECONDS = 0.3
TokenFrom = Annotated[
    str | None,
    typer.Option(
        help="The token that this catalog shows the other one, whose role replicator it has: "
        f"{SOURCE}. Else it shows what its link to there shows.",
        metavar="SOURCE",
    ),
]
Group = Annotated[
    str, typer.Argument(metavar="GROUP", help="The path of the group, as /messagegroups/shop.")
]

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Hand a group over to another authority, with all below it.\n\n"
        "The operator of the catalog that is to own it accepts it, then that of the one that owns "
        "it offers it. At no time do both own it, or neither."
    ),
)


@app.command()
def accept(
    group: Group,
    source: Annotated[
        str, typer.Option("--from", help="URL of the catalog that owns the group.", metavar="URL")
    ],
    token_from: TokenFrom = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Consent to own a group that another catalog owns now.

    Until the group arrives, nothing else can be created at its path in this catalog.

    Example: concord handover accept /messagegroups/shop --from https://eu.example.com
    """
    from catalog.operations.handovers import BEGIN_HANDOVER

    asked = _wanted(token_from, {"group": group, "from": source})
    made = call_node(url, BEGIN_HANDOVER, asked)
    print_answer(
        made,
        f"{cell(group)} of {cell(made.authority)} may come, as [bold]{made.id}[/].",
        f"There, run: concord handover offer {cell(group)} --to {cell(url)}",
        as_json=as_json,
    )


@app.command()
def offer(
    group: Group,
    to: Annotated[
        str,
        typer.Option(help="URL of the catalog that accepts the group.", metavar="URL"),
    ],
    token_from: TokenFrom = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Do not wait for the end; see `concord handover list`."),
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Give a group of this catalog to a catalog that accepts the group.

    The group stays here as a replica. An interrupt of the command does not end the handover; see
    `abort`.

    Example: concord handover offer /messagegroups/shop --to https://us.example.com
    """
    from catalog.operations.handovers import BEGIN_HANDOVER

    asked = _wanted(token_from, {"group": group, "to": to})
    made = call_node(url, BEGIN_HANDOVER, asked)
    if not made.followsby:
        err.print(
            f"[yellow]This catalog does not follow {cell(made.authority)}[/], so what changes "
            f"there will not come here: concord link add {cell(to)} --url {cell(url)}"
        )
    found = made if detach else on_node(url, lambda client: _follow(client, made.id))
    if as_json:
        print_json(found)
    elif found.state == "done":
        out.print(
            f"[green]{cell(group)} is owned by {cell(found.authority)} now,[/] "
            f"with {counted(found.entities or 0, 'entities')}."
        )
    else:
        out.print(f"The handover [bold]{found.id}[/] is {found.state}.")
    if found.state == "aborted":
        raise typer.Exit(CANNOT)


@app.command("list")
def list_(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List the handovers of a node.

    Example: concord handover list
    """
    from catalog.operations.handovers import LIST_HANDOVERS

    found = list_of(url, LIST_HANDOVERS, lambda page: page.handovers)
    print_rows(
        sorted(found, key=lambda handover: handover.startedat),
        ("id", "group", "role", "peer", "state", "entities", "error", "startedat", "endedat"),
        nothing="This node has handed over nothing, and is about to take nothing.",
        as_json=as_json,
    )


@app.command()
def abort(
    id: Annotated[
        str, typer.Argument(metavar="ID", help="The id, as `concord handover list` shows it.")
    ],
    force: Annotated[
        bool,
        typer.Option("--force", help="End it at the taker though the giver does not answer."),
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """End a handover at either side, as long as the group was not given.

    Example: concord handover abort 1c0ffee5eed5
    """
    from catalog.operations.handovers import ABORT_HANDOVER, EndQuery

    call_node(url, ABORT_HANDOVER, query=EndQuery(force=force), id=id)
    out.print("The handover is ended. The group stays with its owner.")


def _wanted(token_from: str | None, members: dict[str, Any]) -> NewHandover:
    from catalog.operations.handovers import NewHandover

    if token_from:
        members["credential"] = {"token": secret_from(token_from)}
    return wanted(NewHandover, **members)


async def _follow(client: Client, id: str) -> HandoverAnswer:
    """Print what a handover waits for, until the handover ends."""
    from catalog.operations.handovers import GET_HANDOVER

    told = ""
    while True:
        # The handover runs in the nodes; an interrupt of the command leaves it alone.
        found = await client.call(GET_HANDOVER, id=id)
        if found.isover:
            return found
        if found.error and found.error != told:
            told = found.error
            err.print(f"[yellow]It waits:[/] {cell(told)} [dim]It goes on by itself.[/]")
        await asyncio.sleep(_LOOK_SECONDS)
