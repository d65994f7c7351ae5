"""Locks the entities that an interaction touches, and reads them under the locks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from asyncpg.exceptions import LockNotAvailableError, PostgresError

from catalog.model.concorderrors import CatalogRecovering, HandoverUnderWay
from catalog.model.entity import Entity
from catalog.model.record import record
from catalog.store.database import Connection
from catalog.store.entities import entities_from
from catalog.store.queries import Queries

_queries = Queries("locks")

Gate = Literal["open", "model", "closed"]
"""The writes that a node admits: all writes, changes of the model only, or no client writes."""
Refusal = Gate | Literal["reserved"]
"""A position of the gate at which a write is refused, or a group that a handover has reserved."""
_RESERVED = "CC004"
# Entities that changed while a write was planned are read again, up to this number.
_MOST_CHANGED = 1000


class MustBeginAgain(Exception):
    """Touched entities changed while an interaction waited for locks, or the wait was too long."""


class ConfigurationChanged(Exception):
    """The configuration in force is not the configuration that the interaction was read with."""


_REASONS: Mapping[str, type[Exception]] = {
    "CC001": MustBeginAgain,
    LockNotAvailableError.sqlstate: MustBeginAgain,
    "CC002": ConfigurationChanged,
    "CC003": CatalogRecovering,
}


@record
class Touched:
    """The entities that an interaction is about to write, to be locked and loaded.

    `groups` and `resources` are xids. The exclusive flags name the entities that are known to gain
    or lose children; the database itself finds the missing ones. `revision` is the revision of the
    configuration that the interaction was read with; `None` fits any revision. While the node's
    gate is in a position among `refused_at`, every write is refused; `reserved` also refuses writes
    in groups that another authority is handing over to this node.
    """

    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    registry_exclusive: bool = False
    groups_exclusive: bool = False
    catalog_exclusive: bool = False
    revision: int | None = None
    refused_at: frozenset[Refusal] = frozenset()

    def __or__(self, other: Touched) -> Touched:
        """The entities of both, which have the same revision."""
        return Touched(
            groups=self.groups | other.groups,
            resources=self.resources | other.resources,
            registry_exclusive=self.registry_exclusive or other.registry_exclusive,
            groups_exclusive=self.groups_exclusive or other.groups_exclusive,
            catalog_exclusive=self.catalog_exclusive or other.catalog_exclusive,
            revision=self.revision,
        )

    def suffice_for(self, other: Touched) -> bool:
        """Whether the locks of `self` protect everything that `other` touches."""
        if self.catalog_exclusive:
            return True
        by_resource = other.resources <= self.resources and not other.groups_exclusive
        return (
            other.groups <= self.groups
            and (self.groups_exclusive or by_resource)
            and (self.registry_exclusive or not other.registry_exclusive)
        )


@record
class Locked:
    """The touched entities, in their state under the locks.

    If `is_referred` is false, no cross reference refers to a touched resource. If `has_lived` is
    false, neither a touched entity nor a version of a touched entity left a tombstone.
    `signing_key` is the number of the key that signs writes; `None` if writes are not signed.
    """

    entities: dict[str, Entity]
    is_referred: bool
    has_lived: bool
    signing_key: int | None


async def lock_and_load(
    connection: Connection, touched: Touched, *, patience_seconds: float = 0
) -> Locked:
    """Lock, then load the registry, the groups, the resources and all versions of the resources.

    `patience_seconds` is the longest wait for a lock in the transaction; 0 sets no limit.

    Raises:
        MustBeginAgain: roll back, and come again with exclusive locks on everything.
        ConfigurationChanged: roll back, and read the configuration again.
        CatalogRecovering: roll back, since the gate is closed to the caller.
        HandoverUnderWay: roll back, since one of the groups is reserved.
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
            list(touched.refused_at),
        )
    except PostgresError as error:
        if getattr(error, "sqlstate", None) == _RESERVED:
            group, authority = (getattr(error, "detail", None) or " ").split(" ", 1)
            raise HandoverUnderWay(group=group, authority=authority) from error
        reason = _REASONS.get(getattr(error, "sqlstate", None) or "")
        if reason is None:
            raise
        raise reason from error
    return Locked(
        entities={entity.xid: entity for entity in await entities_from(rows)},
        is_referred=not rows or rows[0]["is_referred"],
        has_lived=not rows or rows[0]["has_lived"],
        signing_key=rows[0]["signing_key"] if rows else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAt:
    """The moment of the plan of a write, by the transactions whose writes are visible.

    `oldest` is the id of the first transaction that may be invisible. `signing_key` is as in
    `Locked`.
    """

    seen: str
    oldest: int
    signing_key: int | None


async def read_planned_at(connection: Connection, touched: Touched) -> PlannedAt:
    """Read the snapshot of the connection's transaction, if `touched` may be written in it.

    Raises:
        ConfigurationChanged, CatalogRecovering, HandoverUnderWay: as `lock_and_load`.
    """
    row = await connection.fetchrow(_queries.read_state, list(touched.groups))
    if row["gate"] in touched.refused_at:
        raise CatalogRecovering
    if "reserved" in touched.refused_at and row["reserved"] is not None:
        raise HandoverUnderWay(group=row["reserved"], authority=row["authority"])
    if touched.revision is not None and touched.revision != row["revision"]:
        raise ConfigurationChanged
    return PlannedAt(seen=row["snapshot"], oldest=row["oldest"], signing_key=row["signingkey"])


async def load_touched(connection: Connection, touched: Touched) -> dict[str, Entity]:
    """Read the registry, the groups, and the resources with all versions, without locks."""
    rows = await connection.fetch(
        _queries.load_touched, list(touched.groups), list(touched.resources)
    )
    return {entity.xid: entity for entity in await entities_from(rows)}


async def lock_planned(
    connection: Connection,
    touched: Touched,
    snapshot: PlannedAt,
    *,
    read: Iterable[str],
    read_whole: Iterable[str],
    absent: frozenset[str],
) -> dict[str, Entity | None]:
    """Lock groups for a write that was planned at a snapshot.

    Args:
        touched: the groups to lock, each exclusive.
        read: the xids of every group and resource that the plan depends on.
        read_whole: the xids of the groups whose whole contents the plan depends on.
        absent: groups that did not exist. Absent groups need no locks, since no other writer
            creates a group while the registry is locked.

    Returns:
        the current state of the entities that changed since, by xid: resources with all their
            versions. `None` stands for a deleted entity.

    Raises:
        MustBeginAgain: too many entities have changed, or another key signs.
        ConfigurationChanged, CatalogRecovering, HandoverUnderWay: as `lock_and_load`.
    """
    await connection.execute(
        _queries.lock_groups,
        list(touched.groups - absent),
        touched.registry_exclusive or bool(absent),
        touched.catalog_exclusive,
    )
    # The gate, the configuration and the reservations may have changed before the locks were held.
    held = await read_planned_at(connection, touched)
    rows = await connection.fetch(
        _queries.find_changed,
        snapshot.oldest,
        snapshot.seen,
        list(read),
        list(read_whole),
        _MOST_CHANGED,
    )
    changed = [row["path"] for row in rows if row["path"] is not None]
    is_lost = any(row["is_lost"] for row in rows)
    if is_lost or held.signing_key != snapshot.signing_key or len(changed) == _MOST_CHANGED:
        raise MustBeginAgain
    if not changed:
        return {}
    found = replace(touched, groups=frozenset(), resources=frozenset(changed))
    current = await load_touched(connection, found)
    # `load_touched` always reads the registry, which counts only if it has changed.
    return {xid: current.get(xid) for xid in {*changed, *(current.keys() - {"/"})}}


async def is_awaited(connection: Connection) -> bool:
    """Whether a second transaction waits for a lock of the connection's transaction."""
    return bool(await connection.fetchval(_queries.is_awaited))
