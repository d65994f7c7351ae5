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
    err,
    fail,
    out,
    print_json,
    print_rows,
    run,
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
    from catalog.settings import Settings
    from catalog.store.database import Connection
    from catalog.store.secrets import Rotation

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
    """Print a new key for CONCORD_ENCRYPTION_KEY. The key is not stored: keep a copy.

    Example: export CONCORD_ENCRYPTION_KEY=$(concord encryption key)
    """
    from catalog.keys.keyring import EncryptionKey

    # The console would fold the key to the width of the terminal, and colour it.
    sys.stdout.write(EncryptionKey.new().text + "\n")


@app.command("list")
def list_(
    data_dir: DataDir = None, database_url: DatabaseUrl = None, as_json: AsJson = False
) -> None:
    """List the ids of a node's keys, with the number of secrets that each key encrypts.

    The ids are not secret; the keys are not shown. A secret with a missing key cannot be used
    until the node has the key again, or the secret is stored again.

    Example: concord encryption list --data-dir ./second
    """
    from catalog.store.secrets import count_secrets

    settings = settings_of(data_dir, database_url)
    keys = _keys_of(settings)
    counts = run(lambda: in_database(settings, count_secrets))
    rows = _rows(keys, counts)
    print_rows(
        rows, ("key", "use", "secrets"), lambda row: row.values(), nothing="", as_json=as_json
    )


@app.command()
def rotate(
    data_dir: DataDir = None, database_url: DatabaseUrl = None, as_json: AsJson = False
) -> None:
    """Encrypt the secrets of a node anew, while the node runs or not.

    With a key file, the command makes a new key, encrypts every secret under the new key, and
    drops the old key. Run the command as the node's user on the node's machine. An interrupted
    rotation resumes when the command is run again.

    With CONCORD_ENCRYPTION_KEY, you change the keys yourself: put the new key behind the old key
    (`old,new`) and restart every process of the node, so that each process can decrypt with both
    keys; then put the new key first (`new,old`), restart the processes again, and run the command
    with the same setting. When no secret needs the old key any more, remove the old key from the
    setting, and keep a copy for older backups.

    Example: concord encryption rotate --data-dir ./second

    Exit codes: 0 all done; 1 secrets that cannot be decrypted remain; 2 the command could not do
    its work.
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
    from catalog.keys.keyring import EncryptionKey
    from catalog.settings.keyfile import KeyFile, key_ring
    from catalog.store.auditnotes import note_author
    from catalog.store.secrets import RotationUnderWay, encrypt_anew

    async def rotate(connection: Connection) -> Rotation:
        if settings.encryption_keys:
            return await encrypt_anew(connection, key_ring(settings))
        file = KeyFile.of(settings)
        # An interrupted rotation leaves two keys, and resumes with the same new key. The file has
        # the new key before a secret needs it, and the old key until no secret needs it.
        if len(keys := file.read()) == 1:
            file.replace([EncryptionKey.new(), *keys])
        rotation = await encrypt_anew(connection, key_ring(settings))
        file.replace(file.read()[:1])
        return rotation

    async def rotate_and_note(connection: Connection) -> Rotation:
        rotation = await rotate(connection)
        # The audit records the new key even if the node has no secrets.
        await note_author(connection, operator_of("concord encryption rotate"), has_written=True)
        return rotation

    try:
        return await in_database(settings, rotate_and_note)
    except RotationUnderWay:
        raise CommandError("Another process rotates the keys of this node now.") from None


def _keys_of(settings: Settings) -> list[str]:
    """The ids of the keys of a node."""
    from catalog.settings.keyfile import KeyFile, KeysUnusable

    try:
        return [key.id for key in settings.encryption_keys or KeyFile.of(settings).read()]
    except KeysUnusable as error:
        fail(str(error))


def _rows(keys: list[str], counts: Counter[str]) -> list[dict[str, str | int]]:
    uses = {id: "in use" if place == 0 else "decrypts only" for place, id in enumerate(keys)}
    uses |= {id: "missing" if id else "damaged" for id in counts if id not in uses}
    return [{"key": id, "use": use, "secrets": counts[id]} for id, use in uses.items()]
