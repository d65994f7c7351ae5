"""Connections to the database of a node that is left unchanged, without migrations."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import asyncpg

from catalog.store.connections import Connection, DatabaseFailure, DatabaseUnusable
from catalog.store.servers import connect

_CONNECT_SECONDS = 10.0
_READING = {"application_name": "concord reconcile", "jit": "off"}


@contextlib.asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    """Connect to a database with any contents.

    Raises:
        DatabaseUnusable
    """
    try:
        connection = await connect(dsn, timeout=_CONNECT_SECONDS)
    except (*DatabaseFailure, ValueError) as error:
        raise DatabaseUnusable(str(error) or "it does not answer") from error
    try:
        yield connection
    except DatabaseFailure as error:
        raise DatabaseUnusable(str(error) or "it does not answer") from error
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
    try:
        connection = await asyncpg.connect(dsn, timeout=_CONNECT_SECONDS, server_settings=_READING)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                if snapshot:
                    # The statement takes no arguments, and PostgreSQL has made the name.
                    await connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
                yield connection
        finally:
            await connection.close(timeout=_CONNECT_SECONDS)
    except (*DatabaseFailure, ValueError) as error:
        raise DatabaseUnusable(" ".join(str(error).split()) or "it does not answer") from error


async def export_snapshot(connection: Connection) -> str:
    """The name of the snapshot of a transaction, for as long as the transaction lasts."""
    name: str = await connection.fetchval("SELECT pg_export_snapshot()")
    return name
