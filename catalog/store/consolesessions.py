"""Stores the sessions of the console: the digest of the session's secret, and sealed tokens."""

from __future__ import annotations

from datetime import datetime, timedelta

from catalog.store.database import Connection
from catalog.store.queries import Queries

IDLE = timedelta(hours=2)
"""The time without a request after which a session ends."""
LONGEST = timedelta(hours=12)
"""The time after the log-in at which a session ends."""
RENEWING = timedelta(seconds=15)
"""The time that a request has to renew the tokens of a session."""
MOST_SESSIONS = 10_000

_queries = Queries("consolesessions")


async def add_session(connection: Connection, digest: bytes, sealed: bytes, now: datetime) -> None:
    """Store a new session, and forget those that have ended."""
    await connection.execute(_queries.remove_ended, now - LONGEST, now - IDLE, MOST_SESSIONS - 1)
    await connection.execute(_queries.add, digest, sealed, now)


async def find_session(connection: Connection, digest: bytes, now: datetime) -> bytes | None:
    """The sealed token of a session; `None` if the session is unknown or has ended."""
    found = await connection.fetchval(_queries.find, digest, now - LONGEST, now - IDLE, now)
    return None if found is None else bytes(found)


async def is_open(connection: Connection, digest: bytes, now: datetime) -> bool:
    """Whether a session has not ended; the question does not count as a use."""
    return bool(await connection.fetchval(_queries.is_open, digest, now - LONGEST, now - IDLE))


async def begin_renewal(connection: Connection, digest: bytes, now: datetime) -> bool:
    """Whether the caller may renew the tokens of a session: false while another request does."""
    return bool(await connection.fetchval(_queries.begin_renewal, digest, now - RENEWING, now))


async def renew_session(connection: Connection, digest: bytes, sealed: bytes) -> None:
    """Store the renewed tokens of a session."""
    await connection.execute(_queries.renew, digest, sealed)


async def remove_session(connection: Connection, digest: bytes) -> None:
    await connection.execute(_queries.remove, digest)
