"""What a fresh node begins with: its registry entity."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from catalog.model.entity import Entity
from catalog.store import entities as store
from catalog.store.database import Database
from catalog.store.entities import Touched, Write


async def ensure_registry(database: Database, registry_id: str) -> None:
    """Create the registry entity if this database has none yet.

    Args:
        registry_id: the `registryid` of a fresh node; one that exists keeps its own.
    """
    now = datetime.now(UTC)
    async with database.transaction() as connection:
        before = await store.lock_and_load(connection, Touched(registry_exclusive=True))
        if "/" in before:
            return
        registry = Entity.sealed(
            xid="/",
            kind="registry",
            authority=database.node.authority,
            origin="/",
            epoch=1,
            attributes={"registryid": registry_id},
            createdat=now,
            modifiedat=now,
        )
        await store.write(
            connection, Write(interaction=uuid.uuid4().hex, at=now, entities=[registry])
        )
