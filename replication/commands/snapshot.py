"""The command `snapshot`: writes what a comparison needs of a catalog to Parquet files."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from catalog import install_command
from catalog.commands.console import AsJson, CommandError, cell, err, fail, print_answer, run
from catalog.commands.nodedatabase import DatabaseUrl, DataDir, dsn_of, read_settings
from catalog.commands.optionsets import with_options
from catalog.commands.secretsources import TokensOf, catalog_tokens
from catalog.model.masking import counted

if TYPE_CHECKING:
    from replication.reconcile.inputs.input import Input

_NAME = "catalog"

app = typer.Typer()


@app.command()
@with_options(tokens_of=catalog_tokens)
def snapshot(
    to: Annotated[
        str,
        typer.Option(
            help="The directory to write, new or empty: a path, or s3://bucket/path.",
            metavar="DIRECTORY",
        ),
    ],
    of: Annotated[
        str | None,
        typer.Option(
            help="What to write: the URL of a node or of its database. Else the database of the "
            "node on this machine.",
            metavar="ADDRESS",
        ),
    ] = None,
    *,
    tokens_of: TokensOf,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Compute every digest from the content, which takes far longer."
        ),
    ] = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Write the digests of a catalog to Parquet files, for `concord reconcile`.

    A snapshot has a row for each entity and tombstone, with epoch, digest and signature, without
    the content. All rows show the catalog at one moment. A snapshot can be compared later without
    the node: `concord reconcile --catalog eu=s3://snapshots/eu --catalog us=https://us.example.com`.

    The files are a manifest, parts of up to 200,000 rows, and at the end `_SUCCESS`.

    Example: concord snapshot --to /snapshots/eu
    Example: concord snapshot --of https://eu.example.com --to s3://snapshots/eu
    """
    if find_spec("pyarrow") is None:
        fail("pyarrow is not installed.", f"Install it with: {install_command('spark')}")
    from replication.reconcile.errors import ReconcileError
    from replication.reconcile.inputs.input import parse_inputs
    from replication.reconcile.inputs.snapshotinput import write_snapshot

    def write(given: Input) -> int:
        with TemporaryDirectory(prefix="concord-snapshot-") as work:
            try:
                return write_snapshot(
                    given,
                    to,
                    verify=verify,
                    work=Path(work),
                    progress=lambda line: err.print(f"[dim]{cell(line)}[/]"),
                )
            except ReconcileError as error:
                raise CommandError(error.message, error.hint) from None

    if of is not None:
        named = f"{_NAME}={of}"
        known = tokens_of([named])
        try:
            [given] = parse_inputs([named], known)
        except ReconcileError as error:
            fail(error.message, error.hint)
        rows = run(lambda: asyncio.to_thread(write, given))
    else:
        settings = read_settings({"data_dir": data_dir, "database_url": database_url})

        async def write_own() -> int:
            from replication.reconcile.inputs.databaseinput import DatabaseInput

            async with dsn_of(settings) as dsn:
                return await asyncio.to_thread(write, DatabaseInput(name=_NAME, dsn=dsn))

        rows = run(write_own)
    print_answer(
        {"rows": rows, "directory": to},
        f"Wrote {counted(rows, 'rows')} to {cell(to)}.",
        as_json=as_json,
    )
