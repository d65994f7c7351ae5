"""The commands `subscription keys list`, `rotate` and `remove`."""

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
from catalog.commands.subscriptionlife import SubscriptionId

if TYPE_CHECKING:
    from catalog.operations.subscriptions import SigningKeyAnswer

app = typer.Typer(
    no_args_is_help=True,
    help="The keys that sign what a subscription sends.",
)

_CHECKS_WITH = {
    "ed25519": "The receiver checks signatures with this public key:",
    "hmac-sha256": "The receiver checks signatures with this secret, which is not shown again:",
}


def print_key(key: SigningKeyAnswer) -> None:
    """Print the part of a new key that a receiver needs to check signatures."""
    out.print(_CHECKS_WITH[key.signature])
    out.print(cell(key.secret or key.publickey))


@app.command("list")
def list_(id: SubscriptionId, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List the signing keys, the current key first. Secrets are not shown.

    Example: concord subscription keys list 8f2c
    """
    keys = on_node(url, lambda client: client.subscription(id)).signingkeys or []
    if as_json:
        print_json(keys)
        return
    columns = ("id", "signature", "publickey", "createdat", "endsat")
    shown = table(*columns)
    for key in map(json_of, keys):
        shown.add_row(*(cell(key.get(name)) for name in columns))
    out.print(shown if keys else "This subscription signs nothing.")


@app.command()
def rotate(
    id: SubscriptionId,
    overlap: Annotated[
        int | None,
        typer.Option(
            help="So long the old key signs beside the new one; with 0, it ends at once."
            " Without the option, a day.",
            metavar="SECONDS",
            min=0,
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Make a new key; the old key also signs until the receivers have the new key.

    Example: concord subscription keys rotate 8f2c --overlap 3600
    """
    key = on_node(url, lambda client: client.exchange_signing_key(id, overlap))
    if as_json:
        print_json(key)
        return
    out.print(f"Subscription [bold]{cell(id)}[/] signs with the new key {cell(key.id)}.")
    print_key(key)


@app.command()
def remove(
    id: SubscriptionId,
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="Its id, as `concord subscription keys list` shows it."),
    ],
    url: Url = DEFAULT_URL,
) -> None:
    """End the signing with an old key; the current key can only be rotated.

    Example: concord subscription keys remove 8f2c 6d1a
    """
    on_node(url, lambda client: client.end_signing_key(id, key))
    out.print(f"Key [bold]{cell(key)}[/] signs no more.")
