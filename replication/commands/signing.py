"""The commands `signing on`, `off`, `rotate` and `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    cell,
    json_of,
    on_node,
    out,
    print_json,
    table,
)

if TYPE_CHECKING:
    from catalog.operations.signing import Signing

app = typer.Typer(
    no_args_is_help=True,
    help=("Sign what a node publishes: whoever trusts its key notices what relays have changed."),
)


@app.command()
def on(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Sign every new write of the node, then the existing entities.

    The first call makes a key. The secret of the key is encrypted in the node's database.

    Example: concord signing on
    """
    state = on_node(url, lambda client: client.set_signing(on=True))
    _tell(state, "The node signs", as_json=as_json)


@app.command()
def off(url: Url = DEFAULT_URL) -> None:
    """Stop signing. Nodes that trust the keys of this node refuse its new copies from now on.

    Example: concord signing off
    """
    on_node(url, lambda client: client.set_signing(on=False))
    out.print("The node signs nothing more. What it has signed stays valid.")


@app.command()
def rotate(
    revoke: Annotated[
        bool,
        typer.Option(
            "--revoke", help="The old key may be known to others: nothing that it signed is valid."
        ),
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Sign with a new key. The old key signs the new key, so catalogs with the old key trust both.

    The secret of the old key is destroyed. Signatures of the old key stay valid, unless the key is
    revoked: then every entity is signed anew.

    Example: concord signing rotate
    """
    state = on_node(url, lambda client: client.rotate_signing(revoke=revoke))
    _tell(state, "A new key signs", as_json=as_json)


@app.command()
def show(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show whether a node signs, and its present and former keys.

    Example: concord signing show
    """
    state = on_node(url, lambda client: client.signing())
    if as_json:
        print_json(state)
        return
    columns = ("id", "key", "createdat", "retiredat", "revokedat")
    shown = table(*columns)
    for key in map(json_of, state.keys):
        shown.add_row(*(cell(key.get(name)) for name in columns))
    if state.keys:
        out.print(shown)
    if not state.on:
        out.print("The node signs nothing; `concord signing on` begins with it.")
    elif not state.complete:
        out.print("What was there before is being signed.")


def _tell(state: Signing, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(state)
        return
    out.print(f"{what} as {cell(state.authority)} with the key [bold]{cell(state.key)}[/].")
    out.print(cell(f"Others trust it by: concord trust add {state.authority} {state.key}"))
