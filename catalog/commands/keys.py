"""The commands `encryption key`, `list` and `rotate`."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import typer

from catalog.commands.console import (
    NO,
    AsJson,
    CommandError,
    cell,
    err,
    fail,
    out,
    print_json,
    run,
    table,
)
from catalog.commands.nodedatabase import (
    DatabaseUrl,
    DataDir,
    in_database,
    operator_of,
    settings_of,
)
from catalog.model.masking import counted

if TYPE_CHECKING:
    from catalog.config import Settings
    from catalog.store.database import Connection
    from catalog.store.keyrotation import Rotation

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Encryption keys: they encrypt the secrets in a node's database, such as the credentials "
        "of sinks. A node makes one at its first start, in the file `encryption.key` of its data "
        "directory; CONCORD_ENCRYPTION_KEY takes the place of the file."
    ),
)


@app.command()
def key() -> None:
    """Print a new key for CONCORD_ENCRYPTION_KEY. Nothing else knows it: keep it.

    Example: export CONCORD_ENCRYPTION_KEY=$(concord encryption key)
    """
    from catalog.keys.keyring import EncryptionKey

    # Neither folded to the width of a terminal nor coloured.
    sys.stdout.write(EncryptionKey.new().text + "\n")


@app.command("list")
def list_(
    data_dir: DataDir = None, database_url: DatabaseUrl = None, as_json: AsJson = False
) -> None:
    """List the keys of a node by their ids, and how many secrets each of them encrypts.

    The ids are no secrets; the keys are not shown. Secrets whose key the node does not have
    cannot be used until it has the key again, or they are stored again.

    Example: concord encryption list --data-dir ./second
    """
    from catalog.store.keyrotation import count_secrets

    settings = settings_of(data_dir, database_url)
    keys = _keys_of(settings)
    counts = run(lambda: in_database(settings, count_secrets))
    rows = _rows(keys, counts)
    if as_json:
        print_json(rows)
        return
    shown = table("key", "use", "secrets")
    for row in rows:
        shown.add_row(*map(cell, row.values()))
    out.print(shown)


@app.command()
def rotate(
    data_dir: DataDir = None, database_url: DatabaseUrl = None, as_json: AsJson = False
) -> None:
    """Encrypt all secrets of a node anew, while it runs or not.

    With a key file, this makes a new key, encrypts everything under it, and drops the old one.
    Run it as the node's user on the node's machine. What is interrupted goes on when it is run
    again.

    With CONCORD_ENCRYPTION_KEY, you change the keys yourself: put the new one behind the old one
    (`old,new`) and restart every process of the node, so that each can decrypt with both; then put
    it first (`new,old`), restart them again, and run this command with the same setting. When it
    says that all is done, leave the old key out. Keep it for backups that were made before.

    Example: concord encryption rotate --data-dir ./second

    Exit codes: 0 all done; 1 some secrets cannot be decrypted, and stay; 2 it could not work.
    """
    settings = settings_of(data_dir, database_url)
    rotation = run(lambda: _rotate(settings))
    current = _keys_of(settings)[0]
    if as_json:
        print_json(
            {
                "key": current,
                "encrypted": rotation.encrypted,
                "unreadable": rotation.unreadable,
            }
        )
    else:
        out.print(
            f"Encrypted {counted(rotation.encrypted, 'secrets')} anew, under the key {current}."
        )
        if not rotation.unreadable and settings.encryption_keys:
            out.print("No secret needs another key of CONCORD_ENCRYPTION_KEY any more.")
    if rotation.unreadable:
        err.print(
            f"{counted(rotation.unreadable, 'secrets')} cannot be decrypted with the keys that the "
            "node has, and stay as they are: `concord encryption list` names the keys that they "
            "need."
        )
        raise typer.Exit(NO)


async def _rotate(settings: Settings) -> Rotation:
    from catalog.config.keyfile import KeyFile, key_ring
    from catalog.keys.keyring import EncryptionKey
    from catalog.store.auditnotes import note_author
    from catalog.store.keyrotation import RotationUnderWay, encrypt_anew

    async def rotate(connection: Connection) -> Rotation:
        if settings.encryption_keys:
            return await encrypt_anew(connection, key_ring(settings))
        file = KeyFile.of(settings)
        # With more keys than one, an earlier rotation was interrupted, and goes on.
        if len(keys := file.read()) == 1:
            file.replace([EncryptionKey.new(), *keys])
        rotation = await encrypt_anew(connection, key_ring(settings))
        file.replace(file.read()[:1])
        return rotation

    async def rotate_and_note(connection: Connection) -> Rotation:
        rotation = await rotate(connection)
        # The keys were exchanged whether or not there were secrets to encrypt.
        await note_author(connection, operator_of("concord encryption rotate"), has_written=True)
        return rotation

    try:
        return await in_database(settings, rotate_and_note)
    except RotationUnderWay:
        raise CommandError("Another process rotates the keys of this node now.") from None


def _keys_of(settings: Settings) -> list[str]:
    """The ids of the keys of a node."""
    from catalog.config.keyfile import KeyFile, KeysUnusable

    try:
        return [key.id for key in settings.encryption_keys or KeyFile.of(settings).read()]
    except KeysUnusable as error:
        fail(str(error))


def _rows(keys: list[str], counts: Counter[str]) -> list[dict[str, str | int]]:
    uses = {id: "in use" if place == 0 else "decrypts only" for place, id in enumerate(keys)}
    uses |= {id: "missing" if id else "damaged" for id in counts if id not in uses}
    return [{"key": id, "use": use, "secrets": counts[id]} for id, use in uses.items()]
