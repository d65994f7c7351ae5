"""Locks what an interaction touches, and reads it while nobody else can change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from asyncpg.exceptions import LockNotAvailableError, PostgresError

from catalog.model.entity import Entity
from catalog.store.database import Connection
from catalog.store.entities import entity_from
from catalog.store.queries import Queries

_queries = Queries("locks")


class MustBeginAgain(Exception):
    """What an interaction touches changed while it waited for its locks, or it waited too long."""


class ConfigurationChanged(Exception):
    """The configuration is another one than the interaction was read with."""


_REASONS: Mapping[str, type[Exception]] = {
    "CC001": MustBeginAgain,
    LockNotAvailableError.sqlstate: MustBeginAgain,
    "CC002": ConfigurationChanged,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What an interaction is about to write, so that it can be locked and loaded.

    `groups` and `resources` are xids. The exclusive flags say what is known beforehand to
    gain or lose children; what is missing is found out by the database itself. `revision`
    is the configuration's that all of this was made with; `None` fits any.
    """

    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    registry_exclusive: bool = False
    groups_exclusive: bool = False
    catalog_exclusive: bool = False
    revision: int | None = None

    def __or__(self, other: Touched) -> Touched:
        """Both, of the same revision."""
        return Touched(
            groups=self.groups | other.groups,
            resources=self.resources | other.resources,
            registry_exclusive=self.registry_exclusive or other.registry_exclusive,
            groups_exclusive=self.groups_exclusive or other.groups_exclusive,
            catalog_exclusive=self.catalog_exclusive or other.catalog_exclusive,
            revision=self.revision,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """What is touched, as it is while the locks are held.

    Nothing else needs to be looked for where `is_referred` is false: no cross reference
    refers to a touched resource; or where `has_lived` is false: nothing touched, and no
    version of a touched resource, left a tombstone.
    """

    entities: dict[str, Entity]
    is_referred: bool
    has_lived: bool


async def lock_and_load(
    connection: Connection, touched: Touched, *, patience_seconds: float = 0
) -> Locked:
    """Lock what is touched, then load it: the registry, the groups, the resources, and
    every version of these resources.

    Args:
        patience_seconds: how long to wait for a lock, then and for the rest of the
            transaction; 0 is for ever.

    Raises:
        MustBeginAgain: roll back, and come again with everything exclusive.
        ConfigurationChanged: roll back, and read the configuration anew.
    """
    try:
        rows = await connection.fetch(
            _queries.lock_and_load,
            list(touched.groups),
            list(touched.resources),
            touched.registry_exclusive,
            touched.groups_exclusive,
            touched.catalog_exclusive,
            touched.revision,
            f"{patience_seconds:.3f}s",
        )
    except PostgresError as error:
        reason = _REASONS.get(getattr(error, "sqlstate", None) or "")
        if reason is None:
            raise
        raise reason from error
    return Locked(
        entities={row["xid"]: entity_from(row) for row in rows},
        is_referred=not rows or rows[0]["is_referred"],
        has_lived=not rows or rows[0]["has_lived"],
    )
