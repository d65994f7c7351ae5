"""The commands `backup` and `restore`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog import DISTRIBUTION
from catalog.commands.console import AsJson, CommandError, cell, err, fail, out, print_json, run
from catalog.commands.nodedatabase import DatabaseUrl, DataDir, dsn_of, read_settings
from catalog.model.masking import counted

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from catalog.commands.backup.archive import BackupManifest
    from catalog.settings import Settings
    from catalog.store.backups import BackedUpCatalog, CatalogContents

_SAYS = "Exit codes: 0 done; 2 nothing was changed, and the command says why."

# The name of a file made by `backup --keep`.
_MADE = re.compile(r"\d{8}T\d{6}Z\.concord")

app = typer.Typer()


@app.command(epilog=_SAYS)
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write, which must not exist.")],
    keep: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="FILE is a directory of this node alone: write a file into it that is named after "
            "the time, and delete all older ones of these but the newest so many.",
            metavar="NUMBER",
        ),
    ] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Write a node's catalog to a file, while the node runs or not.

    The file is a snapshot of the database at one moment: entities and tombstones, the change log,
    links, subscriptions, the model, digests of tokens. The secrets in the file are encrypted, and
    the file has no keys: keep a copy of `encryption.key` in the data directory, or of
    CONCORD_ENCRYPTION_KEY, apart from backups. The node's metrics tell the age of the last backup.

    Example: concord backup /backups/hub-monday.concord
    Example: concord backup /backups/hub --keep 14
    """
    settings = read_settings({"data_dir": data_dir, "database_url": database_url})
    directory = file
    if keep is not None:
        file = _new_file(directory)
    if file.exists():
        fail(f"{file} exists.", "Name a file that does not.")
    manifest = run(lambda: _back_up(settings, file))
    if keep is not None:
        _delete_old(directory, keep)
    if as_json:
        print_json(_shown(manifest))
        return
    contents = manifest.catalog.contents
    out.print(
        f"{cell(file)} has the catalog of {cell(manifest.catalog.authority)} as of "
        f"{manifest.catalog.at:%Y-%m-%d %H:%M:%S} UTC: {_contents(contents)}; "
        f"{file.stat().st_size:,} bytes."
    )
    if secrets := sum(manifest.catalog.keys.values()):
        out.print(
            f"{counted(secrets, 'secrets')} in it can be decrypted with "
            f"{cell(_where_keys_are(settings))} only (keys "
            f"{cell([*manifest.catalog.keys])}), which "
            "is not in it: keep a copy in another place."
        )


