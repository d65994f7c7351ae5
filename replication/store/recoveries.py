"""Stores the recovery of a node's own entities: sources, their copies, and the chosen copies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from catalog.operations.recovery import ChoiceState, RecoveryFindingAnswer, RecoveryState
from catalog.store.database import Connection
from catalog.store.locks import Gate
from catalog.store.queries import Queries

UNDER_WAY: frozenset[RecoveryState] = frozenset({"reading", "taking", "burying"})
ENDED: frozenset[RecoveryState] = frozenset({"done", "aborted"})
RECOVERY_CHANNEL = "recovery"
"""Announces a change of the recovery."""
_LONG_SECONDS = 3600
_queries = Queries("recoveries", package=__package__)


# Statements name a recovery by the time of its start, so that a runner that still works for a
# replaced recovery changes nothing of the new one.
class RecoveryReplaced(Exception):
    """The recovery was ended or replaced during the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySource:
    """A catalog with copies of this node's entities.

    After the catalog `isread`, `differing` is the number of copies that differ from this node's
    entities, and `unproven` the number of copies without a valid signature. `sealed` is the
    encrypted credential for the catalog.
    """

    number: int
    url: str
    instance: UUID | None
    differing: int
    unproven: int
    isread: bool
    sealed: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The current or last recovery.

    `writes` is the gate of the node. `wanted` to `buried` are the numbers of choices by state,
    `diverged` is the number of choices with rival copies. After a failure, the recovery continues
    at `nextattemptat`. Copies have to be signed by a key of `keys`, which is `None` while the keys
    are unknown, and empty if no signature is needed; `named` has the keys that the operator has
    named. `allowed` is the number of entities that the recovery may delete.
    """

    authority: str
    state: RecoveryState
    writes: Gate
    startedat: datetime
    endedat: datetime | None
    failures: int
    nextattemptat: datetime | None
    error: str | None
    sources: Sequence[RecoverySource]
    wanted: int
    taken: int
    kept: int
    partial: int
    refused: int
    buried: int
    diverged: int
    named: Sequence[str]
    is_unsigned_taken: bool
    keys: Sequence[str] | None
    allowed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    """The numbers of removed entities, of entities about to be removed, and of held entities."""

    removed: int
    about: int
    held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedCopy:
    """The copy of an own entity as a source announces it; `epoch` is `None` without a copy."""

    origin: str
    epoch: int | None
    is_deleted: bool = False
    digest: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCopy:
    """A copy to take, and a `source` that has the copy; `None` if no source has the copy."""

    origin: str
    epoch: int
    digest: bytes
    source: int | None


async def begin(
    connection: Connection,
    sources: Mapping[str, bytes | None],
    at: datetime,
    *,
    named: Sequence[str] = (),
    is_unsigned_taken: bool = False,
    allowed: int = 0,
) -> None:
    """Begin a recovery in place of the former recovery. The caller has locked the whole catalog.

    Args:
        sources: the encrypted credentials for the sources, by URL.
        named, is_unsigned_taken, allowed: the terms of the operator, as in `Recovery`.
    """
    granted = named, is_unsigned_taken, allowed
    await connection.execute(_queries.forget)
    urls, sealed = list(sources), list(sources.values())
    await connection.execute(_queries.begin, urls, at, *granted, sealed)
    await connection.execute(_queries.set_gate, "closed")
    await connection.execute(_queries.announce)


async def read(connection: Connection) -> Recovery | None:
    """Read the recovery; `None` before the first recovery."""
    row = await connection.fetchrow(_queries.read)
    if row is None:
        return None
    sources = [RecoverySource(**source) for source in await connection.fetch(_queries.sources)]
    return Recovery(**row, sources=sources)


async def move_on(
    connection: Connection, recovery: Recovery, state: RecoveryState, gate: Gate
) -> None:
    """Set the state of a recovery, and the position of the gate.

    Raises:
        RecoveryReplaced
    """
    if not await connection.fetchval(_queries.move_on, recovery.startedat, state):
        raise RecoveryReplaced
    await connection.execute(_queries.set_gate, gate)
    await connection.execute(_queries.announce)


async def end(
    connection: Connection, recovery: Recovery, state: RecoveryState, at: datetime
) -> None:
    """End a recovery, and let clients write. The caller has locked the whole catalog.

    Raises:
        RecoveryReplaced
    """
    arguments = (recovery.startedat, state, at)
    if not await connection.fetchval(_queries.end, *arguments, timeout=_LONG_SECONDS):
        raise RecoveryReplaced
    await connection.execute(_queries.set_gate, "open")
    await connection.execute(_queries.announce)


async def note_keys(connection: Connection, recovery: Recovery, keys: Sequence[str]) -> None:
    """Note the keys that have to sign the copies."""
    await connection.execute(_queries.note_keys, recovery.startedat, keys)


async def allow(connection: Connection, recovery: Recovery, number: int) -> None:
    """Let a recovery delete up to `number` entities."""
    await connection.execute(_queries.allow, recovery.startedat, number)


async def ask(connection: Connection, recovery: Recovery, question: str) -> None:
    """Let a recovery wait until the operator allows its deletions.

    Raises:
        RecoveryReplaced
    """
    if not await connection.fetchval(_queries.ask, recovery.startedat, question):
        raise RecoveryReplaced
    await connection.execute(_queries.announce)


async def fail(
    connection: Connection, recovery: Recovery, error: str, nextattemptat: datetime
) -> None:
    await connection.execute(_queries.fail, recovery.startedat, error, nextattemptat)


async def meet(connection: Connection, source: RecoverySource, instance: UUID) -> None:
    """Begin to read a source."""
    await connection.execute(_queries.meet, source.number, instance, timeout=_LONG_SECONDS)


async def add_copies(
    connection: Connection, source: RecoverySource, copies: Sequence[AnnouncedCopy]
) -> None:
    """Note the copies of a source that differ from the entities of this node."""
    await connection.execute(_queries.add_copies, source.number, *_columns(copies))
    await connection.execute(_queries.count_copies, source.number, len(copies), False)


async def note_read(connection: Connection, source: RecoverySource) -> None:
    """Note that a source was read to the end."""
    await connection.execute(_queries.count_copies, source.number, 0, True)


async def change_copies(
    connection: Connection, source: int, copies: Sequence[AnnouncedCopy]
) -> None:
    """Note the changed copies of a source, and forget the choices of their origins."""
    await connection.execute(_queries.change_copies, source, *_columns(copies))
    await connection.execute(_queries.forget_choices, [copy.origin for copy in copies])


async def spoil_copies(connection: Connection, source: int, origins: Collection[str]) -> None:
    """Note that a source did not send announced copies."""
    await connection.execute(_queries.spoil_copies, source, list(origins))


async def doubt_copies(
    connection: Connection, source: int, faults: Sequence[tuple[str, str]]
) -> None:
    """Note that copies of a source are not proven, and forget the choices of their origins."""
    origins = [origin for origin, _ in faults]
    await connection.execute(_queries.doubt_copies, source, origins, [fault for _, fault in faults])
    await connection.execute(_queries.forget_choices, origins)


async def choose(connection: Connection, authority: str) -> None:
    """Choose a copy of each origin of an authority without a choice."""
    await connection.execute(_queries.choose, authority, timeout=_LONG_SECONDS)


async def removals(connection: Connection, authority: str) -> Removals:
    """Count the entities of an authority that the chosen deletions remove."""
    await connection.execute(_queries.count_removals, authority, timeout=_LONG_SECONDS)
    row = await connection.fetchrow(_queries.removals, authority, timeout=_LONG_SECONDS)
    return Removals(**row)


async def next_wanted(connection: Connection, limit: int) -> list[WantedCopy]:
    """Read the next copies to take; no copy of the result is an ancestor of another."""
    return [WantedCopy(**row) for row in await connection.fetch(_queries.next_wanted, limit)]


async def settle(connection: Connection, outcomes: Iterable[tuple[str, ChoiceState, str]]) -> None:
    """Note the outcomes of choices: the origin, the state, and the reason of a refusal."""
    found = list(outcomes)
    columns = [[outcome[place] for outcome in found] for place in range(3)]
    await connection.execute(_queries.settle, *columns)


async def orphans(connection: Connection, authority: str, limit: int) -> dict[str, int]:
    """The chosen entities that are missing because an ancestor is deleted, with their epochs."""
    rows = await connection.fetch(_queries.orphans, authority, limit, timeout=_LONG_SECONDS)
    return {row["origin"]: row["epoch"] for row in rows}


async def note_partial(connection: Connection, authority: str) -> None:
    """Note the taken resources whose default version no source has."""
    await connection.execute(_queries.note_partial, authority, timeout=_LONG_SECONDS)


async def refused(connection: Connection, limit: int) -> dict[str, int]:
    """Read the origins whose copies could not be taken, with the epochs."""
    rows = await connection.fetch(_queries.refused, limit)
    return {row["origin"]: row["epoch"] for row in rows}


async def try_again(connection: Connection) -> None:
    """Forget refused choices and the faults of sources, so that copies are chosen anew."""
    await connection.execute(_queries.try_again)


async def findings(connection: Connection, after: str, limit: int) -> list[RecoveryFindingAnswer]:
    """Read up to `limit` findings about origins after `after`."""
    found = []
    for row in map(dict, await connection.fetch(_queries.findings, after, limit)):
        if row["rivals"] > 1:
            differ = f"{row['rivals']} copies of this epoch differ"
            detail = f"{differ}; the one that is taken was at {row['votes']}. {row['detail']}"
            row["detail"] = detail.strip()
        found.append(RecoveryFindingAnswer(**row))
    return found


def _columns(
    copies: Sequence[AnnouncedCopy],
) -> tuple[list[str], list[int | None], list[bool], list[bytes]]:
    return (
        [copy.origin for copy in copies],
        [copy.epoch for copy in copies],
        [copy.is_deleted for copy in copies],
        [copy.digest for copy in copies],
    )
