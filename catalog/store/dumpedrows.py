"""Loads the rows of a dump without executing statements of the dump.

pg_restore writes a dump as a script of COPY data and of values for sequences. The script may have
been crafted in every part, so this module parses the script, compares the names with the tables
from the catalog's own migrations, and passes on only values of columns.
"""

from __future__ import annotations

import re
from asyncio import StreamReader
from collections.abc import AsyncIterator
from dataclasses import dataclass

from asyncpg.exceptions import PostgresError

from catalog.store.connections import Connection
from catalog.store.queries import Queries

_queries = Queries("backups")

_CHUNK = 256 * 1024
_LONGEST_STATEMENT = 64 * 1024
_NAME = r'"?([a-z_][a-z0-9_]*)"?'
_COPY = re.compile(rf"COPY public\.{_NAME} \(([a-z0-9_\", ]+)\) FROM stdin;")
_COLUMN = re.compile(_NAME)
_SETVAL = re.compile(
    rf"SELECT pg_catalog\.setval\('public\.{_NAME}', (\d{{1,19}}), (true|false)\);"
)
# Settings of the script's own session.
_LEFT_OUT = ("--", "SET ", "SELECT pg_catalog.set_config(", "\\restrict ", "\\unrestrict ")
_MIGRATIONS = "migrations"
_END = b"\n\\.\n"


class RowsUnusable(Exception):
    """A dump has contents other than rows of a catalog; the text describes the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRelations:
    """The names of the tables and sequences that rows may be loaded into."""

    tables: frozenset[str]
    sequences: frozenset[str]


async def load_rows(connection: Connection, stream: StreamReader, known: KnownRelations) -> None:
    """Load the output of pg_restore, in the transaction of a connection.

    The rows of applied migrations are left out, since the migrations that made the tables have
    recorded themselves.

    Raises:
        RowsUnusable
    """
    script = _Script(stream)
    while (line := await script.read_line()) is not None:
        if not line or line.startswith(_LEFT_OUT):
            continue
        try:
            if copied := _COPY.fullmatch(line):
                await _copy(connection, script, copied[1], copied[2], known)
            elif placed := _SETVAL.fullmatch(line):
                await _place(connection, placed[1], int(placed[2]), placed[3] == "true", known)
            else:
                raise RowsUnusable(f"it has something else than rows: {line[:100]!r}")
        except PostgresError as error:
            raise RowsUnusable(f"its rows are not those of a catalog: {error}") from error


async def _copy(
    connection: Connection, script: _Script, table: str, columns: str, known: KnownRelations
) -> None:
    if table not in known.tables:
        raise RowsUnusable(f"it has rows of {table!r}, which no catalog has")
    names = [_COLUMN.fullmatch(column) for column in columns.split(", ")]
    if table == _MIGRATIONS:
        async for _ in script.read_data():
            pass
        return
    await connection.copy_to_table(
        table,
        schema_name="public",
        columns=[name[1] for name in names if name is not None],
        source=script.read_data(),
    )


async def _place(
    connection: Connection, sequence: str, value: int, is_called: bool, known: KnownRelations
) -> None:
    if sequence not in known.sequences:
        raise RowsUnusable(f"it has the sequence {sequence!r}, which no catalog has")
    await connection.execute(_queries.place_sequence, f"public.{sequence}", value, is_called)


class _Script:
    """A script in parts: lines of statements, and the data after a COPY."""

    def __init__(self, stream: StreamReader) -> None:
        self._stream = stream
        self._buffer = b""

    async def read_line(self) -> str | None:
        """The next line, without its end; `None` at the end of the script.

        Raises:
            RowsUnusable: the line is too long, or not UTF-8.
        """
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _LONGEST_STATEMENT:
                raise RowsUnusable("it has a statement that is too long")
            if not await self._read_on():
                return None
        line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise RowsUnusable("it has a statement that is no text") from error

    async def read_data(self) -> AsyncIterator[bytes]:
        """The lines up to the end of the data, in parts; the rest stays if the script ends."""
        # The end mark begins with a line break, and may be the first line of the data.
        self._buffer = b"\n" + self._buffer
        is_first = True
        while (end := self._buffer.find(_END)) < 0:
            # The end of the buffer may hold the first part of the end mark.
            sure = max(len(self._buffer) - len(_END), 0)
            data, self._buffer = self._buffer[:sure], self._buffer[sure:]
            if data:
                yield data[1:] if is_first else data
                is_first = False
            if not await self._read_on():
                return
        data, self._buffer = self._buffer[: end + 1], self._buffer[end + len(_END) :]
        if rest := data[1:] if is_first else data:
            yield rest

    async def _read_on(self) -> bool:
        more = await self._stream.read(_CHUNK)
        self._buffer += more
        return bool(more)
