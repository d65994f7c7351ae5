"""Stores the handovers of groups between authorities, and the copies in transit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from catalog.model.entity import Tombstone
from catalog.operations.handovers import HandoverRole, HandoverState
from catalog.store.database import Connection
from catalog.store.entities import tombstone_from
from catalog.store.queries import Queries

HANDOVER_CHANNEL = "handovers"
"""Announces a change of a handover."""
ENDED: frozenset[HandoverState] = frozenset({"done", "aborted"})
_KEPT = 1000
_PREFETCH = 100
_LONG_SECONDS = 3600
_queries = Queries("handovers", package=__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The handover of a group at one of its two sides, named by `role`.

    Args:
        xid: the xid of the group.
        peer: the URL of the other side.
        authority: the authority of the other side.
        theirs: the id of the handover at the giver, as the taker knows it.
        floor: the highest epoch of the taker's deletions in the group.
        entities: the number of entities that changed hands.
        error: the reason why the handover does not progress, or has ended.
        sealed: the encrypted credential for the other side.
    """

    id: str
    role: HandoverRole
    xid: str
    peer: str
    authority: str
    state: HandoverState
    theirs: str | None
    floor: int
    entities: int | None
    failures: int
    nextattemptat: datetime | None
    error: str | None
    startedat: datetime
    endedat: datetime | None
    sealed: bytes | None = field(default=None, repr=False)

    @property
    def isover(self) -> bool:
        """Whether the handover has ended."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class Reservation:
    """A group that is to come from an authority; once `promised`, the giver may have let it go."""

    xid: str
    authority: str
    is_promised: bool


async def add(
    connection: Connection,
    *,
    id: str,
    role: HandoverRole,
    xid: str,
    peer: str,
    authority: str,
    at: datetime,
    sealed: bytes | None = None,
) -> Handover | None:
    """Begin a handover; `None` if a handover of the group is open."""
    state = "offered" if role == "give" else "consented"
    row = await connection.fetchrow(_queries.add, id, role, xid, peer, authority, state, at, sealed)
    await connection.execute(_queries.forget_earlier, _KEPT)
    await announce(connection)
    return None if row is None else Handover(**row)


async def _find(connection: Connection, statement: str, *arguments: object) -> Handover | None:
    row = await connection.fetchrow(statement, *arguments)
    return None if row is None else Handover(**row)


async def count_open(connection: Connection) -> int:
    """Count the open handovers."""
    return await connection.fetchval(_queries.count_open)


async def get(connection: Connection, id: str) -> Handover | None:
    return await _find(connection, _queries.get, id)


async def lock(connection: Connection, id: str) -> Handover | None:
    """Read a handover, and lock it until the transaction ends."""
    return await _find(connection, _queries.lock, id)


async def find_taken(
    connection: Connection, authority: str, theirs: str, xid: str
) -> Handover | None:
    """Lock the handover that a giver names by the giver's id, or else the open handover."""
    return await _find(connection, _queries.find_taken, authority, theirs, xid)


async def page(connection: Connection, after: str, limit: int) -> list[Handover]:
    """Read up to `limit` handovers whose ids come after `after`."""
    return [Handover(**row) for row in await connection.fetch(_queries.page, after, limit)]


async def read_due(connection: Connection, now: datetime) -> list[Handover]:
    """Read the handovers with a step that is due now."""
    return [Handover(**row) for row in await connection.fetch(_queries.due, now)]


async def read_next_due(connection: Connection) -> datetime | None:
    """Read the time of the next attempt of a handover."""
    return await connection.fetchval(_queries.next_due)


async def read_reservations(connection: Connection) -> list[Reservation]:
    """Read the groups that are to come from handovers."""
    return [
        Reservation(row["xid"], row["authority"], row["state"] == "promised")
        for row in await connection.fetch(_queries.taken)
    ]


async def read_given(connection: Connection, authority: str, since: datetime) -> frozenset[str]:
    """Read the groups that an authority took from this node after `since` or is yet to take."""
    return frozenset(row["xid"] for row in await connection.fetch(_queries.given, authority, since))


async def move_on(
    connection: Connection,
    handover: Handover,
    state: HandoverState,
    at: datetime,
    *,
    error: str | None = None,
    **changed: Any,
) -> Handover:
    """Set the state of a handover that the caller has locked.

    Args:
        changed: new values of `theirs`, `floor` and `entities`.
    """
    moved = replace(handover, state=state, **changed)
    row = await connection.fetchrow(
        _queries.move_on,
        moved.id,
        moved.state,
        moved.theirs,
        moved.floor,
        moved.entities,
        at if state in ENDED else None,
        error,
    )
    await announce(connection)
    return Handover(**row)


async def postpone(
    connection: Connection, handover: Handover, error: str | None, nextattemptat: datetime
) -> None:
    """Note the next attempt of a handover, and the error; `None` if the handover only waits."""
    await connection.execute(_queries.postpone, handover.id, handover.state, error, nextattemptat)


async def hurry(connection: Connection, handover: Handover) -> None:
    """Retry a handover now."""
    await connection.execute(_queries.hurry, handover.id)
    await announce(connection)


async def announce(connection: Connection) -> None:
    """Wake the process that runs the handovers."""
    await connection.execute(_queries.announce)


async def read_floor(connection: Connection, authority: str, xid: str) -> int:
    """The highest epoch of an authority's deletions at or below a path."""
    return await connection.fetchval(_queries.read_floor, authority, xid)


async def load_deleted(connection: Connection, authority: str, xid: str) -> list[Tombstone]:
    """Read the tombstones of an authority below a path."""
    rows = await connection.fetch(_queries.load_deleted, authority, xid)
    return [tombstone_from(row) for row in rows]


async def add_copies(connection: Connection, id: str, number: int, lines: Sequence[bytes]) -> None:
    """Keep lines for the taker of a group, after the first `number`."""
    await connection.execute(_queries.add_copies, id, number, lines)


async def stream_copies(connection: Connection, id: str) -> AsyncIterator[bytes]:
    """Read the lines for the taker of a group. Needs a transaction."""
    async for row in connection.cursor(_queries.copies, id, prefetch=_PREFETCH):
        yield row["line"]


async def drop_copies(connection: Connection, id: str) -> None:
    """Drop the lines that the taker has received."""
    await connection.execute(_queries.drop_copies, id, timeout=_LONG_SECONDS)


async def leave_sets(connection: Connection, xid: str) -> None:
    """Remove a group and its descendants from the sets of applied documents."""
    await connection.execute(_queries.leave_sets, xid)