@app.command(epilog=_SAYS)
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `concord backup` has written.")],
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Drop the catalog that is there, of the same authority."),
    ] = False,
    alone: Annotated[
        bool,
        typer.Option(
            "--alone",
            help="Take writes at once: no other catalog has anything of this one that is later.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a node's catalog from a file, while no process of the node runs.

    The whole file is checked first, then restored in one transaction. Only rows of known tables are
    restored; nothing in the file is executed. The file brings the tokens and rules that let people
    in, so restore only your own backups.

    The restored catalog is a new instance. Peers notice the new instance, compare digests, and go
    on. Writes that the node acknowledged after the backup may be at catalogs that follow the node:
    the node refuses writes until it has these back (`concord recover`), so that no epoch comes
    twice.

    Example: concord restore /backups/hub-monday.concord --data-dir ./hub
    """
    settings = read_settings({"data_dir": data_dir, "database_url": database_url})
    manifest = run(lambda: _restore(settings, file, replaces=replace, is_alone=alone))
    if as_json:
        print_json({**_shown(manifest), "awaitsrecovery": not alone})
        return
    contents = manifest.catalog.contents
    out.print(
        f"[green]The catalog of {cell(manifest.catalog.authority)} is as it was at "
        f"{manifest.catalog.at:%Y-%m-%d %H:%M:%S} UTC[/]: {_contents(contents)}."
    )
    for number, step in enumerate(_next_steps(settings, manifest.catalog, is_alone=alone), 1):
        out.print(f"{number}. {step}")


def _new_file(directory: Path) -> Path:
    """A file for a backup in a directory, which is created for the owner only."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{directory}: {error.strerror}.", "With --keep, name a directory.")
    return directory / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.concord"


def _delete_old(directory: Path, keep: int) -> None:
    made = sorted(path for path in directory.iterdir() if _MADE.fullmatch(path.name))
    for path in made[:-keep]:
        path.unlink()


async def _back_up(settings: Settings, file: Path) -> BackupManifest:
    from catalog.commands.backup.archive import ArchiveWriter, BackupManifest
    from catalog.store.backups import note_backup, read_catalog

    writer = ArchiveWriter(file)
    async with dsn_of(settings) as dsn:
        with _expected_errors(), writer.open() as write, _progress() as progress:
            task = progress.add_task("backing up", total=None)

            def take(table: str, rows: bytes) -> None:
                write(table, rows)
                progress.advance(task, len(rows))

            def begin(catalog: BackedUpCatalog) -> None:
                progress.update(task, description=counted(catalog.contents.entities, "entities"))

            catalog = await read_catalog(dsn, take, begin=begin)
            manifest = BackupManifest(catalog=catalog, software=f"concord/{version(DISTRIBUTION)}")
            writer.finish(manifest)
        # Only a complete file counts as a backup in the metrics.
        with _expected_errors():
            await note_backup(dsn, catalog.at)
    return manifest


async def _restore(
    settings: Settings, file: Path, *, replaces: bool, is_alone: bool
) -> BackupManifest:
    from catalog.commands.backup.archive import open_archive
    from catalog.store.backups import check_target, load_catalog
    from catalog.store.schemamigration import can_go_on_from

    with _expected_errors(), open_archive(file) as archive, _progress() as progress:
        catalog = archive.manifest.catalog
        if not can_go_on_from(catalog.migrations):
            raise CommandError(
                f"{file} is of another version of Concord, {archive.manifest.software}, whose "
                "schema this one does not know.",
                "Restore it with that version, or a later one.",
            )

        def rows_of(table: str, task: TaskID) -> Iterator[bytes]:
            for rows in archive.rows_of(table):
                yield rows
                progress.advance(task, len(rows))

        # The whole file is read for its checksums before the database is touched.
        checking = progress.add_task("checking", total=archive.size)
        for table in catalog.tables:
            for _ in rows_of(table, checking):
                pass
        async with dsn_of(settings) as dsn:
            await check_target(dsn, catalog, replaces=replaces)
            loading = progress.add_task("restoring", total=archive.size)
            await load_catalog(
                dsn,
                catalog,
                lambda table: rows_of(table, loading),
                awaits_recovery=not is_alone,
            )
        return archive.manifest


@contextlib.contextmanager
def _expected_errors() -> Iterator[None]:
    from catalog.commands.backup.archive import ArchiveUnusable
    from catalog.store.backups import DatabaseInTheWay, RowsUnusable
    from catalog.store.connections import DatabaseUnusable, EmbeddedPostgresError
    from catalog.store.schemamigration import OfAnotherVersion

    try:
        yield
    except (ArchiveUnusable, DatabaseInTheWay, RowsUnusable) as error:
        text = str(error)
        raise CommandError(f"{text[0].upper()}{text[1:]}.", "Nothing was changed.") from None
    except EmbeddedPostgresError as error:
        raise CommandError(str(error)) from None
    except OfAnotherVersion as error:
        text = str(error)
        message = f"{text[0].upper()}{text[1:]}: this one does not know all that is in it."
        raise CommandError(message, "Back it up with that version.") from None
    except DatabaseUnusable as error:
        message = f"The database cannot be used: {error}."
        raise CommandError(message, "Check CONCORD_DATABASE_URL.") from None
    except OSError as error:
        raise CommandError(f"{error.filename or 'A file'}: {error.strerror}.") from None


def _progress() -> Progress:
    """Progress bars in bytes on stderr, hidden without a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    return Progress(
        *(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def _where_keys_are(settings: Settings) -> str:
    from catalog.settings.keyfile import KeyFile

    if settings.encryption_keys:
        return "CONCORD_ENCRYPTION_KEY"
    return str(KeyFile.of(settings).path)


def _lacking_keys(settings: Settings, catalog: BackedUpCatalog) -> list[str]:
    """The keys that the secrets of a catalog need and the node lacks."""
    from catalog.settings.keyfile import KeyFile, KeysUnusable

    file, keys = KeyFile.of(settings), settings.encryption_keys
    if not keys and file.path.exists():
        with contextlib.suppress(KeysUnusable):
            keys = file.read()
    return sorted({*catalog.keys} - {key.id for key in keys} - {""})


def _next_steps(settings: Settings, catalog: BackedUpCatalog, *, is_alone: bool) -> Iterator[str]:
    if lacking := _lacking_keys(settings, catalog):
        yield (
            f"[yellow]Its secrets need the keys {cell(', '.join(lacking))}[/]: before the node "
            f"starts, put the copy of its key file at {cell(_where_keys_are(settings))}, or set "
            "CONCORD_ENCRYPTION_KEY. `concord encryption list` shows what is missing."
        )
    yield "Start the node: `concord serve`, with the public URL that it had."
    if is_alone:
        yield "It takes writes at once, as you said that no other catalog follows it."
    else:
        yield (
            "It [yellow]takes no writes yet[/]. Name the catalogs that follow it, so that it takes "
            "back what it has acknowledged since: `concord recover --from URL --from URL`. If "
            "there are none, `concord recover abort` lets clients write."
        )
    if catalog.contents.tokens:
        yield (
            "Tokens that were revoked since are [yellow]valid again[/]: `concord token list`, and "
            "`concord token remove`."
        )


def _contents(contents: CatalogContents) -> str:
    names = ("entities", "tombstones", "changes", "links", "subscriptions")
    return ", ".join(counted(getattr(contents, name), name) for name in names)


def _shown(manifest: BackupManifest) -> dict[str, Any]:
    import orjson

    from catalog.commands.backup.archive import manifest_json

    shown: dict[str, Any] = orjson.loads(manifest_json(manifest))
    return shown
