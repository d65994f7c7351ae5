"""The commands `settings`, `migrate` and `doctor`: the state of one node."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    NO,
    AsJson,
    CommandError,
    call_node,
    cell,
    fail,
    out,
    print_json,
    run,
    table,
)
from catalog.commands.nodedatabase import DatabaseUrl, DataDir, dsn_of, read_settings
from catalog.commands.secretsources import token_for
from catalog.model.masking import counted

if TYPE_CHECKING:
    from pathlib import Path

    from catalog.monitoring.diagnosis import Check, Diagnosis
    from catalog.settings import Settings

app = typer.Typer()


RunningNode = Annotated[
    str | None,
    typer.Option("--url", help="Ask the running node at this URL, as an admin.", metavar="URL"),
]


@app.command()
def settings(as_json: AsJson = False, url: RunningNode = None) -> None:
    """List the settings that the environment gives to a node; secrets are masked.

    With --url, list the settings in force at a running node, and where each comes from.

    Example: CONCORD_PORT=8081 concord settings

    Example: concord settings --url http://127.0.0.1:8080
    """
    if url is not None:
        _show_in_force(url, as_json=as_json)
        return
    values = read_settings({}).masked()
    if as_json:
        print_json(values)
        return
    shown = table("variable", "value")
    for name, value in values.items():
        shown.add_row(f"CONCORD_{name.upper()}", cell(value))
    out.print(shown)


def _show_in_force(url: str, *, as_json: bool) -> None:
    from catalog.operations.nodestate import READ_SETTINGS

    found = call_node(url, READ_SETTINGS)
    if as_json:
        print_json(found)
        return
    shown = table("variable", "value", "from")
    for each in found.settings:
        shown.add_row(each.name, cell(each.value), each.source)
    out.print(shown)


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


_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


def with_checks(more: Callable[[], Sequence[Check]]) -> typer.Typer:
    """The command `doctor`, extended with further checks."""
    app = typer.Typer()

    @app.command(epilog="Exit codes: 0 nothing is wrong, though there may be warnings; 1 errors.")
    def doctor(
        data_dir: DataDir = None,
        database_url: DatabaseUrl = None,
        as_json: AsJson = False,
        url: RunningNode = None,
        outside: Annotated[
            bool,
            typer.Option(
                "--outside",
                help="With --url: have the node connect to its public URL, the peers of its links "
                "and the sinks, too.",
            ),
        ] = False,
    ) -> None:
        """Check a node for common problems, and advise how to solve them.

        Run the command on the node's machine, as the node's user, while the node runs or not.
        Settings missing from the environment are the settings of the node's last start, which are
        recorded in the data directory, except secrets. The checks cover the database (reachable,
        version, durability, connections, age of transaction ids, schema, clock, transactions that
        hold readers back, cursors about to be left behind), the data directory, the keys and
        certificates, unsafe settings, the public URL, the peers of links, the sinks of
        subscriptions, and the ages of the last backup and comparison. The command changes nothing,
        and sends no event. With --url, the running node checks itself.

        Example: concord doctor --data-dir ./hub

        Example: concord doctor --url http://127.0.0.1:8080 --outside
        """
        if url is not None:
            found = _ask(url, outside=outside)
        else:
            settings = _settings(data_dir, database_url)
            found = run(lambda: _examine(settings, more()))
        if as_json:
            print_json([asdict(each) for each in found])
        else:
            _show(found)
        if any(each.level == "error" for each in found):
            raise typer.Exit(NO)

    return app


def _ask(url: str, *, outside: bool) -> list[Diagnosis]:
    from catalog.monitoring.diagnosis import Diagnosis
    from catalog.operations.nodestate import EXAMINE_NODE, ExaminationQuery

    found = call_node(url, EXAMINE_NODE, query=ExaminationQuery(outside=outside))
    return [Diagnosis(**each.model_dump()) for each in found.checks]


def _settings(data_dir: Path | None, database_url: str | None) -> Settings:
    """The settings of the command line, else of the environment, else of the node's last start."""
    from catalog.settings.settingsfile import recorded_settings

    given = {"data_dir": data_dir, "database_url": database_url}
    settings = read_settings(given)
    recorded, secrets = recorded_settings(settings.data_dir)
    if "database_url" in secrets and settings.database_url is None:
        fail(
            f"The node of {settings.data_dir} has its catalog in another PostgreSQL.",
            "Name it with --database-url or CONCORD_DATABASE_URL, as for the node.",
        )
    missing = {n: v for n, v in recorded.items() if not os.environ.get(f"CONCORD_{n.upper()}")}
    return read_settings({**missing, "data_dir": settings.data_dir, "database_url": database_url})


async def _examine(settings: Settings, more: Sequence[Check]) -> list[Diagnosis]:
    from catalog.monitoring.diagnosis import CheckedNode, examine
    from catalog.monitoring.nodechecks import DATABASE_CHECKS, MACHINE_CHECKS, SINK_CHECKS

    checks = [*DATABASE_CHECKS, *MACHINE_CHECKS, *more, *SINK_CHECKS]

    def token(url: str) -> str | None:
        return token_for(url)

    # Without a database in the data directory, `dsn_of` would create one; a check must not.
    if settings.database_url is None and not (settings.data_dir.expanduser() / "data").exists():
        return await examine(CheckedNode(settings, None, token), checks)
    async with dsn_of(settings) as dsn:
        return await examine(CheckedNode(settings, dsn, token), checks)


def _show(found: Sequence[Diagnosis]) -> None:
    shown = table("", "subject", "finding", "advice")
    for each in found:
        colour = _COLOURS[each.level]
        level = f"[{colour}]{each.level}[/]"
        shown.add_row(level, cell(each.subject), cell(each.text), cell(each.advice))
    out.print(shown)
    counts = Counter(each.level for each in found)
    out.print(
        f"{counted(counts['error'], 'errors')}, {counted(counts['warning'], 'warnings')}, "
        f"{counts['ok']} ok."
    )
