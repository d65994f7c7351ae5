"""Access to the database of a node, for commands on the node's machine."""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from catalog.commands.console import CommandError, fail
from catalog.commands.nodesettings import read_settings

if TYPE_CHECKING:
    from catalog.model.caller import Author
    from catalog.settings import Settings
    from catalog.store.database import Connection

T = TypeVar("T")
BY_COMMAND = "a command on the machine of the node"
"""The author of a change that a command makes directly in the database."""

DataDir = Annotated[
    Path | None,
    typer.Option(help="The data directory of the node; CONCORD_DATA_DIR names it, too."),
]
DatabaseUrl = Annotated[
    str | None, typer.Option(help="The node's PostgreSQL; CONCORD_DATABASE_URL names it, too.")
]


def _asked(context: typer.Context, url: str | None) -> str | None:
    """The URL of the node to ask; none if a database is named, and only the environment has a URL.

    Raises:
        typer.BadParameter: the command line names both.
    """
    named = [name for name in ("data_dir", "database_url") if context.params.get(name)]
    if url is None or not named:
        return url
    source = context.get_parameter_source("url")
    if source is not None and source.name == "ENVIRONMENT":
        return None
    option = f"--{named[0].replace('_', '-')}"
    raise typer.BadParameter(f"it asks a node, and {option} uses a database: give one of them")


NodeUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="CONCORD_URL",
        help="Ask the node at this URL, instead of using its database.",
        metavar="URL",
        callback=_asked,
    ),
]


def settings_of(data_dir: Path | None, database_url: str | None) -> Settings:
    """The settings of a node; the command ends if the node has never been started."""
    from catalog.settings.keyfile import KeyFile

    settings = read_settings({"data_dir": data_dir, "database_url": database_url})
    file = KeyFile.of(settings).path
    if not settings.encryption_keys and not file.exists():
        fail(
            f"There is no key at {file}.",
            "Name the data directory of the node with --data-dir, or set CONCORD_ENCRYPTION_KEY. "
            "A node makes the key when it is started first.",
        )
    return settings


async def in_database(settings: Settings, call: Callable[[Connection], Awaitable[T]]) -> T:
    """Call a function with a connection to the database of a node, whether the node runs or not."""
    from catalog.node.noderuntime import open_database
    from catalog.settings.keyfile import KeysUnusable
    from catalog.store.connections import DatabaseUnusable, EmbeddedPostgresError

    try:
        async with (
            open_database(settings) as database,
            database.acquire() as connection,
        ):
            return await call(connection)
    except (EmbeddedPostgresError, KeysUnusable) as error:
        raise CommandError(str(error)) from None
    except DatabaseUnusable as error:
        message = f"The database cannot be used: {error}."
        raise CommandError(message, "Check CONCORD_DATABASE_URL.") from None


async def in_audited_transaction(
    settings: Settings, command: str, call: Callable[[Connection, Author], Awaitable[T]]
) -> T:
    """Call a function in one transaction with the audit entry that names the operator.

    Args:
        command: the command that the operator runs, such as `concord token add`.
        call: the function, which names the changed entities as targets of the operator.
    """
    from catalog.store.auditnotes import note_author

    async def transact(connection: Connection) -> T:
        operator = operator_of(command)
        async with connection.transaction():
            result = await call(connection, operator)
            await note_author(connection, operator)
        return result

    return await in_database(settings, transact)


def operator_of(command: str) -> Author:
    """The author of a command's writes on the node's machine: the account that runs the command."""
    from catalog.model.caller import Author

    return Author(kind="operator", name=_account(), path=command)


def _account() -> str:
    """The name of the operator's account, or its number."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


@asynccontextmanager
async def dsn_of(settings: Settings) -> AsyncIterator[str]:
    """The URL of a node's database, without migration; an embedded server runs in the context."""
    from catalog.store.connections import EmbeddedPostgresError
    from catalog.store.embedded import start_embedded

    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    try:
        embedded = await start_embedded(settings.data_dir)
    except EmbeddedPostgresError as error:
        raise CommandError(str(error)) from None
    try:
        yield embedded.dsn
    finally:
        await embedded.stop()
