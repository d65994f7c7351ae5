"""Reads the entities of a catalog in the order of xids, for subscribers that begin with them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catalog.model.change import Change
from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("initialentities")


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialEntity:
    """An entity as the change that would create the entity in its current state."""

    change: Change
    modifiedat: datetime


async def read_entities_after(connection: Connection, xid: str, limit: int) -> list[InitialEntity]:
    """Up to `limit` groups, resources and versions whose xids come after `xid`, in order."""
    rows = await connection.fetch(_queries.page, xid, limit)
    return [
        InitialEntity(
            modifiedat=row["modifiedat"],
            change=Change(
                xid=row["xid"],
                kind=row["kind"],
                action="created",
                authority=row["authority"],
                origin=row["origin"],
                epoch=row["epoch"],
                digest=row["digest"],
            ),
        )
        for row in rows
    ]
