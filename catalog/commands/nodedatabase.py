"""The settings and the database of a node, for commands on the machine of the node."""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from catalog.commands.console import CommandError, call_node, cell, err, fail, list_of, run

if TYPE_CHECKING:
    from catalog.model.caller import Author
    from catalog.operations.operation import Answered, Operation, PageQuery, Taken
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


def read_settings(values: dict[str, Any]) -> Settings:
    """The settings of the environment, overridden by `values` other than `None`.

    Invalid settings end the command with a sentence about each setting.
    """
    from catalog.settings import Settings

    try:
        return Settings(**{name: value for name, value in values.items() if value is not None})
    except ValueError as error:  # pydantic's ValidationError, which lists the invalid settings
        invalid: list[dict[str, Any]] = getattr(error, "errors", list)()
        for each in invalid:
            # An error about several settings has no location; its message names the settings.
            name = "_".join(map(str, ("concord", *each["loc"]) if each["loc"] else ())).upper()
            err.print(f"[red]{name or 'Settings'}[/]: {cell(each['msg'])}")
        fail("The settings are not valid.", "docs/settings.md has a table of all of them.")


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
    from catalog.store.embeddedpostgres import start_embedded

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """Where a command works: at a running node, or in the database of a node.

    Args:
        url: the URL of the running node; without a URL, the command uses the database.
        data_dir: the data directory of the node, if it is named.
        database_url: the URL of the database, if it is named.
        command: the command as the audit names it, such as `concord token add`.
    """

    url: str | None
    data_dir: Path | None
    database_url: str | None
    command: str

    def call_or_work(
        self,
        operation: Operation[Taken, Answered],
        body: Taken | None = None,
        *,
        work: Callable[[Connection, Author], Awaitable[Answered]],
        **at: str,
    ) -> Answered:
        """Call an operation of the running node, or do the same work in the database."""
        if self.url is not None:
            return call_node(self.url, operation, body, query=None, **at)
        return self._work(work)

    def list_or_work(
        self,
        operation: Operation[Taken, Answered],
        items: Callable[[Answered], Iterable[T]],
        work: Callable[[Connection, Author], Awaitable[list[T]]],
        *,
        query: PageQuery | None = None,
    ) -> list[T]:
        """List the items of a running node, see `list_of`, or find them in the database."""
        if self.url is not None:
            return list_of(self.url, operation, items, query=query)
        return self._work(work)

    def _work(self, work: Callable[[Connection, Author], Awaitable[T]]) -> T:
        """Work in one transaction; the audit entry of a write names the operator and `command`."""
        settings, operator = (
            settings_of(self.data_dir, self.database_url),
            operator_of(self.command),
        )

        async def transact(connection: Connection) -> T:
            from catalog.model.errors import XRegistryError
            from catalog.store.auditnotes import note_author

            try:
                # The audit entry and the change are there together, or neither of them.
                async with connection.transaction():
                    result = await work(connection, operator)
                    await note_author(connection, operator)
            except XRegistryError as error:
                raise CommandError(error.title, error.detail) from error
            return result

        return run(lambda: in_database(settings, transact))


def node_place(
    context: typer.Context,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    url: NodeUrl = None,
) -> NodePlace:
    """The place that the options of a command name."""
    # The name of the root is how the process was started, such as `python -m catalog.cli`.
    names = context.command_path.removeprefix(context.find_root().command_path)
    command = f"concord{names}"
    return NodePlace(url=url, data_dir=data_dir, database_url=database_url, command=command)
