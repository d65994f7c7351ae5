"""The command `key new`."""

from __future__ import annotations

import sys

import typer

from catalog.commands.console import EXIT_CODES

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Encryption keys: they encrypt the secrets in a node's database, such as the credentials "
        "of sinks. A node makes one at its first start, in the file `encryption.key` of its data "
        f"directory; CONCORD_ENCRYPTION_KEY takes the place of the file. {EXIT_CODES}"
    ),
)


@app.callback()
def key() -> None:
    pass


@app.command()
def new() -> None:
    """Print a new key for CONCORD_ENCRYPTION_KEY. Nothing else knows it: keep it.

    Example: concord key new > key.txt
    """
    from catalog.encryption import EncryptionKey

    # Neither folded to the width of a terminal nor coloured.
    sys.stdout.write(EncryptionKey.new().text + "\n")
