"""Checks that each connection is a separate session at PostgreSQL, as a node needs it."""

from __future__ import annotations

from collections.abc import Mapping

from asyncpg.exceptions import DuplicatePreparedStatementError, InvalidSQLStatementNameError

from catalog.store.connections import (
    DatabaseFailure,
    DatabaseUnusable,
    Loan,
)
from catalog.store.queries import Queries
from catalog.store.servers import connect

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
    named = {**settings, "search_path": _SEARCH_PATH}
    try:
        other = await connect(
            dsn,
            timeout=_CONNECT_SECONDS,
            command_timeout=_CONNECT_SECONDS,
            server_settings=named,
        )
        try:
            async with own as one:
                first = await one.fetchval(_queries.server_process)
                process = await other.fetchval(_queries.server_process)
                path = await other.fetchval(_queries.search_path)
                again = await one.fetchval(_queries.server_process)
        finally:
            other.terminate()
    except DatabaseFailure as error:
        raise DatabaseUnusable(why_unusable(error)) from error
    if first != again or first == process or path != _SEARCH_PATH:
        raise DatabaseUnusable(_POOLER)


def why_unusable(error: BaseException) -> str:
    """The reason of a failed connection, in words for the operator."""
    text = str(error)
    if isinstance(error, _SHARED_SESSION) or "startup parameter" in text:
        return _POOLER
    return text or "it does not answer"
