"""Finds message definitions by the type of their CloudEvents."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from catalog.store.connections import Connection
from catalog.store.queries import Queries

_queries = Queries("messagetypes")


async def find_by_type(connection: Connection, type: str, most: int) -> list[str]:
    """The xids of default versions of messages whose type has a value, without regard to case."""
    return await _find(connection, {"value": type}, most)


async def find_with_template(connection: Connection, most: int) -> list[str]:
    """The xids of default versions of messages whose type is a URI template."""
    return await _find(connection, {"type": "uritemplate"}, most)


async def _find(connection: Connection, type: Mapping[str, str], most: int) -> list[str]:
    # Some definitions have the attributes of the event in an object of their own.
    forms = ({"type": type}, {"attributes": {"type": type}})
    texts = [orjson.dumps({"envelopemetadata": form}).decode().lower() for form in forms]
    rows = await connection.fetch(_queries.find, *texts, most)
    return [row["xid"] for row in rows]
