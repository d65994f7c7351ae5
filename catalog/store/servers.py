"""Connects to the server that takes writes, of several PostgreSQL servers."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import asyncpg
from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError

from catalog.store.connections import PRIMARY, Connection, cut

_FAILURES = (OSError, PostgresError, InterfaceError, InternalClientError)


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
                if not isinstance(error, _FAILURES):
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
    """The URL of each server that a PostgreSQL URL names."""
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
