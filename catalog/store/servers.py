"""Connects to PostgreSQL: to the server that takes writes, of several, or to any for reading."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import asyncpg
from asyncpg.exceptions import (
    DuplicatePreparedStatementError,
    InvalidSQLStatementNameError,
)

from catalog.store.connections import (
    PRIMARY,
    Connection,
    DatabaseFailure,
    DatabaseUnusable,
    Loan,
    cut,
)
from catalog.store.queries import Queries

_queries = Queries("database")
_SEARCH_PATH = "visible, public"
_CONNECT_SECONDS = 10.0
# A connection meets the statements of another session, or misses its own.
_SHARED_SESSION = (DuplicatePreparedStatementError, InvalidSQLStatementNameError)
_POOLER = (
    "a pooler answers there that keeps no sessions, and a node needs them for its locks, "
    "notifications and settings. Let CONCORD_DATABASE_URL name PostgreSQL itself: the node has "
    "pools of its own"
)
_READING = {"application_name": "concord reconcile", "jit": "off"}


async def connect(dsn: str, **options: Any) -> Connection:
    """Connect to the server that takes writes, of the servers in a URL.

    All servers are asked at once, so a hanging or starting server delays no connection.

    Args:
        dsn: a PostgreSQL URL, with one host or several, as `postgresql://db1,db2:5433/concord`.
        options: the options of `asyncpg.connect`.

    Raises:
        the errors of `asyncpg.connect`; the error of the last server if no server takes writes.
    """
    asked = [
        asyncio.create_task(asyncpg.connect(server, target_session_attrs=PRIMARY, **options))
        for server in each_server(dsn)
    ]
    left, error = {*asked}, None
    try:
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                error = each.exception()
                if error is None:
                    asked.remove(each)
                    connection: Connection = each.result()
                    return connection
                if not isinstance(error, DatabaseFailure):
                    raise error
    finally:
        for each in asked:
            each.cancel()
        # Another attempt may have connected at the same time; its connection is not leaked.
        for found in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(found, asyncpg.Connection):
                cut(found)
    assert error is not None, "a URL names one server at least"
    raise error


def each_server(dsn: str) -> list[str]:
    """The URL of each server that a PostgreSQL URL names, before its path or by `host`."""
    parts = urlsplit(dsn)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," in hosts:
        return [parts._replace(netloc=f"{user}{at}{host}").geturl() for host in hosts.split(",")]
    query = parse_qsl(parts.query, keep_blank_values=True)
    named = dict(query)
    if hosts or "," not in named.get("host", ""):
        return [dsn]
    places = named["host"].split(",")
    ports = named.get("port", "5432").split(",")
    ports = ports * len(places) if len(ports) == 1 else ports
    rest = [(name, value) for name, value in query if name not in ("host", "port")]
    # Not put together from its parts, which would lose the empty host before the path.
    address = dsn.partition("?")[0]
    return [
        f"{address}?{urlencode([*rest, ('host', host), ('port', port)], quote_via=quote)}"
        for host, port in zip(places, ports, strict=False)
    ]


async def check_sessions(own: Loan, dsn: str, settings: Mapping[str, str]) -> None:
    """Check that two connections are two sessions, and that a session keeps its settings.

    A pooler that lends a server for a transaction gives the same session to several connections. A
    pooler that ignores settings would show everything to restricted clients.

    Args:
        own: lends a connection to the same database.
        settings: the settings of the connection.

    Raises:
        DatabaseUnusable: the check fails, or the server does not answer.
    """
    with _told_as_unusable():
        other = await connect(
            dsn,
            timeout=_CONNECT_SECONDS,
            command_timeout=_CONNECT_SECONDS,
            server_settings={**settings, "search_path": _SEARCH_PATH},
        )
        try:
            async with own as one:
                first = await one.fetchval(_queries.server_process)
                process = await other.fetchval(_queries.server_process)
                path = await other.fetchval(_queries.search_path)
                again = await one.fetchval(_queries.server_process)
        finally:
            other.terminate()
    if first != again or first == process or path != _SEARCH_PATH:
        raise DatabaseUnusable(_POOLER)


def why_unusable(error: BaseException) -> str:
    """The reason of a failed connection, in words for the operator."""
    text = " ".join(str(error).split())
    if isinstance(error, _SHARED_SESSION) or "startup parameter" in text:
        return _POOLER
    return text or "it does not answer"


@contextlib.contextmanager
def _told_as_unusable(*further: type[Exception]) -> Iterator[None]:
    failures: tuple[type[Exception], ...] = (*DatabaseFailure, *further)
    try:
        yield
    except failures as error:
        raise DatabaseUnusable(why_unusable(error)) from error


@contextlib.asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    """Connect to a database with any contents, which is left as it is.

    Raises:
        DatabaseUnusable
    """
    with _told_as_unusable(ValueError):
        connection = await connect(dsn, timeout=_CONNECT_SECONDS)
    try:
        with _told_as_unusable():
            yield connection
    finally:
        await connection.close(timeout=_CONNECT_SECONDS)


@contextlib.asynccontextmanager
async def reading(dsn: str, snapshot: str = "") -> AsyncIterator[Connection]:
    """A transaction that reads, on any server of a URL, standbys included.

    Args:
        snapshot: the name of a snapshot that another transaction has exported; "" for a new one.

    Raises:
        DatabaseUnusable
    """
    with _told_as_unusable(ValueError):
        connection = await asyncpg.connect(dsn, timeout=_CONNECT_SECONDS, server_settings=_READING)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                if snapshot:
                    # The statement takes no arguments, and PostgreSQL has made the name.
                    await connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
                yield connection
        finally:
            await connection.close(timeout=_CONNECT_SECONDS)


async def export_snapshot(connection: Connection) -> str:
    """The name of the snapshot of a transaction, for as long as the transaction lasts."""
    return await connection.fetchval("SELECT pg_export_snapshot()")
