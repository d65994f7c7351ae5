"""The command `migrate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from catalog.commands.console import CommandError, cell, fail, out, run
from catalog.commands.nodedatabase import DatabaseUrl, DataDir
from catalog.commands.nodesettings import read_settings

if TYPE_CHECKING:
    from catalog.settings import Settings

app = typer.Typer()


@app.command()
def migrate(
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Bring the database of a node to the schema of this version, and end.

    A node does the same at the start. Before an upgrade of several processes, the command tells
    whether the new processes would start, while the processes of the old version still run.

    Example: concord migrate --data-dir /var/lib/concord
    """
    settings = read_settings(locals())
    if settings.database_url is None and "data_dir" not in settings.model_fields_set:
        fail(
            "No database was named.",
            "Name the data directory of the node with --data-dir, or its database with "
            "--database-url.",
        )
    if settings.database_url is None and not settings.data_dir.expanduser().is_dir():
        fail(
            f"There is no data directory at {settings.data_dir}.",
            "Name that of the node with --data-dir, or its database with --database-url.",
        )
    authority = run(lambda: _migrate(settings))
    out.print(f"The database of {cell(authority)} has the schema of this version.")


async def _migrate(settings: Settings) -> str:
    from catalog.node.noderuntime import open_database
    from catalog.reconfiguration.initialmodel import InitialModelUnusable
    from catalog.store.connections import DatabaseUnusable

    try:
        async with open_database(settings) as database:
            return database.node.authority
    except DatabaseUnusable as error:
        message = f"The database cannot be used: {error}."
        raise CommandError(message, "Check CONCORD_DATABASE_URL.") from None
    except InitialModelUnusable as error:
        raise CommandError(f"The model of a fresh node cannot be used: {error}") from None
