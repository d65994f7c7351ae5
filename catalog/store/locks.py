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
"""The writes that a node admits: all, changes of the model alone, or none of clients."""
Refusal = Gate | Literal["reserved"]
"""A position of the gate at which a write is refused, or a group that is to come by a handover."""
_RESERVED = "CC004"
# What was changed while a write was planned is read again, up to so many entities.
_MOST_CHANGED = 1000


class MustBeginAgain(Exception):
    """Touched entities changed while an interaction waited for its locks, or it waited too long."""


class ConfigurationChanged(Exception):
    """The configuration in force is not the one that the interaction was read with."""


_REASONS: Mapping[str, type[Exception]] = {
    "CC001": MustBeginAgain,
    LockNotAvailableError.sqlstate: MustBeginAgain,
    "CC002": ConfigurationChanged,
    "CC003": CatalogRecovering,
}


@record
class Touched:
    """The entities that an interaction is about to write, to be locked and loaded.

    `groups` and `resources` are xids. The exclusive flags name the entities that are known to
    gain or lose children; the database finds the missing ones itself. `revision` is that of the
    configuration that the interaction was read with; `None` fits any. While the node's gate is in a
    position that is among `refused_at`, nothing may be written; with `reserved` among them, nor may
    anything in groups that another authority is handing over to this node.
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
        """Whether these locks protect everything that `other` touches."""
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
    """The touched entities as they are while the locks are held.

    Where `is_referred` is false, no cross reference refers to a touched resource. Where
    `has_lived` is false, no touched entity and no version of one left a tombstone. `signing_key` is
    the number of the key that signs what is written; `None` if nothing does.
    """

    entities: dict[str, Entity]
    is_referred: bool
    has_lived: bool
    signing_key: int | None


async def lock_and_load(
    connection: Connection, touched: Touched, *, patience_seconds: float = 0
) -> Locked:
    """Lock, then load the registry, the groups, the resources and all versions of these.

    Args:
        patience_seconds: the longest wait for a lock, here and in the rest of the
            transaction; 0 is for ever.

    Raises:
        MustBeginAgain: roll back, and come again with everything exclusive.
        ConfigurationChanged: roll back, and read the configuration anew.
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
    """The moment that a write is planned at, by the transactions whose writes are seen then.

    `oldest` is the id of the first transaction that may not be seen. `signing_key` is as in
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
    """Read the registry, the groups, the resources and all versions of these, without locks."""
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
        touched: its groups are locked exclusive.
        read: the xids of all groups and resources that the plan depends on.
        read_whole: those of groups of which it depends on everything within.
        absent: groups that were not there. They need no locks, since nobody else creates a group
            while the registry is locked.

    Returns:
        what has changed of that since, as it is, by xid: resources with all their versions. `None`
        stands for what is gone.

    Raises:
        MustBeginAgain: too much has changed, or another key signs.
        ConfigurationChanged, CatalogRecovering, HandoverUnderWay: as `lock_and_load`.
    """
    await connection.execute(
        _queries.lock_groups,
        list(touched.groups - absent),
        touched.registry_exclusive or bool(absent),
        touched.catalog_exclusive,
    )
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
    return {xid: current.get(xid) for xid in {*changed, *(current.keys() - {"/"})}}


async def is_awaited(connection: Connection) -> bool:
    """Whether another transaction waits for a lock that this one holds."""
    return bool(await connection.fetchval(_queries.is_awaited))
