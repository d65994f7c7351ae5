"""A connection to the database of a node that is left unchanged, without migrations."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from catalog.store.connections import Connection, DatabaseFailure, DatabaseUnusable
from catalog.store.servers import connect

_CONNECT_SECONDS = 10.0


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
